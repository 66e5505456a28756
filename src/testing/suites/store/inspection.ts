import assert from 'node:assert/strict'
import { DELIVERY_STATUS, type DeliveryStatus, LANES } from '../../../core/model/index.ts'
import type { DeliveryQuery } from '../../../core/spi/index.ts'
import { idsOf, LONG_MS, OPERATOR, rejectsWithCode, type StoreFixture, type Topic } from '../store-fixture.ts'

const listIds = async (t: StoreFixture, query: Partial<DeliveryQuery>): Promise<string[]> =>
  (await t.store.inspection.list({ limit: 100, ...query })).deliveries.map((one) => one.id)

/** Follows the pages to their end. */
const listAll = async (t: StoreFixture, query: Partial<DeliveryQuery>, limit: number): Promise<string[]> => {
  const ids: string[] = []
  let after: string | null = null
  for (let page = 0; page < 100; page++) {
    const { deliveries, next } = await t.store.inspection.list({
      ...query,
      limit,
      ...(after === null ? {} : { after }),
    })
    assert.ok(deliveries.length <= limit)
    ids.push(...deliveries.map((one) => one.id))
    if (next === null) return ids
    after = next
  }
  throw new Error('the pages do not come to an end')
}

const NO_COUNTS = Object.fromEntries(Object.keys(DELIVERY_STATUS).map((name) => [name, 0])) as Record<
  DeliveryStatus,
  number
>

