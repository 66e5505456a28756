import assert from 'node:assert/strict'
import { UNROUTED } from '../../../core/model/index.ts'
import type { ReconciledDelivery, UnheardBatch } from '../../../core/spi/index.ts'
import {
  LONG_MS,
  OPERATOR,
  type Published,
  rejectsWithCode,
  type StoreFixture,
  type Topic,
} from '../store-fixture.ts'

/** Declares it now, so that everything before is older than it, and says up to which position that is. */
const declareLate = async (t: StoreFixture, name = 'beta'): Promise<bigint> => {
  const { destinations } = await t.store.registry.declare([{ name, patterns: ['*'] }])
  return destinations.find((one) => one.name === name)!.patternsFrom[0]!
}

const findAll = async (t: StoreFixture, upTo: bigint, limit = 100): Promise<UnheardBatch['events']> => {
  const found: UnheardBatch['events'][number][] = []
  for (let after = 0n, more = true; more; ) {
    const batch = await t.store.registry.findUnheard({ destination: 'beta', after, upTo, limit })
    assert.ok(batch.scanned <= limit && batch.scannedTo > after)
    found.push(...batch.events)
    ;({ scannedTo: after, more } = batch)
  }
  return found
}

const idsOf = (published: readonly Published[]): string[] => published.map(({ event }) => event.id)

const deliveriesOf = (t: StoreFixture, events: UnheardBatch['events']): ReconciledDelivery[] =>
  events.map(({ id, seq, key, size }) => ({
    id: t.newId(),
    eventId: id,
    destination: 'beta',
    lane: 3,
    key,
    size,
    seq,
  }))

const add = async (t: StoreFixture, events: UnheardBatch['events']): Promise<number> =>
  t.store.operations.backfill('beta', deliveriesOf(t, events), { since: 'then' }, OPERATOR)

