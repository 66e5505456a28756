import assert from 'node:assert/strict'
import type { ClientFixture, ClientTopic } from '../client-fixture.ts'

const needsNesting = (t: ClientFixture): void =>
  t.needs(t.harness.transactions.nested !== undefined, 'the library has no nested transactions')

const swallow = (): undefined => undefined

export const nestingTopic: ClientTopic = {
  title: 'nested transactions',
  cases: {
    'that end well are part of the outer one': async (t) => {
      needsNesting(t)
      await t.outbox.transaction(async (tx) => {
        await t.both(tx, 1)
        await t.outbox.transaction((inner) => t.both(inner, 2))
        await t.both(tx, 3)
      })
      await t.expectOnly(1, 2, 3)
    },

    'that throw take back what was theirs, and no more': async (t) => {
      needsNesting(t)
      await t.outbox.transaction(async (tx) => {
        await t.both(tx, 1)
        const reason = new Error('changed my mind')
        const nested = t.outbox.transaction(async (inner) => {
          await t.both(inner, 2)
          await t.outbox.transaction((innermost) => t.both(innermost, 3))
          throw reason
        })
        await assert.rejects(nested, (error) => error === reason)
        await t.outbox.transaction((inner) => t.both(inner, 4))
        await t.both(tx, 5)
      })
      await t.expectOnly(1, 4, 5)
    },

    'keep a statement that fails from spoiling the outer one': async (t) => {
      needsNesting(t)
      await t.outbox.transaction(async (tx) => {
        await t.both(tx, 1)
        await t.outbox
          .transaction(async (inner) => {
            await t.both(inner, 2)
            await t.harness.fail(inner)
          })
          .catch(swallow)
        await t.both(tx, 3)
      })
      await t.expectOnly(1, 3)
    },

    'go with the outer one': async (t) => {
      needsNesting(t)
      const running = t.outbox.transaction(async (tx) => {
        await t.outbox.transaction((inner) => t.both(inner, 1))
        await t.both(tx, 2)
        throw new Error('no')
      })
      await assert.rejects(running)
      await t.expectOnly()
    },

    'of the library itself, undone: what was published on the outer handle is not sent': async (t) => {
      const nest = t.need('ownNested', 'the library has no nested transactions')
      await t.outbox.transaction(async (tx) => {
        await t.both(tx, 1)
        await nest(tx, async (inner) => {
          await t.harness.write(inner, 2)
          await t.publish(tx, 'e2')
          throw new Error('undo')
        }).catch(swallow)
      })
      await t.expectOnly(1)
    },

    'of the library itself: what was published on the inner handle shares its fate': async (t) => {
      const nest = t.need('ownNested', 'the library has no nested transactions')
      await t.outbox.transaction(async (tx) => {
        await nest(tx, async (inner) => {
          await t.both(inner, 1)
          throw new Error('undo')
        }).catch(swallow)
        await nest(tx, (inner) => t.both(inner, 2))
      })
      await t.expectOnly(2)
    },
  },
}
