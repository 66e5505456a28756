import assert from 'node:assert/strict'
import { UNROUTED } from '../../../core/model/index.ts'
import { idsOf, LONG_MS, type Published, type StoreFixture, type Topic } from '../store-fixture.ts'

/** Registers the destinations and returns the registry's version. */
const declare = async (t: StoreFixture, ...names: string[]): Promise<number> => {
  const state = await t.store.registry.declare(names.map((name) => ({ name, patterns: ['*'] })))
  return state.version
}

const expansion = (t: StoreFixture, { event, delivery }: Published, ...destinations: string[]) => ({
  unroutedId: delivery.id,
  deliveries: destinations.map((destination) => {
    const { due: _due, token: _token, ...rest } = t.delivery(event, { destination, lane: 3 })
    return rest
  }),
})

export const unroutedTopic: Topic = {
  title: 'unrouted deliveries',
  cases: {
    'they are listed lowest first, up to the limit': async (t) => {
      const all = await t.publishMany(3, { destination: UNROUTED, routesVersion: 0, key: 'k', type: 'a.b' })
      const listed = await t.store.queue.readUnrouted(2)
      assert.deepEqual(
        listed.map((row) => row.id),
        idsOf(all.slice(0, 2)),
      )
      const [first] = listed
      assert.deepEqual(
        [first!.eventId, first!.type, first!.key, first!.size],
        [all[0]!.event.id, 'a.b', 'k', all[0]!.event.size],
      )
      assert.ok(first!.seq < listed[1]!.seq)
    },

    'a read of any destination says that some are waiting': async (t) => {
      assert.equal((await t.read()).unrouted, false)
      await t.publish({ destination: UNROUTED })
      assert.equal((await t.read()).unrouted, true)
    },

    'one holds its key in every destination, for what comes after it': async (t) => {
      const before = await t.publish({ key: 'k' })
      await t.publish({ key: 'k', destination: UNROUTED })
      const after = await t.publish({ key: 'k' })
      const elsewhere = await t.publish({ key: 'k', destination: 'beta' })
      const other = await t.publish({ key: 'other' })
      assert.equal((await t.readOne(before)).behind, false)
      assert.equal((await t.readOne(after)).behind, true)
      assert.equal((await t.readOne(elsewhere)).behind, true)
      assert.equal((await t.readOne(other)).behind, false)
    },

    'what is behind an unrouted row cannot be held, because nothing would promote it': async (t) => {
      const me = await t.worker()
      await t.publish({ key: 'k', destination: UNROUTED })
      const after = await t.publish({ key: 'k' })
      assert.deepEqual(await t.store.queue.hold(me.id, 'alpha', idsOf([after])), [])
    },

    'expanding puts routed deliveries in its place': async (t) => {
      const me = await t.worker()
      const version = await declare(t, 'alpha', 'beta')
      const unrouted = await t.publish({ key: 'k', destination: UNROUTED, routesVersion: 0 })
      const after = await t.publish({ key: 'k' })
      const seq = (await t.store.queue.readUnrouted(1))[0]!.seq
      const expansions = [expansion(t, unrouted, 'alpha', 'beta')]
      assert.equal(
        await t.store.queue.expand({ workerId: me.id, registryVersion: version, expansions }),
        true,
      )
      const { fresh, unrouted: waiting } = await t.read()
      assert.deepEqual(
        fresh.map((row) => row.event?.id),
        [unrouted.event.id, after.event.id],
      )
      assert.deepEqual([fresh[0]!.seq, fresh[0]!.lane, fresh[0]!.run], [seq, 3, 1])
      assert.equal(fresh[1]!.behind, false)
      assert.equal(waiting, false)
      assert.equal((await t.read({ destination: 'beta' })).fresh.length, 1)
    },

    'with another registry version nothing happens': async (t) => {
      const me = await t.worker()
      const version = await declare(t, 'alpha')
      const unrouted = await t.publish({ destination: UNROUTED, routesVersion: 0 })
      const expansions = [expansion(t, unrouted, 'alpha')]
      await declare(t, 'beta')
      assert.equal(
        await t.store.queue.expand({ workerId: me.id, registryVersion: version, expansions }),
        false,
      )
      assert.deepEqual(
        (await t.store.queue.readUnrouted(10)).map((row) => row.id),
        idsOf([unrouted]),
      )
      assert.deepEqual(await t.readableIds(), [])
    },

    'a fenced worker expands nothing': async (t) => {
      const version = await declare(t, 'alpha')
      const unrouted = await t.publish({ destination: UNROUTED, routesVersion: 0 })
      const fenced = await t.fencedWorker()
      const request = {
        workerId: fenced.id,
        registryVersion: version,
        expansions: [expansion(t, unrouted, 'alpha')],
      }
      assert.equal(await t.store.queue.expand(request), false)
      assert.deepEqual(await t.readableIds(), [])
    },

    'expanding twice, or by two workers, adds deliveries once': async (t) => {
      const [me, other] = [await t.worker(), await t.worker()]
      const version = await declare(t, 'alpha')
      const unrouted = await t.publish({ destination: UNROUTED, routesVersion: 0 })
      const mine = {
        workerId: me.id,
        registryVersion: version,
        expansions: [expansion(t, unrouted, 'alpha')],
      }
      assert.equal(await t.store.queue.expand(mine), true)
      assert.equal(await t.store.queue.expand(mine), true)
      const theirs = { ...mine, workerId: other.id, expansions: [expansion(t, unrouted, 'alpha')] }
      assert.equal(await t.store.queue.expand(theirs), true)
      assert.equal((await t.read()).fresh.length, 1)
    },

    'expanding adds nothing for a destination that has its delivery already': async (t) => {
      const me = await t.worker()
      const version = await declare(t, 'alpha', 'beta')
      const event = t.event({ routesVersion: 0 })
      const [routed, unrouted] = ['alpha', UNROUTED].map((destination) => t.delivery(event, { destination }))
      await t.insert({ events: [event], deliveries: [routed!, unrouted!] })
      const expansions = [expansion(t, { event, delivery: unrouted! }, 'alpha', 'beta')]
      assert.equal(
        await t.store.queue.expand({ workerId: me.id, registryVersion: version, expansions }),
        true,
      )
      assert.deepEqual(await t.readableIds('alpha'), [routed!.id])
      assert.equal((await t.readableIds('beta')).length, 1)
    },

    'an event that nobody wants is expanded to nothing and stays known': async (t) => {
      const me = await t.worker()
      const version = await declare(t, 'alpha')
      const unrouted = await t.publish({ destination: UNROUTED, routesVersion: 0 })
      const request = { workerId: me.id, registryVersion: version, expansions: [expansion(t, unrouted)] }
      assert.equal(await t.store.queue.expand(request), true)
      assert.deepEqual(await t.store.queue.readUnrouted(10), [])
      assert.ok(await t.store.inspection.event(unrouted.event.id))
    },

    'a delayed one holds nothing': async (t) => {
      await t.publish({ key: 'k', destination: UNROUTED, due: { afterMs: LONG_MS } })
      assert.equal((await t.readOne(await t.publish({ key: 'k' }))).behind, false)
    },

    'a delayed one is expanded at once, and stays delayed': async (t) => {
      const me = await t.worker()
      const version = await declare(t, 'alpha')
      const due = { afterMs: LONG_MS }
      const delayed = await t.publish({ key: 'k', destination: UNROUTED, due, routesVersion: 0 })
      const later = await t.publish({ key: 'k', destination: UNROUTED, routesVersion: 0 })
      assert.equal((await t.read()).unrouted, true)
      assert.deepEqual(
        (await t.store.queue.readUnrouted(10)).map((row) => row.id),
        idsOf([delayed, later]),
      )
      const expansions = [expansion(t, delayed, 'alpha'), expansion(t, later, 'alpha')]
      await t.store.queue.expand({ workerId: me.id, registryVersion: version, expansions })
      const [counts] = await t.store.inspection.counts()
      assert.deepEqual([counts!.counts.scheduled, counts!.counts.pending], [1, 1])
      const { unrouted, nextDueInMs } = await t.read()
      assert.equal(unrouted, false)
      assert.ok(nextDueInMs! > LONG_MS / 2 && nextDueInMs! <= LONG_MS, `${nextDueInMs}`)
    },
  },
}
