import assert from 'node:assert/strict'
import type { ClientTopic } from '../client-fixture.ts'
import { NO_DEADLOCK } from './endings.ts'

export const ownTopic: ClientTopic = {
  title: 'a transaction that the application opened',
  cases: {
    'stores the event with the data, and it is delivered': async (t) => {
      await t.harness.own((tx) => t.both(tx, 1))
      await t.expectOnly(1)
    },

    'takes both back': async (t) => {
      const reason = new Error('business')
      await assert.rejects(
        t.harness.own(async (tx) => {
          await t.both(tx, 1)
          throw reason
        }),
      )
      await t.expectOnly()
    },

    'is delivered the hot way where the library tells of the commit': async (t) => {
      t.needs(t.harness.transactions.observe !== undefined, 'the library has no commit hooks')
      await t.goesHot((n) => t.harness.own((tx) => t.both(tx, n)))
    },

    'a publish after a deadlock that was swallowed is refused': async (t) => {
      const deadlock = t.need('deadlock', NO_DEADLOCK)
      const running = t.harness.own(async (tx) => {
        await t.harness.write(tx, 1)
        await assert.rejects(() => deadlock(tx))
        await assert.rejects(t.publish(tx, 'e1'))
      })
      // Some libraries have noticed by then, others take the commit of nothing for success.
      await running.catch(() => undefined)
      await t.expectOnly()
    },

    'so is one after an earlier publish': async (t) => {
      const deadlock = t.need('deadlock', NO_DEADLOCK)
      const running = t.harness.own(async (tx) => {
        await t.both(tx, 1)
        await assert.rejects(() => deadlock(tx))
        await assert.rejects(t.publish(tx, 'e2'))
      })
      await running.catch(() => undefined)
      await t.expectOnly()
    },

    'several at the same time are kept apart': async (t) => {
      const numbers = [1, 2, 3, 4, 5, 6]
      await Promise.allSettled(
        numbers.map((n) =>
          t.harness.own(async (tx) => {
            await t.both(tx, n)
            if (n % 2 === 0) throw new Error('no')
          }),
        ),
      )
      await t.expectOnly(1, 3, 5)
    },

    'several publishes at once': async (t) => {
      await t.harness.own(async (tx) => {
        await Promise.all([1, 2, 3].map((n) => t.publish(tx, `e${n}`)))
      })
      await t.settled()
      assert.deepEqual(t.types.sort(), ['e1', 'e2', 'e3'])
    },

    'a nested one of the library that is undone sends nothing': async (t) => {
      const nest = t.need('ownNested', 'the library has no nested transactions')
      await t.harness.own(async (tx) => {
        await t.both(tx, 1)
        await nest(tx, async (inner) => {
          await t.both(inner, 2)
          throw new Error('undo')
        }).catch(() => undefined)
        await nest(tx, (inner) => t.both(inner, 3))
      })
      await t.expectOnly(1, 3)
    },
  },
}
