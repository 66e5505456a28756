import assert from 'node:assert/strict'
import type { ClientFixture, ClientTopic } from '../client-fixture.ts'
import { signal, slowEvent } from './slow-event.ts'

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

    'that still run when the outer one fails end before it does': async (t) => {
      needsNesting(t)
      const [entered, goOn] = [signal(), signal()]
      let nested: Promise<unknown> = Promise.resolve()
      let hasEnded = false
      const running = t.outbox.transaction(async () => {
        nested = t.outbox
          .transaction(async (inner) => {
            await t.both(inner, 1)
            entered.give()
            await goOn.given
            await t.harness.write(inner, 2)
          })
          .finally(() => {
            hasEnded = true
          })
        await entered.given
        setImmediate(goOn.give)
        throw new Error('no')
      })
      await assert.rejects(running, /^Error: no$/)
      // Later its statements would be in whatever the connection is used for next.
      assert.equal(hasEnded, true)
      await Promise.allSettled([nested])
      await t.outbox.transaction((tx) => t.both(tx, 3))
      await t.expectOnly(3)
    },

    'that still run when the one around them fails leave the outer one well': async (t) => {
      needsNesting(t)
      const [entered, goOn] = [signal(), signal()]
      let innermost: Promise<unknown> = Promise.resolve()
      await t.outbox.transaction(async (tx) => {
        await t.both(tx, 1)
        const nested = t.outbox.transaction(async () => {
          innermost = t.outbox.transaction(async (inner) => {
            await t.both(inner, 2)
            entered.give()
            await goOn.given
            throw new Error('later')
          })
          await entered.given
          setImmediate(goOn.give)
          throw new Error('no')
        })
        await assert.rejects(nested, /^Error: no$/)
        await Promise.allSettled([innermost])
        await t.outbox.transaction((inner) => t.both(inner, 3))
        await t.both(tx, 4)
      })
      await t.expectOnly(1, 3, 4)
    },

    'that wait for a publish do not begin when the outer one has failed': async (t) => {
      needsNesting(t)
      const { draft, answer } = slowEvent('late')
      let begun = false
      let nested: Promise<unknown> = Promise.resolve()
      const running = t.outbox.transaction(async (tx) => {
        const late = t.outbox.publish(tx, draft)
        late.catch(swallow)
        nested = t.outbox.transaction(async (inner) => {
          begun = true
          await t.both(inner, 1)
        })
        throw new Error('no')
      })
      await assert.rejects(running, /^Error: no$/)
      answer()
      await assert.rejects(nested)
      assert.equal(begun, false)
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
