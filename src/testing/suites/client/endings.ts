import assert from 'node:assert/strict'
import type { ClientFixture, ClientTopic } from '../client-fixture.ts'

export const NO_DEADLOCK = 'a deadlock fails the statement like every other error, or there is none'

const ENDED = ['POSTHASTE_COMMIT_ROLLED_BACK', 'POSTHASTE_TRANSACTION_ENDED']

const LOST = 'there is no connection that could be lost'

const lose = async (t: ClientFixture, when: 'before' | 'after'): Promise<void> => {
  const loseCommit = t.need('loseCommit', LOST)
  let cut: Promise<void> | undefined
  await t.rejectsWith('POSTHASTE_COMMIT_UNKNOWN', () =>
    t.outbox.transaction(async (tx) => {
      await t.both(tx, 1)
      cut = loseCommit(when)
    }),
  )
  await cut
}

export const endingsTopic: ClientTopic = {
  title: 'the end of a transaction',
  cases: {
    'an error that was swallowed: all or nothing, and a COMMIT that says ROLLBACK is an error': async (t) => {
      const running = t.outbox.transaction(async (tx) => {
        await t.both(tx, 1)
        await t.harness.fail(tx).catch(() => undefined)
      })
      if (!t.harness.failureEndsTransaction) {
        await running
        await t.expectOnly(1)
        return
      }
      await t.rejectsWith('POSTHASTE_COMMIT_ROLLED_BACK', () => running)
      await t.expectOnly()
    },

    'a publish after an error that was swallowed is stored with the data or refused': async (t) => {
      const running = t.outbox.transaction(async (tx) => {
        await t.harness.write(tx, 1)
        await t.harness.fail(tx).catch(() => undefined)
        await t.publish(tx, 'e1')
      })
      if (!t.harness.failureEndsTransaction) {
        await running
        await t.expectOnly(1)
        return
      }
      await assert.rejects(running)
      await t.expectOnly()
    },

    // It may reach the database before COMMIT or too late for it.
    'a statement that fails and that nobody waits for: all or nothing, as was said': async (t) => {
      const running = t.outbox.transaction(async (tx) => {
        await t.both(tx, 1)
        t.harness.fail(tx).catch(() => undefined)
      })
      const code = await running.then(
        () => null,
        (error: { readonly code?: unknown }) => error.code,
      )
      if (code === null) {
        await t.expectOnly(1)
        return
      }
      assert.equal(code, 'POSTHASTE_COMMIT_ROLLED_BACK')
      await t.expectOnly()
    },

    'a deadlock that was swallowed: rolled back, and nothing is sent': async (t) => {
      const deadlock = t.need('deadlock', NO_DEADLOCK)
      const running = t.outbox.transaction(async (tx) => {
        await t.both(tx, 1)
        await assert.rejects(() => deadlock(tx))
      })
      await assert.rejects(running, ({ code }: { readonly code?: unknown }) => ENDED.includes(String(code)))
      await t.expectOnly()
    },

    'a publish after a deadlock that was swallowed is refused': async (t) => {
      const deadlock = t.need('deadlock', NO_DEADLOCK)
      const running = t.outbox.transaction(async (tx) => {
        await assert.rejects(() => deadlock(tx))
        await t.publish(tx, 'e1')
      })
      await assert.rejects(running)
      await t.expectOnly()
    },

    'a publish that fails and is swallowed leaves nothing behind': async (t) => {
      const id = '018f0000-0000-7000-8000-0000000000ab'
      await t.outbox.transaction(async (tx) => {
        await t.harness.write(tx, 1)
        await t.outbox.publish(tx, { type: 'e1', payload: 1, id })
      })
      const again = t.outbox.transaction(async (tx) => {
        await t.outbox
          .publish(tx, { type: 'e2', payload: 2, id, idempotencyKey: 'k' })
          .catch((error: { readonly code?: unknown }) => assert.equal(error.code, 'POSTHASTE_CONFLICT'))
      })
      if (t.harness.failureEndsTransaction) await t.rejectsWith('POSTHASTE_COMMIT_ROLLED_BACK', () => again)
      else await again
      await t.outbox.transaction(async (tx) => {
        await t.harness.write(tx, 3)
        await t.publish(tx, 'e3', { idempotencyKey: 'k' })
      })
      await t.expectOnly(1, 3)
    },

    'a COMMIT that the database refuses: rolled back, and nothing is sent': async (t) => {
      const spoil = t.need('spoilCommit', 'nothing is checked as late as at COMMIT here')
      await t.rejectsWith('POSTHASTE_COMMIT_ROLLED_BACK', () =>
        t.outbox.transaction(async (tx) => {
          await t.both(tx, 1)
          await spoil(tx)
        }),
      )
      await t.expectOnly()
    },

    'a connection lost before COMMIT arrived: unknown, and nothing is sent': async (t) => {
      await lose(t, 'before')
      await t.expectOnly()
    },

    'a connection lost before the answer to COMMIT: unknown, and the poller delivers': async (t) => {
      await lose(t, 'after')
      await t.expectOnly(1)
      assert.equal(t.sourceOf('e1'), 'cold')
    },

    'a connection lost in the middle: an error, and nothing is sent': async (t) => {
      const loseCommit = t.need('loseCommit', LOST)
      // The pool gets over it.
      const cut = loseCommit('before')
      await t.outbox.transaction((tx) => t.both(tx, 1)).catch(() => undefined)
      await cut
      await t.outbox.transaction((tx) => t.both(tx, 2))
      await t.expectOnly(2)
    },
  },
}
