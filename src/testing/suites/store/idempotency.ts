import assert from 'node:assert/strict'
import { Inapplicable } from '../run-suite.ts'
import { idsOf, LONG_MS, rejectsWithCode, type Topic } from '../store-fixture.ts'

export const idempotencyTopic: Topic = {
  title: 'idempotency',
  cases: {
    'the same idempotency key publishes nothing again and names the first event': async (t) => {
      const first = await t.publish({ idempotencyKey: 'once' })
      const again = t.prepare({ idempotencyKey: 'once' })
      const { duplicates } = await t.insert({ events: [again.event], deliveries: [again.delivery] })
      // A client whose library returns no rows cannot tell; then the map is empty, never wrong.
      if (duplicates.size > 0) assert.deepEqual([...duplicates], [[again.event.id, first.event.id]])
      assert.deepEqual(await t.readableIds(), [first.delivery.id])
      assert.equal(await t.store.inspection.event(again.event.id), null)
    },

    'a duplicate does not take the other events of its call with it': async (t) => {
      await t.publish({ idempotencyKey: 'once' })
      const [duplicate, other] = [t.prepare({ idempotencyKey: 'once' }), t.prepare()]
      await t.insert({
        events: [duplicate.event, other.event],
        deliveries: [duplicate.delivery, other.delivery],
      })
      assert.equal(await t.store.inspection.event(duplicate.event.id), null)
      assert.equal((await t.detail(other)).deliveries.length, 1)
    },

    'the same idempotency key of another type is another event': async (t) => {
      const one = await t.publish({ type: 'a.b', idempotencyKey: 'once' })
      const two = await t.publish({ type: 'a.c', idempotencyKey: 'once' })
      assert.deepEqual(await t.readableIds(), idsOf([one, two]))
    },

    'a key that two types have names the first event of the type that is repeated': async (t) => {
      const types = ['a.b', 'a.c']
      const firsts = new Map<string, string>()
      for (const type of types) firsts.set(type, (await t.publish({ type, idempotencyKey: 'once' })).event.id)
      for (const type of types) {
        const { event, delivery } = t.prepare({ type, idempotencyKey: 'once' })
        const { duplicates } = await t.insert({ events: [event], deliveries: [delivery] })
        if (duplicates.size > 0) assert.equal(duplicates.get(event.id), firsts.get(type))
      }
    },

    'a duplicate within one transaction is recognised too': async (t) => {
      const [one, two] = [t.prepare({ idempotencyKey: 'once' }), t.prepare({ idempotencyKey: 'once' })]
      await t.transactions.run(async (tx) => {
        await t.publishIn(tx, one)
        await t.publishIn(tx, two)
      })
      assert.deepEqual(await t.readableIds(), [one.delivery.id])
    },

    'a duplicate within one call is recognised too': async (t) => {
      const [one, two] = [t.prepare({ idempotencyKey: 'once' }), t.prepare({ idempotencyKey: 'once' })]
      await t.insert({ events: [one.event, two.event], deliveries: [one.delivery, two.delivery] })
      assert.deepEqual(await t.readableIds(), [one.delivery.id])
    },

    'the idempotency key of a transaction that was rolled back is free': async (t) => {
      const open = await t.begin()
      await t.publishIn(open.tx, t.prepare({ idempotencyKey: 'once' }))
      await open.rollback()
      const second = await t.publish({ idempotencyKey: 'once' })
      assert.deepEqual(await t.readableIds(), [second.delivery.id])
    },

    'an insert that fails leaves nothing behind, also when the transaction goes on and commits': async (
      t,
    ) => {
      const there = await t.publish()
      const taken = t.prepare({ id: there.event.id, idempotencyKey: 'once' })
      const beside = t.prepare({ idempotencyKey: 'beside' })
      const event = t.event({ idempotencyKey: 'delivery' })
      const clashing = { ...t.delivery(event), id: there.delivery.id }
      const unkeyed = t.event()
      const requests = [
        { events: [beside.event, taken.event], deliveries: [beside.delivery, taken.delivery] },
        { events: [event], deliveries: [t.delivery(event, { destination: 'beta' }), clashing] },
        { events: [unkeyed], deliveries: [{ ...t.delivery(unkeyed), id: there.delivery.id }] },
      ]
      for (const request of requests) {
        const open = await t.begin()
        await rejectsWithCode(t.insertIn(open.tx, request), 'POSTHASTE_CONFLICT')
        // A database that gives the transaction up after a failed statement has nothing to commit.
        await open.commit().catch(() => undefined)
      }
      for (const { id } of [beside.event, event, unkeyed])
        assert.equal(await t.store.inspection.event(id), null)
      assert.deepEqual(await t.readableIds('beta'), [])
      const later = [
        await t.publish({ idempotencyKey: 'once' }),
        await t.publish({ idempotencyKey: 'beside' }),
        await t.publish({ idempotencyKey: 'delivery' }),
      ]
      assert.deepEqual(await t.readableIds(), idsOf([there, ...later]))
    },

    'the same event with its id and idempotency key again is a duplicate, finished or not': async (t) => {
      const me = await t.worker()
      const first = await t.publish({ idempotencyKey: 'once' })
      const repeat = async (): Promise<void> => {
        const again = t.prepare({ id: first.event.id, idempotencyKey: 'once' })
        const other = t.delivery(again.event, { destination: 'beta' })
        const { duplicates } = await t.insert({
          events: [again.event],
          deliveries: [again.delivery, other],
        })
        if (duplicates.size > 0) assert.deepEqual([...duplicates], [[first.event.id, first.event.id]])
        assert.equal((await t.detail(first)).deliveries.length, 1)
      }
      await repeat()
      await t.done(first, me.right)
      await repeat()
      assert.deepEqual(await t.readableIds(), [])
    },

    'the same event with its id and idempotency key again in one transaction is a duplicate': async (t) => {
      const first = t.prepare({ idempotencyKey: 'once' })
      const again = t.prepare({ id: first.event.id, idempotencyKey: 'once' })
      await t.transactions.run(async (tx) => {
        await t.publishIn(tx, first)
        await t.publishIn(tx, again)
      })
      assert.deepEqual(await t.readableIds(), [first.delivery.id])
    },

    'an id that is there already is refused unless type and idempotency key are the same': async (t) => {
      const plain = await t.publish()
      const keyed = await t.publish({ type: 'a.b', idempotencyKey: 'once' })
      const clashes = [
        t.prepare({ id: plain.event.id }),
        t.prepare({ id: keyed.event.id, type: 'a.b' }),
        t.prepare({ id: keyed.event.id, type: 'a.b', idempotencyKey: 'other' }),
        t.prepare({ id: keyed.event.id, type: 'a.c', idempotencyKey: 'once' }),
      ]
      for (const { event, delivery } of clashes)
        await rejectsWithCode(t.insert({ events: [event], deliveries: [delivery] }), 'POSTHASTE_CONFLICT')
      assert.deepEqual(await t.readableIds(), idsOf([plain, keyed]))
    },

    'of two transactions at once with the same id the second is refused, not forgotten': async (t) => {
      t.needsOverlap()
      const first = t.prepare()
      const second = t.prepare({ id: first.event.id })
      const beside = t.prepare()
      const [one, two] = [await t.begin(), await t.begin()]
      await t.publishIn(one.tx, first)
      await t.publishIn(two.tx, beside)
      // It may wait for the end of the other, or be refused at its own.
      const ended = (async () => {
        await t.publishIn(two.tx, second)
        await two.commit()
      })()
      const refused = rejectsWithCode(ended, 'POSTHASTE_CONFLICT')
      await one.commit()
      await refused
      await two.rollback()
      assert.deepEqual(await t.readableIds(), idsOf([first]))
      assert.equal(await t.store.inspection.event(beside.event.id), null)
    },

    'publishes of one transaction that run at once do not both win an idempotency key': async (t) => {
      const all = Array.from({ length: 3 }, () => t.prepare({ idempotencyKey: 'once' }))
      await t.transactions.run((tx) => Promise.all(all.map((one) => t.publishIn(tx, one))))
      assert.equal((await t.readableIds()).length, 1)
    },

    'two open transactions with one idempotency key both commit and one event remains': async (t) => {
      t.needsOverlap()
      const [one, two] = [t.prepare({ idempotencyKey: 'once' }), t.prepare({ idempotencyKey: 'once' })]
      const [first, second] = [await t.begin(), await t.begin()]
      await t.publishIn(first.tx, one)
      // A database that locks the key lets the second insert wait for the first commit.
      const waiting = t.publishIn(second.tx, two)
      await first.commit()
      await waiting
      await second.commit()
      assert.deepEqual(await t.readableIds(), [one.delivery.id])
      assert.equal(await t.store.inspection.event(two.event.id), null)
    },

    'a synchronous insert does the same': async (t) => {
      if (!t.store.capabilities.synchronous) throw new Inapplicable('the store has no synchronous insert')
      const first = t.prepare({ idempotencyKey: 'once' })
      const again = t.prepare({ idempotencyKey: 'once' })
      await t.transactions.run(async (tx) => {
        const executor = t.transactions.executor(tx)
        for (const { event, delivery } of [first, again]) {
          const request = { events: [event], deliveries: [delivery], hotLeaseMs: LONG_MS, lockKeys: false }
          t.store.insertSync!(executor, request)
        }
      })
      assert.deepEqual(await t.readableIds(), [first.delivery.id])
    },
  },
}
