import assert from 'node:assert/strict'
import type { ClientTopic } from '../client-fixture.ts'

const OVERLAPPING = 12

export const transactionTopic: ClientTopic = {
  title: 'outbox.transaction',
  cases: {
    'stores the event with the data and delivers it the hot way': async (t) => {
      await t.goesHot((n) => t.outbox.transaction((tx) => t.both(tx, n)))
    },

    'returns what the function returns': async (t) => {
      assert.deepEqual(await t.outbox.transaction(async () => ({ a: 1 })), { a: 1 })
    },

    'sends nothing before the commit': async (t) => {
      await t.outbox.transaction(async (tx) => {
        await t.both(tx, 1)
        assert.deepEqual(t.types, [])
      })
      await t.expectOnly(1)
    },

    'takes both back when the function throws, and passes the error on': async (t) => {
      const reason = new Error('business')
      const running = t.outbox.transaction(async (tx) => {
        await t.both(tx, 1)
        throw reason
      })
      await assert.rejects(running, (error) => error === reason)
      await t.expectOnly()
    },

    'takes both back when a statement in the middle fails': async (t) => {
      let said: unknown
      const running = t.outbox.transaction(async (tx) => {
        await t.both(tx, 1)
        await t.harness.fail(tx).catch((error: unknown) => {
          said = error
          throw error
        })
        await t.both(tx, 2)
      })
      await assert.rejects(running, (error) => error === said && error !== undefined)
      await t.expectOnly()
    },

    'goes on after a rollback as if nothing had been': async (t) => {
      for (let n = 0; n < 6; n++) {
        const running = t.outbox.transaction(async (tx) => {
          await t.both(tx, n)
          if (n % 2 === 0) throw new Error('no')
        })
        await running.catch(() => undefined)
      }
      await t.expectOnly(1, 3, 5)
    },

    'keeps transactions that run at the same time apart': async (t) => {
      const numbers = Array.from({ length: OVERLAPPING }, (_, n) => n)
      await Promise.allSettled(
        numbers.map((n) =>
          t.outbox.transaction(async (tx) => {
            await t.both(tx, n)
            if (n % 3 === 0) throw new Error('no')
          }),
        ),
      )
      await t.expectOnly(...numbers.filter((n) => n % 3 !== 0))
    },

    'takes several publishes at once in one transaction': async (t) => {
      await t.outbox.transaction(async (tx) => {
        await Promise.all([1, 2, 3, 4, 5].map((n) => t.publish(tx, `e${n}`)))
      })
      await t.settled()
      assert.deepEqual(t.types.sort(), ['e1', 'e2', 'e3', 'e4', 'e5'])
    },

    'waits for a publish that nobody awaited': async (t) => {
      await t.outbox.transaction(async (tx) => {
        await t.harness.write(tx, 1)
        void t.publish(tx, 'e1')
      })
      await t.expectOnly(1)
    },

    'publishes without a handle inside the function': async (t) => {
      await t.outbox.transaction(async (tx) => {
        await t.harness.write(tx, 1)
        await t.outbox.publish({ type: 'e1', payload: 1 })
      })
      await t.expectOnly(1)
    },

    'asks tracked objects for their events before the commit': async (t) => {
      await t.outbox.transaction(async (tx) => {
        const events = [{ type: 'e1', payload: 1 }]
        t.outbox.track({ pullEvents: () => events.splice(0) })
        await t.harness.write(tx, 1)
      })
      await t.expectOnly(1)
    },

    'begins and commits by hand': async (t) => {
      t.needs(t.harness.transactions.begin !== undefined, 'the library only knows functions')
      await using open = await t.outbox.begin()
      await t.harness.write(open.tx, 1)
      await open.publish({ type: 'e1', payload: 1 })
      await open.commit()
      await t.expectOnly(1)
    },

    'begins and rolls back by hand': async (t) => {
      t.needs(t.harness.transactions.begin !== undefined, 'the library only knows functions')
      const open = await t.outbox.begin()
      await t.both(open.tx, 1)
      await open.rollback()
      {
        await using left = await t.outbox.begin()
        await t.both(left.tx, 2)
      }
      await t.expectOnly()
    },
  },
}
