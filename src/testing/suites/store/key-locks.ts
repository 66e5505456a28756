import assert from 'node:assert/strict'
import { idsOf, type Published, type Topic } from '../store-fixture.ts'

const locking = ({ event, delivery }: Published) => ({
  events: [event],
  deliveries: [delivery],
  lockKeys: true,
})

/** Begins the insert and says whether it is still waiting after everybody else had a turn. */
const isWaiting = async (inserted: Promise<unknown>): Promise<boolean> => {
  const waited = Symbol('waited')
  const pause = new Promise((resolve) => setTimeout(resolve, 50, waited))
  return (await Promise.race([inserted, pause])) === waited
}

export const keyLocksTopic: Topic = {
  title: 'locked keys',
  cases: {
    'an insert that locks its keys stores like any other': async (t) => {
      const all = ['k', 'l', null, 'k'].map((key) => t.prepare({ key }))
      await t.insert({
        events: all.map(({ event }) => event),
        deliveries: all.map(({ delivery }) => delivery),
        lockKeys: true,
      })
      assert.deepEqual(await t.readableIds(), idsOf(all))
    },

    'one transaction may write its keys again': async (t) => {
      const [one, two] = [t.prepare({ key: 'k' }), t.prepare({ key: 'k' })]
      await t.transactions.run(async (tx) => {
        await t.insertIn(tx, locking(one))
        await t.insertIn(tx, locking(two))
      })
      assert.deepEqual(await t.readableIds(), idsOf([one, two]))
    },

    'writers of one key take turns, and whoever was first has the lower number': async (t) => {
      t.needsOverlap()
      const [one, two] = [t.prepare({ key: 'k' }), t.prepare({ key: 'k' })]
      const [first, second] = [await t.begin(), await t.begin()]
      await t.insertIn(first.tx, locking(one))
      const inserted = t.insertIn(second.tx, locking(two))
      assert.equal(await isWaiting(inserted), true)
      await first.commit()
      await inserted
      await second.commit()
      assert.deepEqual(await t.readableIds(), idsOf([one, two]))
    },

    'a rollback lets the next writer go': async (t) => {
      t.needsOverlap()
      const [one, two] = [t.prepare({ key: 'k' }), t.prepare({ key: 'k' })]
      const [first, second] = [await t.begin(), await t.begin()]
      await t.insertIn(first.tx, locking(one))
      const inserted = t.insertIn(second.tx, locking(two))
      await first.rollback()
      await inserted
      await second.commit()
      assert.deepEqual(await t.readableIds(), idsOf([two]))
    },
  },
}
