import assert from 'node:assert/strict'
import type { CleanupRequest } from '../../../core/spi/index.ts'
import { idsOf, LONG_MS, type StoreFixture, type Topic, tokenRight } from '../store-fixture.ts'

/** Removes whatever may go, however young it is, unless the case says otherwise. */
const cleanup = (t: StoreFixture, over: Partial<CleanupRequest> = {}) =>
  t.store.maintenance.cleanup({
    doneOlderThanMs: 0,
    deadOlderThanMs: 0,
    dedupOlderThanMs: LONG_MS,
    limit: 100,
    ...over,
  })

export const maintenanceTopic: Topic = {
  title: 'maintenance',
  cases: {
    'finished deliveries past their retention go, and their event with the last of them': async (t) => {
      const me = await t.worker()
      const event = t.event()
      const [alpha, beta] = ['alpha', 'beta'].map((destination) => t.delivery(event, { destination }))
      await t.insert({ events: [event], deliveries: [alpha!, beta!] })
      await t.done({ event, delivery: alpha! }, me.right)
      assert.equal((await cleanup(t)).done, 1)
      const half = await t.store.inspection.event(event.id)
      assert.deepEqual(
        half?.deliveries.map((one) => one.id),
        [beta!.id],
        'the other one still needs its event',
      )
      await t.done({ event, delivery: beta! }, me.right)
      const { done, events } = await cleanup(t)
      assert.deepEqual([done, events], [1, 1])
      assert.equal(await t.store.inspection.event(event.id), null)
    },

    'what not every destination is reconciled past stays, or its event would look as if it was missed':
      async (t) => {
        const me = await t.worker()
        await t.declare('alpha', 'beta')
        const { version } = await t.store.registry.load()
        const event = t.event({ routesVersion: version })
        const [alpha, beta] = ['alpha', 'beta'].map((destination) => t.delivery(event, { destination }))
        await t.insert({ events: [event], deliveries: [alpha!, beta!] })
        const { seq } = await t.readOne({ event, delivery: alpha! })
        await t.done({ event, delivery: alpha! }, me.right)
        assert.equal((await cleanup(t)).done, 0)
        await t.store.registry.reconcile('alpha', [], seq)
        assert.equal((await cleanup(t)).done, 0, 'beta is not reconciled past it')
        await t.store.registry.reconcile('beta', [], seq)
        assert.equal((await cleanup(t)).done, 1)
        await t.store.registry.declare([{ name: 'alpha', patterns: ['*', 'a.*'] }])
        const { events } = await t.store.registry.findUnreconciled('alpha', 10)
        assert.deepEqual(events, [], 'a later version of alpha does not send it a second time')
      },

    'an event that nobody heard of yet stays until every destination is reconciled past it': async (t) => {
      const { version } = await t.store.registry.declare([{ name: 'alpha', patterns: ['a.*'] }])
      await t.store.registry.declare([{ name: 'alpha', patterns: ['a.*', 'b.*'] }])
      const missed = t.event({ routesVersion: version, type: 'b.stored' })
      await t.insert({ events: [missed] })
      assert.equal((await cleanup(t)).events, 0)
      const { events } = await t.store.registry.findUnreconciled('alpha', 10)
      assert.deepEqual(
        events.map(({ id }) => id),
        [missed.id],
      )
      await t.store.registry.reconcile('alpha', [], events[0]!.seq)
      assert.equal((await cleanup(t)).events, 1)
    },

    'dead deliveries stay as long': async (t) => {
      const me = await t.worker()
      await t.declare('alpha')
      const { version } = await t.store.registry.load()
      const published = await t.publish({ destination: 'alpha', routesVersion: version })
      const { seq } = await t.readOne(published)
      await t.dead(published, me.right)
      assert.equal((await cleanup(t)).dead, 0)
      await t.store.registry.reconcile('alpha', [], seq)
      assert.equal((await cleanup(t)).dead, 1)
    },

    'nothing goes before its retention has passed': async (t) => {
      const me = await t.worker()
      const [done, dead] = await t.publishMany(2)
      await t.done(done!, me.right)
      await t.dead(dead!, me.right)
      const result = await cleanup(t, { doneOlderThanMs: LONG_MS, deadOlderThanMs: LONG_MS })
      assert.deepEqual(result, { done: 0, discarded: 0, dead: 0, events: 0, dedup: 0, more: false })
      assert.equal(await t.status(done!), 'done')
    },

    'unfinished deliveries are never removed': async (t) => {
      const me = await t.worker()
      const all = await t.keyWithHeld(1, me)
      const pending = await t.publish()
      const hot = await t.publish({ token: t.newId() })
      const delayed = await t.publish({ due: { afterMs: LONG_MS } })
      const result = await cleanup(t)
      assert.deepEqual([result.done, result.discarded, result.dead, result.events], [0, 0, 0, 0])
      for (const one of [...all, pending, hot, delayed])
        assert.equal((await t.detail(one)).deliveries.length, 1)
    },

    'dead deliveries have a retention of their own, or none': async (t) => {
      const me = await t.worker()
      const published = await t.publish()
      await t.dead(published, me.right)
      assert.equal((await cleanup(t, { deadOlderThanMs: null })).dead, 0)
      assert.equal((await cleanup(t, { deadOlderThanMs: LONG_MS })).dead, 0)
      assert.equal((await cleanup(t)).dead, 1)
      assert.equal(await t.store.inspection.event(published.event.id), null)
    },

    'a dead head that keeps its key waiting is never removed': async (t) => {
      const me = await t.worker()
      const published = await t.publish({ key: 'k' })
      await t.dead(published, me.right, { holdsKey: true })
      assert.equal((await cleanup(t)).dead, 0)
      assert.equal(await t.status(published), 'dead')
    },

    'discarded deliveries are counted apart': async (t) => {
      const published = await t.publish()
      await t.store.operations.discard(
        { deliveryIds: idsOf([published]), limit: 1 },
        { actor: 'ops', reason: null },
      )
      const { done, discarded, events } = await cleanup(t)
      assert.deepEqual([done, discarded, events], [0, 1, 1])
    },

    '[42] one step of cleaning is bounded and says that there is more': async (t) => {
      const me = await t.worker()
      const all = await t.publishMany(5)
      await t.settle(all.map((one) => t.settlement(one, me.right, { kind: 'done' })))
      const first = await cleanup(t, { limit: 2 })
      assert.deepEqual([first.done, first.more], [2, true])
      let steps = 1
      for (let more = true; more; steps++) {
        assert.ok(steps < 20, 'the cleaning comes to an end')
        const result = await cleanup(t, { limit: 2 })
        assert.ok(result.done <= 2 && result.events <= 2)
        more = result.more
      }
      for (const one of all) assert.equal(await t.store.inspection.event(one.event.id), null)
    },

    'a step with a shorter retention passes over nothing that an earlier step had to leave': async (t) => {
      const me = await t.worker()
      const all = await t.publishMany(3)
      await t.settle(all.map((one) => t.settlement(one, me.right, { kind: 'done' })))
      assert.equal((await cleanup(t, { doneOlderThanMs: 30_000, limit: 2 })).done, 0)
      const { done, events, more } = await cleanup(t)
      assert.deepEqual([done, events, more], [3, 3, false])
    },

    '[43] the retention counts from the end of the delivery, not from its creation': async (t) => {
      const me = await t.worker()
      const old = await t.publish()
      // The event is older than the retention when its delivery ends. A second leaves a slow database time.
      await t.until(1_000, 'it is old', async () => {
        const { deliveries } = await t.store.inspection.list({ olderThanMs: 1_000, limit: 1 })
        return deliveries.length === 1
      })
      await cleanup(t, { doneOlderThanMs: 1_000, deadOlderThanMs: 1_000 })
      assert.deepEqual(await t.readableIds(), idsOf([old]), 'age alone removes nothing')
      await t.done(old, me.right)
      const result = await cleanup(t, { doneOlderThanMs: 1_000 })
      assert.deepEqual([result.done, result.events], [0, 0])
      assert.equal(await t.status(old), 'done')
    },

    '[43] a transaction that commits after the retention keeps its event': async (t) => {
      t.needsOverlap()
      const late = t.prepare()
      const open = await t.begin()
      await t.publishIn(open.tx, late)
      await t.harness.advance?.(1_000)
      await cleanup(t)
      await open.commit()
      await cleanup(t)
      assert.deepEqual(await t.readableIds(), idsOf([late]))
    },

    'idempotency keys are kept for their own time, longer than the event if need be': async (t) => {
      const me = await t.worker()
      const first = await t.publish({ idempotencyKey: 'once' })
      await t.done(first, me.right)
      await cleanup(t)
      const again = await t.publish({ idempotencyKey: 'once' })
      assert.equal(await t.store.inspection.event(again.event.id), null, 'the key outlives the event')
      assert.equal((await cleanup(t, { dedupOlderThanMs: 0 })).dedup, 1)
      const fresh = await t.publish({ idempotencyKey: 'once' })
      assert.deepEqual(await t.readableIds(), idsOf([fresh]))
    },

    'a settle that is repeated after the cleaning is lost and changes nothing': async (t) => {
      const token = t.newId()
      const hot = await t.publish({ token })
      await t.done(hot, tokenRight(token))
      await cleanup(t)
      assert.deepEqual((await t.done(hot, tokenRight(token))).lost, idsOf([hot]))
      assert.deepEqual(await t.readableIds(), [])
    },

    'statistics can be recorded at any time, any number of times': async (t) => {
      const me = await t.worker()
      await t.done(await t.publish(), me.right)
      await t.store.maintenance.recordStatistics(2)
      await t.store.maintenance.recordStatistics(2)
    },

    'statistics of the last minutes are there for charts': async (t) => {
      const me = await t.worker()
      await t.declare('alpha')
      const [done, dead, retry] = await t.publishMany(4)
      await t.done(done!, me.right)
      await t.dead(dead!, me.right)
      await t.retry(retry!, me.right)
      await t.store.maintenance.recordStatistics(10)
      const { destination } = done!.delivery
      const minutes = await t.store.inspection.statistics({ destination, minutes: 2 })
      // A minute may end in between, so what ended is in one of two.
      assert.equal(
        minutes.reduce((sum, one) => sum + one.done, 0),
        1,
      )
      const last = minutes.at(-1)
      assert.deepEqual([last?.pending, last?.retry, last?.dead], [1, 1, 1])
      assert.equal((last?.minuteMs ?? 1) % 60_000, 0)
      assert.deepEqual(await t.store.inspection.statistics({ destination: 'nobody', minutes: 2 }), [])
      const all = await t.store.inspection.statistics({ minutes: 2 })
      assert.ok(all.some((one) => one.destination === destination))
    },

    'a duty is held by one live worker at a time': async (t) => {
      const [me, other] = [await t.worker(), await t.worker()]
      const { maintenance } = t.store
      assert.equal(await maintenance.takeDuty('cleanup', me.id), true)
      assert.equal(await maintenance.takeDuty('cleanup', me.id), true)
      assert.equal(await maintenance.takeDuty('cleanup', other.id), false)
      assert.equal(await maintenance.takeDuty('statistics', other.id), true, 'duties are separate')
      await maintenance.finishDuty('cleanup', other.id)
      assert.equal(await maintenance.takeDuty('cleanup', other.id), false, 'nobody ends the duty of another')
      await maintenance.finishDuty('cleanup', me.id)
      assert.equal(await maintenance.takeDuty('cleanup', other.id), true)
    },

    'a duty ends with the lease or the retirement of its worker': async (t) => {
      const { maintenance } = t.store
      // Long enough that a slow machine does not lose the lease before the duty is taken.
      const lost = await t.worker({ leaseMs: 300 })
      const other = await t.worker()
      assert.equal(await maintenance.takeDuty('cleanup', lost.id), true)
      await t.until(300, 'the duty is free', () => maintenance.takeDuty('cleanup', other.id))
      await t.store.lanes.retire(other.id)
      const third = await t.worker()
      assert.equal(await maintenance.takeDuty('cleanup', third.id), true)
    },

    'a fenced or unknown worker gets no duty': async (t) => {
      const fenced = await t.fencedWorker()
      assert.equal(await t.store.maintenance.takeDuty('cleanup', fenced.id), false)
      assert.equal(await t.store.maintenance.takeDuty('cleanup', t.newId()), false)
    },
  },
}