export const backfillTopic: Topic = {
  title: 'back-fill',
  cases: {
    'stored events are found in order and in bounded steps, whatever routes they were published with': async (
      t,
    ) => {
      await t.declare('alpha')
      const all: Published[] = []
      for (const [i, routesVersion] of [3, 1, 2, 1, 3].entries())
        all.push(await t.publish({ routesVersion, key: `k${i}`, type: `t${i}` }))
      const upTo = await declareLate(t)
      const later = await t.publish()
      const found = await findAll(t, upTo, 2)
      assert.deepEqual(
        found.map(({ id }) => id),
        idsOf(all),
      )
      assert.deepEqual(
        found.map(({ type, key, size }) => [type, key, size]),
        all.map(({ event }) => [event.type, event.key, event.size]),
      )
      const { event } = (await t.store.inspection.event(all[0]!.event.id))!
      assert.ok(Math.abs(found[0]!.createdAtMs - event.createdAtMs) <= 1)
      assert.ok(!found.some(({ id }) => id === later.event.id))
      const [first, second] = found
      const from = await t.store.registry.eventFrom(first!.seq + 1n)
      assert.equal(from!.seq, second!.seq)
      assert.ok(Math.abs(from!.createdAtMs - second!.createdAtMs) <= 1)
      assert.equal(await t.store.registry.eventFrom(upTo + 1_000n), null)
    },

    'what the destination has unfinished, dead, done or given up is not among them': async (t) => {
      const me = await t.worker()
      const [pending, dead, done, discarded] = await t.publishMany(4, { destination: 'beta' })
      const missing = await t.publish()
      await t.dead(dead!, me.right)
      await t.done(done!, me.right)
      await t.store.operations.discard({ eventIds: [discarded!.event.id], limit: 1 }, OPERATOR)
      const found = await findAll(t, await declareLate(t))
      assert.deepEqual(
        found.map(({ id }) => id),
        idsOf([missing]),
      )
      assert.equal(await t.status(pending!), 'pending')
    },

    'neither is what waits for its routes, nor a corrected copy for somebody else': async (t) => {
      const me = await t.worker()
      await t.publish({ destination: UNROUTED, routesVersion: 0 })
      const wrong = await t.publish()
      await t.dead(wrong, me.right)
      const copy = t.event({ replacesId: wrong.event.id })
      await t.store.operations.edit(wrong.delivery.id, copy, t.newId(), OPERATOR)
      const found = await findAll(t, await declareLate(t))
      assert.deepEqual(
        found.map(({ id }) => id),
        idsOf([wrong]),
      )
    },

    'what is added is a first run in its place, once, and recorded': async (t) => {
      const all = await t.publishMany(3, { key: 'k' })
      const found = await findAll(t, await declareLate(t))
      assert.equal(await add(t, found), 3)
      assert.equal(await add(t, found), 0)
      const { fresh } = await t.read({ destination: 'beta' })
      assert.deepEqual(
        fresh.map(({ event, seq, run, lane, key, attempts }) => [event?.id, seq, run, lane, key, attempts]),
        found.map(({ id, seq }) => [id, seq, 1, 3, 'k', 0]),
      )
      assert.deepEqual(
        fresh.map(({ event }) => event?.id),
        idsOf(all),
      )
      assert.deepEqual(await findAll(t, await declareLate(t)), [])
      const [again, first] = await t.store.inspection.audit({ limit: 2 })
      assert.deepEqual(
        [first!.actor, first!.action, first!.reason, first!.count, again!.count],
        ['ops', 'backfill', 'a test', 3, 0],
      )
      assert.deepEqual(JSON.parse(first!.target), { destination: 'beta', since: 'then' })
    },

    'what was done meanwhile is not added again': async (t) => {
      const me = await t.worker()
      const published = await t.publish()
      const found = await findAll(t, await declareLate(t))
      const [delivery] = deliveriesOf(t, found)
      await t.store.operations.backfill('beta', [delivery!], {}, OPERATOR)
      await t.done({ event: published.event, delivery: { ...published.delivery, ...delivery! } }, me.right)
      assert.equal(await add(t, found), 0)
      const { deliveries } = await t.detail(published)
      assert.deepEqual(deliveries.map((one) => `${one.destination} ${one.status}`).sort(), [
        'alpha pending',
        'beta done',
      ])
    },

    'two at once add each event once': async (t) => {
      await t.publishMany(20)
      const found = await findAll(t, await declareLate(t))
      const added = await Promise.all([add(t, found), add(t, found), add(t, [...found].reverse())])
      assert.equal(
        added.reduce((sum, count) => sum + count, 0),
        20,
      )
      assert.equal((await t.read({ destination: 'beta' })).fresh.length, 20)
    },

    'an event that is gone is passed over': async (t) => {
      await t.publish()
      const upTo = await declareLate(t)
      const [known] = await findAll(t, upTo)
      assert.equal(await add(t, [{ ...known!, id: t.newId() }, known!]), 1)
    },

    'what is delayed for others is delayed here, too': async (t) => {
      const delayed = await t.publish({ due: { afterMs: LONG_MS } })
      await add(t, await findAll(t, await declareLate(t)))
      assert.deepEqual((await t.read({ destination: 'beta' })).fresh, [])
      const { deliveries } = await t.detail(delayed)
      assert.deepEqual(
        deliveries.map(({ status }) => status),
        ['scheduled', 'scheduled'],
      )
    },

    'a transaction that is open is not taken for settled, and found when it has ended': async (t) => {
      t.needsOverlap()
      await t.publish()
      const late = t.prepare()
      const open = await t.begin()
      await t.publishIn(open.tx, late)
      await t.publish()
      const upTo = await declareLate(t)
      const query = { destination: 'beta', after: 0n, upTo, limit: 10 }
      const before = await t.store.registry.findUnheard(query)
      await open.commit()
      const seq = (await findAll(t, upTo)).find(({ id }) => id === late.event.id)!.seq
      assert.equal(before.events.length, 2)
      assert.ok(before.settledTo < seq, `${before.settledTo} is not before ${seq}`)
      assert.ok(before.settledTo < before.scannedTo)
    },

    'an unknown destination is refused, and nothing is recorded': async (t) => {
      await rejectsWithCode(t.store.operations.backfill('nowhere', [], {}, OPERATOR), 'POSTHASTE_NOT_FOUND')
      assert.deepEqual(await t.store.inspection.audit({ limit: 1 }), [])
    },
  },
}
