import assert from 'node:assert/strict'
import type { ClientTopic } from '../client-fixture.ts'

const REFUSALS = ['POSTHASTE_NO_TRANSACTION', 'POSTHASTE_TRANSACTION_ENDED']

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
  },
}