export const inspectionTopic: Topic = {
  title: 'inspection',
  cases: {
    'deliveries of every state are listed, newest first': async (t) => {
      const me = await t.worker()
      const [done, dead, retry, pending] = await t.publishMany(4)
      const scheduled = await t.publish({ due: { afterMs: LONG_MS } })
      await t.done(done!, me.right)
      await t.dead(dead!, me.right)
      await t.retry(retry!, me.right)
      const { deliveries, next } = await t.store.inspection.list({ limit: 10 })
      assert.deepEqual(
        deliveries.map((one) => one.id),
        idsOf([scheduled, pending!, retry!, dead!, done!]),
      )
      assert.deepEqual(
        deliveries.map((one) => one.status),
        ['scheduled', 'pending', 'retry', 'dead', 'done'],
      )
      assert.equal(next, null)
    },

    'a delivery is shown with what an operator needs, and without its payload': async (t) => {
      const published = await t.publish({
        type: 'invoice.sent',
        key: 'k',
        tenantId: 'acme',
        aggregateType: 'invoice',
        aggregateId: 'i-1',
        lane: 9,
        data: '{"secret":"s3cr3t"}',
      })
      const { deliveries } = await t.store.inspection.list({ limit: 1 })
      const view = deliveries[0]!
      const { createdAtMs, availableAtMs, seq, ...rest } = view
      assert.deepEqual(rest, {
        id: published.delivery.id,
        eventId: published.event.id,
        type: 'invoice.sent',
        destination: 'alpha',
        run: 1,
        lane: 9,
        key: 'k',
        tenantId: 'acme',
        aggregateType: 'invoice',
        aggregateId: 'i-1',
        status: 'pending',
        attempts: 0,
        suspicions: 0,
        finishedAtMs: null,
        diedAtMs: null,
        lastError: null,
        settledBy: null,
      })
      assert.equal(typeof seq, 'bigint')
      assert.ok(Number.isFinite(createdAtMs) && availableAtMs !== null)
      assert.ok(!JSON.stringify({ ...view, seq: 0 }).includes('s3cr3t'))
    },

    'the list is filtered by each field, and by all of them together': async (t) => {
      const me = await t.worker()
      const plain = await t.publish()
      const other = await t.publish({ destination: 'beta', type: 'a.b', key: 'k', tenantId: 'acme' })
      const finished = await t.publish({ type: 'a.b', tenantId: 'acme' })
      await t.done(finished, me.right)
      assert.deepEqual(await listIds(t, { destination: 'beta' }), idsOf([other]))
      assert.deepEqual(await listIds(t, { type: 'a.b' }), idsOf([finished, other]))
      assert.deepEqual(await listIds(t, { key: 'k' }), idsOf([other]))
      assert.deepEqual(await listIds(t, { tenantId: 'acme' }), idsOf([finished, other]))
      assert.deepEqual(await listIds(t, { status: ['pending'] }), idsOf([other, plain]))
      assert.deepEqual(await listIds(t, { status: ['done', 'dead'] }), idsOf([finished]))
      assert.deepEqual(
        await listIds(t, { status: ['pending'], type: 'a.b', destination: 'beta' }),
        idsOf([other]),
      )
      assert.deepEqual(await listIds(t, { status: ['dead'] }), [])
    },

    'a place to go on from that no page named is refused': async (t) => {
      for (const after of ['', 'nonsense', '1:nonsense']) {
        await rejectsWithCode(t.store.inspection.list({ limit: 1, after }), 'POSTHASTE_INVALID_OPTION')
      }
    },

    'pages cover everything exactly once, in both directions': async (t) => {
      const me = await t.worker()
      const event = t.event()
      const twins = ['alpha', 'beta'].map((destination) => t.delivery(event, { destination }))
      await t.insert({ events: [event], deliveries: twins })
      const all = await t.publishMany(7)
      for (const one of all.slice(2, 5)) await t.done(one, me.right)
      const newest = await listAll(t, {}, 2)
      assert.equal(newest.length, 9)
      assert.equal(new Set(newest).size, 9)
      assert.deepEqual(newest.slice(0, 7), idsOf(all).reverse())
      assert.deepEqual(await listAll(t, { order: 'oldest' }, 4), [...newest].reverse())
    },

    'the list is filtered by age': async (t) => {
      const old = await t.publish()
      const ages = async (query: Partial<DeliveryQuery>) => (await listIds(t, query)).length
      await t.until(50, 'it is old enough', async () => (await ages({ olderThanMs: 40 })) === 1)
      assert.deepEqual(await listIds(t, { newerThanMs: LONG_MS }), idsOf([old]))
      assert.deepEqual(await listIds(t, { newerThanMs: 40 }), [])
      assert.deepEqual(await listIds(t, { olderThanMs: LONG_MS }), [])
    },

    'an event is shown with all its deliveries, runs and failed attempts': async (t) => {
      const me = await t.worker()
      const event = t.event({ data: '{"a": 1}' })
      const [alpha, beta] = ['alpha', 'beta'].map((destination) => t.delivery(event, { destination }))
      await t.insert({ events: [event], deliveries: [alpha!, beta!] })
      await t.retry({ event, delivery: alpha! }, me.right, { delayMs: 0 })
      await t.dead({ event, delivery: alpha! }, me.right, { attempts: 2 })
      await t.store.operations.redrive({ deliveryIds: [alpha!.id], limit: 1 }, OPERATOR)
      const detail = await t.store.inspection.event(event.id)
      assert.equal(detail?.event.data, '{"a": 1}')
      const runs = detail.deliveries.map((one) => `${one.destination} ${one.run} ${one.status}`).sort()
      assert.deepEqual(runs, ['alpha 1 discarded', 'alpha 2 pending', 'beta 1 pending'])
      assert.deepEqual(
        detail.attempts.map((one) => [one.deliveryId, one.attempt]),
        [
          [alpha!.id, 1],
          [alpha!.id, 2],
        ],
      )
    },

    'what ended says by whose right, and what died says when': async (t) => {
      const me = await t.worker()
      const token = t.newId()
      const [cold, dead] = await t.publishMany(2)
      const hot = await t.publish({ token })
      await t.done(cold!, me.right)
      await t.done(hot, { kind: 'token', token })
      await t.dead(dead!, me.right)
      const views = await Promise.all([cold!, hot, dead!].map((one) => t.view(one)))
      assert.deepEqual(
        views.map(({ status, settledBy }) => [status, settledBy]),
        [
          ['done', me.id],
          ['done', token],
          ['dead', me.id],
        ],
      )
      const [coldView, , deadView] = views
      assert.equal(coldView!.diedAtMs, null)
      const [attempt] = (await t.detail(dead!)).attempts
      assert.ok(deadView!.diedAtMs !== null && Math.abs(deadView!.diedAtMs - attempt!.atMs) < 60_000)
      const [listed] = (await t.store.inspection.list({ limit: 1, status: ['dead'] })).deliveries
      assert.deepEqual([listed!.diedAtMs, listed!.settledBy], [deadView!.diedAtMs, me.id])
    },

    'an event that nobody knows is null': async (t) => {
      assert.equal(await t.store.inspection.event(t.newId()), null)
    },

    'the event of a delivery is found by the delivery, of whatever state': async (t) => {
      const me = await t.worker()
      const [pending, done] = [await t.publish({ data: '{"a": 1}' }), await t.publish({ data: '{"b": 2}' })]
      await t.done(done, me.right)
      assert.equal((await t.store.inspection.eventOfDelivery(pending.delivery.id))?.data, '{"a": 1}')
      assert.equal((await t.store.inspection.eventOfDelivery(done.delivery.id))?.id, done.event.id)
      assert.equal(await t.store.inspection.eventOfDelivery(t.newId()), null)
    },

    'deliveries are counted by destination and state': async (t) => {
      const me = await t.worker()
      const [head] = await t.keyWithHeld(2, me)
      const [done, dead] = await t.publishMany(2)
      await t.done(done!, me.right)
      await t.dead(dead!, me.right)
      await t.publish({ due: { afterMs: LONG_MS } })
      await t.publish({ destination: 'beta' })
      const counts = new Map((await t.store.inspection.counts()).map((one) => [one.destination, one.counts]))
      assert.deepEqual(counts.get('alpha'), {
        ...NO_COUNTS,
        retry: 1,
        held: 2,
        done: 1,
        dead: 1,
        scheduled: 1,
      })
      assert.deepEqual(counts.get('beta'), { ...NO_COUNTS, pending: 1 })
      await t.store.operations.discard({ deliveryIds: idsOf([head]), limit: 1 }, OPERATOR)
      const after = new Map((await t.store.inspection.counts()).map((one) => [one.destination, one.counts]))
      assert.deepEqual(after.get('alpha'), {
        ...NO_COUNTS,
        pending: 2,
        discarded: 1,
        done: 1,
        dead: 1,
        scheduled: 1,
      })
    },

    'a declared destination without deliveries is counted as well': async (t) => {
      await t.declare('alpha')
      assert.deepEqual(await t.store.inspection.counts(), [
        { destination: 'alpha', counts: NO_COUNTS, oldestLagMs: null },
      ])
    },

    'the lag is the age of the oldest delivery that is due': async (t) => {
      const lag = async () => (await t.store.inspection.counts())[0]?.oldestLagMs ?? null
      const me = await t.worker()
      await t.publish({ token: t.newId() })
      await t.publish({ due: { afterMs: LONG_MS } })
      await t.dead(await t.publish(), me.right)
      assert.equal(await lag(), null, 'claimed, future and dead ones do not count')
      const due = await t.publish()
      await t.until(30, 'the lag grows', async () => ((await lag()) ?? -1) >= 30)
      await t.done(due, me.right)
      assert.equal(await lag(), null)
    },

    'a dead head that blocks its key is lag, a parked one is not': async (t) => {
      const lag = async () => (await t.store.inspection.counts())[0]?.oldestLagMs ?? null
      const me = await t.worker()
      await t.dead(await t.publish({ key: 'parked' }), me.right, { holdsKey: true, parked: true })
      assert.equal(await lag(), null)
      const blocking = await t.publish({ key: 'blocked' })
      await t.dead(blocking, me.right, { holdsKey: true })
      await t.until(5, 'the lag grows', async () => ((await lag()) ?? -1) >= 5)
      const act = { actor: 'someone', reason: null }
      await t.store.operations.discard({ deliveryIds: [blocking.delivery.id], limit: 1 }, act)
      assert.equal(await lag(), null)
    },

    'keys whose head keeps others waiting are listed with their head': async (t) => {
      const me = await t.worker()
      const [head] = await t.keyWithHeld(2, me, 'slow')
      const [blocked] = await t.keyWithHeld(1, me, 'blocked')
      await t.dead(blocked, me.right, { holdsKey: true, attempts: 5 })
      await t.publishMany(2, { key: 'free' })
      const keys = await t.store.inspection.blockedKeys({ destination: 'alpha', limit: 10 })
      const by = new Map(keys.map((one) => [one.key, one]))
      assert.deepEqual([...by.keys()].sort(), ['blocked', 'slow'])
      assert.deepEqual(by.get('slow'), {
        destination: 'alpha',
        key: 'slow',
        headDeliveryId: head.delivery.id,
        headStatus: 'retry',
        headAttempts: 1,
        waiting: 2,
      })
      assert.deepEqual(
        [by.get('blocked')!.headStatus, by.get('blocked')!.headAttempts, by.get('blocked')!.waiting],
        ['dead', 5, 1],
      )
      assert.equal((await t.store.inspection.blockedKeys({ limit: 1 })).length, 1)
      assert.deepEqual(await t.store.inspection.blockedKeys({ destination: 'beta', limit: 10 }), [])
    },

    'workers are shown with their lanes, live and fenced ones': async (t) => {
      await t.declare('alpha')
      const fenced = await t.fencedWorker()
      const me = await t.worker({ name: 'host:7', leaseMs: 60_000, destinations: ['alpha', 'beta'] })
      await t.store.lanes.take(me.id, 'alpha', 6)
      const views = new Map((await t.store.inspection.workers()).map((view) => [view.workerId, view]))
      const { startedAtMs, expiresInMs, ...rest } = views.get(me.id)!
      assert.deepEqual(
        { ...rest, destinations: [...rest.destinations].sort() },
        {
          workerId: me.id,
          name: 'host:7',
          fenced: false,
          destinations: ['alpha', 'beta'],
          lanes: 6,
          openBreakers: [],
        },
      )
      assert.ok(Number.isFinite(startedAtMs))
      assert.ok(expiresInMs > 0 && expiresInMs <= 60_000)
      assert.equal(views.get(fenced.id)?.fenced, true)
    },

    'lanes are shown with who has them and until when': async (t) => {
      await t.declare('alpha', 'beta')
      const me = await t.worker({ leaseMs: 60_000 })
      const taken = await t.store.lanes.take(me.id, 'alpha', 6)
      const all = await t.store.inspection.lanes({})
      assert.equal(all.length, 2 * LANES)
      const lanes = await t.store.inspection.lanes({ destination: 'alpha' })
      assert.deepEqual(
        lanes.map(({ destination, lane }) => [destination, lane]),
        Array.from({ length: LANES }, (_, lane) => ['alpha', lane]),
      )
      const mine = lanes.filter(({ workerId }) => workerId === me.id)
      assert.deepEqual(
        mine.map(({ lane }) => lane),
        taken.map(({ lane }) => lane).sort((a, b) => a - b),
      )
      for (const { expiresInMs } of mine) assert.ok(expiresInMs! > 0 && expiresInMs! <= 60_000)
      const free = lanes.find(({ workerId }) => workerId === null)
      assert.equal(free!.expiresInMs, null)
    },

    'the audit is listed newest first, up to the limit': async (t) => {
      await t.declare('alpha')
      for (const actor of ['one', 'two', 'three']) {
        await t.store.registry.configure('alpha', { paused: true }, { actor, reason: `because ${actor}` })
      }
      const entries = await t.store.inspection.audit({ limit: 2 })
      assert.deepEqual(
        entries.map((entry) => [entry.actor, entry.reason]),
        [
          ['three', 'because three'],
          ['two', 'because two'],
        ],
      )
      for (const entry of entries) {
        assert.ok(entry.action.length > 0 && Number.isFinite(entry.atMs))
        JSON.parse(entry.target)
      }
    },
  },
}
