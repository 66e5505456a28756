import assert from 'node:assert/strict'
import { AsyncLocalStorage } from 'node:async_hooks'
import type { ClientTopic } from '../client-fixture.ts'

const REFUSALS = ['POSTHASTE_NO_TRANSACTION', 'POSTHASTE_TRANSACTION_ENDED']

/** As modules for dependency injection make them: one object for all requests, in each of which it is another transaction. */
const ambientHandle = (): { readonly handle: object; run<T>(tx: unknown, fn: () => T): T } => {
  const current = new AsyncLocalStorage<unknown>()
  const handle = new Proxy<object>(
    {},
    {
      get(_, name) {
        const tx = current.getStore() as object
        const member: unknown = Reflect.get(tx, name)
        return typeof member === 'function' ? member.bind(tx) : member
      },
    },
  )
  return { handle, run: (tx, fn) => current.run(tx, fn) }
}

const isUnsupported = (outcome: PromiseSettledResult<unknown>): boolean =>
  outcome.status === 'rejected' && outcome.reason?.code === 'POSTHASTE_UNSUPPORTED'

export const handlesTopic: ClientTopic = {
  title: 'handles',
  cases: {
    'outside of a transaction are refused, with an error that says how to get one': async (t) => {
      for (const handle of t.harness.outside) {
        await assert.rejects(
          () => t.publish(handle, 'e1'),
          (error: { readonly code?: unknown; readonly message?: unknown }) => {
            assert.equal(error.code, 'POSTHASTE_NO_TRANSACTION', String(error))
            assert.match(String(error.message), /transaction/)
            return true
          },
        )
      }
      await t.expectOnly()
    },

    'of something else are refused': async (t) => {
      for (const handle of [{}, [], () => undefined, 'tx', null, 7]) {
        await t.rejectsWith('POSTHASTE_NO_TRANSACTION', () => t.publish(handle, 'e1'))
      }
      await t.expectOnly()
    },

    'of outbox.transaction are refused after its end': async (t) => {
      let kept: unknown
      await t.outbox.transaction(async (tx) => {
        kept = tx
        await t.both(tx, 1)
      })
      await t.rejectsWith('POSTHASTE_TRANSACTION_ENDED', () => t.publish(kept, 'e2'))
      await t.outbox
        .transaction(async (tx) => {
          kept = tx
          throw new Error('no')
        })
        .catch(() => undefined)
      await t.rejectsWith('POSTHASTE_TRANSACTION_ENDED', () => t.publish(kept, 'e3'))
      await t.expectOnly(1)
    },

    'of a transaction that the application opened are refused after its end': async (t) => {
      let kept: unknown
      await t.harness.own(async (tx) => {
        kept = tx
        await t.both(tx, 1)
      })
      await assert.rejects(
        () => t.publish(kept, 'e2'),
        (error: { readonly code?: unknown }) => {
          assert.ok(REFUSALS.includes(String(error.code)), String(error))
          return true
        },
      )
      await t.expectOnly(1)
    },

    'that are another transaction in each asynchronous context are kept apart, or refused': async (t) => {
      const { handle, run } = ambientHandle()
      const numbers = [1, 2, 3, 4, 5, 6]
      const outcomes = await Promise.allSettled(
        numbers.map((n) =>
          t.harness.own((tx) =>
            run(tx, async () => {
              await t.harness.write(tx, n)
              await t.publish(handle, `e${n}`)
              if (n % 2 === 0) throw new Error('no')
            }),
          ),
        ),
      )
      const isRefused = outcomes.some(isUnsupported)
      await (isRefused ? t.expectOnly() : t.expectOnly(1, 3, 5))
    },
  },
}
