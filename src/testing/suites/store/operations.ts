import assert from 'node:assert/strict'
import {
  idsOf,
  OPERATOR,
  type Published,
  rejectsWithCode,
  type StoreFixture,
  type Topic,
  tokenRight,
} from '../store-fixture.ts'

const runsOf = async (t: StoreFixture, published: Published): Promise<string[]> =>
  (await t.detail(published)).deliveries.map((one) => `${one.run} ${one.status}`).sort()

const newestAudit = async (t: StoreFixture) => (await t.store.inspection.audit({ limit: 1 }))[0]!

export const operationsTopic: Topic = {
  title: 'operations',
  cases: {
    'a redriven delivery is a new run in the same place, with nothing spent': async (t) => {
      const me = await t.worker()
      const published = await t.publish({ key: 'k', lane: 5 })
      const { seq } = await t.readOne(published)
      await t.dead(published, me.right, { attempts: 9 })
      assert.equal(
        await t.store.operations.redrive({ deliveryIds: idsOf([published]), limit: 10 }, OPERATOR),
        1,
      )
      assert.deepEqual(await runsOf(t, published), ['1 discarded', '2 pending'])
      const { fresh } = await t.read()
      const [row] = fresh
      assert.deepEqual(
        [row!.seq, row!.run, row!.lane, row!.key, row!.attempts, row!.suspicions, row!.token],
        [seq, 2, 5, 'k', 0, 0, null],
      )
      assert.notEqual(row!.id, published.delivery.id)
      assert.equal(row!.event?.id, published.event.id)
    },

    'only dead deliveries are redriven, and only once': async (t) => {
      const me = await t.worker()
      const [dead, done, pending] = await t.publishMany(3)
      await t.dead(dead!, me.right)
      await t.done(done!, me.right)
      const target = { deliveryIds: idsOf([dead!, done!, pending!]), limit: 10 }
      assert.equal(await t.store.operations.redrive(target, OPERATOR), 1)
      assert.equal(await t.store.operations.redrive(target, OPERATOR), 0)
      assert.deepEqual(await runsOf(t, dead!), ['1 discarded', '2 pending'])
      assert.deepEqual(await runsOf(t, done!), ['1 done'])
    },

    'a stale settle of the dead run does not touch the new one': async (t) => {
      const me = await t.worker()
      const published = await t.publish()
      await t.dead(published, me.right)
      await t.store.operations.redrive({ eventIds: [published.event.id], limit: 1 }, OPERATOR)
      assert.deepEqual((await t.done(published, me.right)).lost, idsOf([published]))
      assert.deepEqual(await runsOf(t, published), ['1 discarded', '2 pending'])
    },

    'the limit takes the lowest first, so that a key is redriven in order': async (t) => {
      const me = await t.worker()
      const all = await t.publishMany(4, { key: 'k' })
      for (const one of [...all].reverse()) await t.dead(one, me.right)
      assert.equal(
        await t.store.operations.redrive({ key: 'k', destination: 'alpha', limit: 2 }, OPERATOR),
        2,
      )
      const { fresh } = await t.read()
      assert.deepEqual(
        fresh.map((row) => row.event?.id),
        all.slice(0, 2).map((one) => one.event.id),
      )
    },

    'a target is everything that all its fields name': async (t) => {
      const me = await t.worker()
      const a = await t.publish({ type: 'a', tenantId: 'x' })
      const b = await t.publish({ type: 'b', tenantId: 'x' })
      const c = await t.publish({ type: 'b', tenantId: 'y', destination: 'beta' })
      for (const one of [a, b, c]) await t.dead(one, me.right)
      const redrive = (target: object) => t.store.operations.redrive({ limit: 10, ...target }, OPERATOR)
      assert.equal(await redrive({ type: 'b', destination: 'alpha', tenantId: 'y' }), 0)
      assert.equal(await redrive({ deliveryIds: [] }), 0)
      assert.equal(await redrive({ deliveryIds: idsOf([a]), type: 'b' }), 0)
      assert.equal(await redrive({ tenantId: 'x' }), 2)
      assert.equal(await redrive({ destination: 'beta' }), 1)
    },

    'an operation without any target is refused': async (t) => {
      const me = await t.worker()
      const published = await t.publish()
      await t.dead(published, me.right)
      for (const operation of ['redrive', 'replay', 'discard'] as const) {
        await assert.rejects(t.store.operations[operation]({ limit: 10 }, OPERATOR))
      }
      assert.deepEqual(await runsOf(t, published), ['1 dead'])
    },

    'redriving a blocked head sends it again before those behind it': async (t) => {
      const me = await t.worker()
      const [head, follower] = await t.keyWithHeld(1, me)
      await t.dead(head, me.right, { holdsKey: true })
      await t.store.operations.redrive({ deliveryIds: idsOf([head]), limit: 1 }, OPERATOR)
      assert.equal(await t.status(follower!), 'held')
      const { fresh } = await t.read()
      assert.deepEqual(
        fresh.map((row) => [row.event?.id, row.holdsKey, row.behind]),
        [[head.event.id, true, false]],
      )
      const again = { event: head.event, delivery: { ...head.delivery, id: fresh[0]!.id } }
      assert.deepEqual((await t.done(again, me.right)).promoted, ['alpha'])
      assert.deepEqual(await t.readableIds(), idsOf([follower!]))
    },

    'a replayed delivery is a new run; the done one stays done': async (t) => {
      const me = await t.worker()
      const published = await t.publish({ lane: 2 })
      const { seq } = await t.readOne(published)
      await t.done(published, me.right)
      assert.equal(
        await t.store.operations.replay({ eventIds: [published.event.id], limit: 10 }, OPERATOR),
        1,
      )
      assert.deepEqual(await runsOf(t, published), ['1 done', '2 pending'])
      const [row] = (await t.read()).fresh
      assert.deepEqual([row!.run, row!.seq, row!.attempts, row!.lane], [2, seq, 0, 2])
    },

    'replaying again while the new run is unfinished adds nothing': async (t) => {
      const me = await t.worker()
      const published = await t.publish()
      await t.done(published, me.right)
      const target = { deliveryIds: idsOf([published]), limit: 10 }
      assert.equal(await t.store.operations.replay(target, OPERATOR), 1)
      assert.equal(await t.store.operations.replay(target, OPERATOR), 0)
      assert.deepEqual(await runsOf(t, published), ['1 done', '2 pending'])
    },

    'a delivery whose replay was discarded can be replayed again, with the next number': async (t) => {
      const me = await t.worker()
      const published = await t.publish()
      await t.done(published, me.right)
      const target = { eventIds: [published.event.id], limit: 10 }
      assert.equal(await t.store.operations.replay(target, OPERATOR), 1)
      assert.equal(await t.store.operations.discard(target, OPERATOR), 1)
      assert.equal(await t.store.operations.replay(target, OPERATOR), 1)
      assert.equal(await t.store.operations.replay(target, OPERATOR), 0)
      assert.deepEqual(await runsOf(t, published), ['1 done', '2 discarded', '3 pending'])
      assert.equal(await t.store.operations.discard(target, OPERATOR), 1)
      const byId = { deliveryIds: idsOf([published]), limit: 10 }
      assert.equal(await t.store.operations.replay(byId, OPERATOR), 1)
      assert.deepEqual(await runsOf(t, published), ['1 done', '2 discarded', '3 discarded', '4 pending'])
    },

    'a delivery whose replay died is not replayed until that is cleared away': async (t) => {
      const me = await t.worker()
      const published = await t.publish()
      await t.done(published, me.right)
      const target = { eventIds: [published.event.id], limit: 10 }
      await t.store.operations.replay(target, OPERATOR)
      const [row] = (await t.read()).fresh
      const again = { event: published.event, delivery: { ...published.delivery, id: row!.id } }
      await t.dead(again, me.right)
      assert.equal(await t.store.operations.replay(target, OPERATOR), 0)
      assert.deepEqual(await runsOf(t, published), ['1 done', '2 dead'])
      await t.store.operations.redrive(target, OPERATOR)
      assert.equal(await t.store.operations.replay(target, OPERATOR), 0)
      await t.store.operations.discard(target, OPERATOR)
      assert.equal(await t.store.operations.replay(target, OPERATOR), 1)
      assert.deepEqual(await runsOf(t, published), ['1 done', '2 discarded', '3 discarded', '4 pending'])
    },

    'of several done runs only the last is replayed': async (t) => {
      const me = await t.worker()
      const published = await t.publish()
      await t.done(published, me.right)
      const target = { eventIds: [published.event.id], limit: 10 }
      await t.store.operations.replay(target, OPERATOR)
      const [row] = (await t.read()).fresh
      const again = { event: published.event, delivery: { ...published.delivery, id: row!.id } }
      await t.done(again, me.right)
      const first = { deliveryIds: idsOf([published]), limit: 10 }
      assert.equal(await t.store.operations.replay(first, OPERATOR), 0)
      assert.equal(await t.store.operations.replay(target, OPERATOR), 1)
      await t.store.operations.discard(target, OPERATOR)
      assert.equal(await t.store.operations.replay(first, OPERATOR), 0)
      assert.equal(await t.store.operations.replay({ deliveryIds: [row!.id], limit: 10 }, OPERATOR), 1)
      assert.deepEqual(await runsOf(t, published), ['1 done', '2 done', '3 discarded', '4 pending'])
    },

    'a discarded delivery that was never done is not replayed': async (t) => {
      const published = await t.publish()
      const target = { eventIds: [published.event.id], limit: 10 }
      await t.store.operations.discard(target, OPERATOR)
      assert.equal(await t.store.operations.replay(target, OPERATOR), 0)
      assert.deepEqual(await runsOf(t, published), ['1 discarded'])
    },

    'unfinished and dead deliveries are not replayed': async (t) => {
      const me = await t.worker()
      const [pending, dead] = await t.publishMany(2)
      await t.dead(dead!, me.right)
      assert.equal(
        await t.store.operations.replay({ deliveryIds: idsOf([pending!, dead!]), limit: 10 }, OPERATOR),
        0,
      )
    },

    'discarding gives up dead and unfinished deliveries for good': async (t) => {
      const me = await t.worker()
      const [dead, pending, done] = await t.publishMany(3)
      const delayed = await t.publish({ due: { afterMs: 1_000_000 } })
      await t.dead(dead!, me.right)
      await t.done(done!, me.right)
      const target = { deliveryIds: idsOf([dead!, pending!, done!, delayed]), limit: 10 }
      assert.equal(await t.store.operations.discard(target, OPERATOR), 3)
      const statuses = await Promise.all([dead!, pending!, done!, delayed].map((one) => t.status(one)))
      assert.deepEqual(statuses, ['discarded', 'discarded', 'done', 'discarded'])
      assert.deepEqual(await t.readableIds(), [])
      assert.deepEqual((await t.done(pending!, me.right)).lost, idsOf([pending!]))
      assert.equal(await t.store.operations.redrive(target, OPERATOR), 0)
    },

    'discarding leaves a live hot claim alone': async (t) => {
      const token = t.newId()
      const hot = await t.publish({ token })
      assert.equal(await t.store.operations.discard({ deliveryIds: idsOf([hot]), limit: 10 }, OPERATOR), 0)
      assert.deepEqual((await t.done(hot, tokenRight(token))).lost, [])
    },

    'discarding a head lets those behind it go on': async (t) => {
      const me = await t.worker()
      const [head, ...held] = await t.keyWithHeld(2, me)
      await t.dead(head, me.right, { holdsKey: true })
      await t.store.operations.discard({ deliveryIds: idsOf([head]), limit: 1 }, OPERATOR)
      assert.deepEqual(await t.readableIds(), idsOf(held))
    },

    'discarding a whole key leaves nothing of it waiting': async (t) => {
      const me = await t.worker()
      const all = await t.keyWithHeld(3, me)
      assert.equal(await t.store.operations.discard({ key: 'k', limit: 100 }, OPERATOR), 4)
      for (const one of all) assert.equal(await t.status(one), 'discarded')
      assert.deepEqual(await t.store.inspection.blockedKeys({ limit: 10 }), [])
    },

    'an edited copy takes the place of the dead delivery, for that destination alone': async (t) => {
      const me = await t.worker()
      const event = t.event({ key: 'k', data: '{"wrong":1}' })
      const [alpha, beta] = ['alpha', 'beta'].map((destination) =>
        t.delivery(event, { destination, lane: 4 }),
      )
      await t.insert({ events: [event], deliveries: [alpha!, beta!] })
      const original = { event, delivery: alpha! }
      const { seq } = await t.readOne(original)
      await t.dead(original, me.right)
      const replacement = { ...t.event({ key: 'k', data: '{"right":1}' }), replacesId: event.id }
      const newDeliveryId = t.newId()
      await t.store.operations.edit(alpha!.id, replacement, newDeliveryId, OPERATOR)
      const [row] = (await t.read()).fresh
      assert.deepEqual(
        [row!.id, row!.seq, row!.lane, row!.key, row!.attempts],
        [newDeliveryId, seq, 4, 'k', 0],
      )
      assert.deepEqual(
        [row!.event?.id, row!.event?.data, row!.event?.replacesId],
        [replacement.id, '{"right":1}', event.id],
      )
      assert.deepEqual(await runsOf(t, original), ['1 discarded', '1 pending'])
      assert.deepEqual(
        (await t.read({ destination: 'beta' })).fresh.map((one) => one.event?.id),
        [event.id],
      )
    },

    'an edited head of a blocked key still goes before those behind it': async (t) => {
      const me = await t.worker()
      const [head, follower] = await t.keyWithHeld(1, me)
      await t.dead(head, me.right, { holdsKey: true })
      const replacement = { ...t.event({ key: 'k' }), replacesId: head.event.id }
      const delivery = { ...head.delivery, id: t.newId(), eventId: replacement.id }
      await t.store.operations.edit(head.delivery.id, replacement, delivery.id, OPERATOR)
      assert.deepEqual(await t.readableIds(), [delivery.id])
      assert.deepEqual((await t.done({ event: replacement, delivery }, me.right)).promoted, ['alpha'])
      assert.deepEqual(await t.readableIds(), idsOf([follower!]))
    },

    'only a dead delivery can be edited, and repeating the same edit changes nothing': async (t) => {
      const me = await t.worker()
      const published = await t.publish()
      const replacement = { ...t.event(), replacesId: published.event.id }
      const edit = (newDeliveryId: string) =>
        t.store.operations.edit(published.delivery.id, replacement, newDeliveryId, OPERATOR)
      await rejectsWithCode(edit(t.newId()), 'POSTHASTE_CONFLICT')
      await t.dead(published, me.right)
      const newDeliveryId = t.newId()
      await edit(newDeliveryId)
      await edit(newDeliveryId)
      assert.deepEqual(await t.readableIds(), [newDeliveryId])
      await rejectsWithCode(edit(t.newId()), 'POSTHASTE_CONFLICT')
    },

    'an edited copy is not given to other destinations by the reconciliation': async (t) => {
      const me = await t.worker()
      await t.declare('alpha')
      await t.declare('beta')
      const published = await t.publish({ routesVersion: 1_000 })
      await t.dead(published, me.right)
      const replacement = { ...t.event({ routesVersion: 0 }), replacesId: published.event.id }
      await t.store.operations.edit(published.delivery.id, replacement, t.newId(), OPERATOR)
      assert.deepEqual((await t.store.registry.findUnreconciled('beta', 10)).events, [])
    },

    'every operation leaves an audit row that says who, why, what and how many': async (t) => {
      const me = await t.worker()
      const [dead, done, pending] = await t.publishMany(3)
      await t.dead(dead!, me.right)
      await t.done(done!, me.right)
      const { operations } = t.store
      await operations.redrive({ deliveryIds: idsOf([dead!]), limit: 1 }, { actor: 'eva', reason: null })
      const entry = await newestAudit(t)
      assert.deepEqual([entry.actor, entry.action, entry.reason, entry.count], ['eva', 'redrive', null, 1])
      assert.deepEqual(JSON.parse(entry.target).deliveryIds, idsOf([dead!]))
      await operations.replay({ deliveryIds: idsOf([done!]), limit: 1 }, OPERATOR)
      assert.equal((await newestAudit(t)).action, 'replay')
      await operations.discard({ deliveryIds: idsOf([pending!]), limit: 1 }, OPERATOR)
      const discard = await newestAudit(t)
      assert.deepEqual([discard.action, discard.actor, discard.reason], ['discard', 'ops', 'a test'])
    },
  },
}
