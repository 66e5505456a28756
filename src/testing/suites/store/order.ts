import assert from 'node:assert/strict'
import { idsOf, LONG_MS, OPERATOR, type Topic } from '../store-fixture.ts'

export const orderTopic: Topic = {
  title: 'order of a key',
  cases: {
    'a row whose key has a retry before it is behind; the retry itself is not': async (t) => {
      const me = await t.worker()
      const [head, follower] = await t.publishMany(2, { key: 'k' })
      assert.equal((await t.readOne(follower!)).behind, false, 'a pending head is no reason to wait')
      await t.retry(head!, me.right, { delayMs: 0 })
      assert.equal((await t.readOne(follower!)).behind, true)
      const row = await t.readOne(head!)
      assert.equal(row.behind, false)
      assert.equal(row.holdsKey, true)
    },

    'rows without a key wait for nobody': async (t) => {
      const me = await t.worker()
      const [one, two] = await t.publishMany(2)
      await t.retry(one!, me.right, { delayMs: 0 })
      const row = await t.readOne(two!)
      assert.equal(row.behind, false)
      assert.equal((await t.readOne(one!)).holdsKey, false)
    },

    'a retry is behind nothing that comes after it': async (t) => {
      const me = await t.worker()
      const [first, second] = await t.publishMany(2, { key: 'k' })
      await t.retry(second!, me.right, { delayMs: 0 })
      assert.equal((await t.readOne(first!)).behind, false)
      await t.retry(first!, me.right, { delayMs: 0 })
      assert.equal((await t.readOne(first!)).behind, false)
      assert.equal((await t.readOne(second!)).behind, true)
    },

    'the same key in another destination is another order': async (t) => {
      const me = await t.worker()
      await t.retry(await t.publish({ key: 'k', destination: 'beta' }), me.right)
      const row = await t.readOne(await t.publish({ key: 'k' }))
      assert.equal(row.behind, false)
    },

    'held rows are neither read nor swept nor claimed': async (t) => {
      const me = await t.worker()
      const [, ...held] = await t.keyWithHeld(2, me)
      const result = await t.read({ after: 1_000_000n, sweep: true })
      assert.deepEqual([result.fresh, result.due, result.swept], [[], [], []])
      assert.deepEqual(await t.store.queue.readByIds('alpha', idsOf(held)), [])
      assert.deepEqual(await t.store.queue.claim(me.id, idsOf(held), 10), [])
      for (const one of held) assert.equal(await t.status(one), 'held')
    },

    'what is held behind a dead head that blocks stays so when a row between them goes': async (t) => {
      const me = await t.worker()
      const [head, between, last] = await t.keyWithHeld(2, me)
      await t.dead(head!, me.right, { holdsKey: true })
      const target = { deliveryIds: idsOf([between!]), limit: 1 }
      assert.equal(await t.store.operations.discard(target, OPERATOR), 1)
      assert.equal(await t.status(last!), 'held')
      assert.deepEqual(await t.readableIds(), [])
    },

    'only rows behind a holder that is not pending can be held': async (t) => {
      const me = await t.worker()
      const [first, second] = await t.publishMany(2, { key: 'k' })
      const loner = await t.publish()
      const retrying = await t.publish({ key: 'r' })
      await t.retry(retrying, me.right, { delayMs: 0 })
      const ids = [...idsOf([first!, second!, loner, retrying]), t.newId()]
      assert.deepEqual(await t.store.queue.hold(me.id, 'alpha', ids), [])
      assert.deepEqual(new Set(await t.readableIds()), new Set(ids.slice(0, 4)))
    },

    'holding again after a lost answer says the same': async (t) => {
      const me = await t.worker()
      const [, ...held] = await t.keyWithHeld(2, me)
      const again = await t.store.queue.hold(me.id, 'alpha', idsOf(held))
      assert.deepEqual([...again].sort(), idsOf(held).sort())
    },

    'a fenced worker holds nothing': async (t) => {
      const me = await t.worker()
      await t.retry(await t.publish({ key: 'k' }), me.right)
      const follower = await t.publish({ key: 'k' })
      const fenced = await t.fencedWorker()
      assert.deepEqual(await t.store.queue.hold(fenced.id, 'alpha', idsOf([follower])), [])
      assert.equal(await t.status(follower), 'pending')
    },

    'when the head is done, those behind it become pending in order, a bounded number at a time': async (
      t,
    ) => {
      const me = await t.worker()
      const [head, ...held] = await t.keyWithHeld(5, me)
      const first = await t.done(head, me.right, { promoteLimit: 2 })
      assert.deepEqual(first.promoted, ['alpha'])
      const { fresh } = await t.read()
      assert.deepEqual(
        fresh.map((row) => row.id),
        idsOf(held.slice(0, 2)),
      )
      for (const row of fresh) {
        assert.equal(row.holdsKey, true, 'those behind still wait for it')
        assert.equal(row.behind, false)
      }
      const half = await t.done(held[0]!, me.right, { promoteLimit: 2 })
      assert.deepEqual(half.promoted, [], 'one of the promoted is still unfinished')
      const second = await t.done(held[1]!, me.right, { promoteLimit: 2 })
      assert.deepEqual(second.promoted, ['alpha'])
      assert.deepEqual(await t.readableIds(), idsOf(held.slice(2, 4)))
    },

    'a new row is behind held ones even while promoted ones are pending': async (t) => {
      const me = await t.worker()
      const [head, one, two] = await t.keyWithHeld(2, me)
      await t.done(head, me.right, { promoteLimit: 1 })
      const newcomer = await t.publish({ key: 'k' })
      assert.equal((await t.readOne(one!)).behind, false)
      assert.equal((await t.readOne(newcomer)).behind, true)
      assert.deepEqual(await t.store.queue.hold(me.id, 'alpha', idsOf([newcomer])), idsOf([newcomer]))
      await t.done(one!, me.right, { promoteLimit: 1 })
      assert.deepEqual(await t.readableIds(), idsOf([two!]))
    },

    'a new row behind promoted ones alone may be sent after them': async (t) => {
      const me = await t.worker()
      const [head, one] = await t.keyWithHeld(1, me)
      await t.done(head, me.right)
      const newcomer = await t.publish({ key: 'k' })
      assert.equal((await t.readOne(newcomer)).behind, false)
      assert.deepEqual(await t.store.queue.hold(me.id, 'alpha', idsOf([newcomer])), [])
      assert.deepEqual(await t.readableIds(), idsOf([one!, newcomer]))
    },

    'a promoted row that fails keeps the others waiting': async (t) => {
      const me = await t.worker()
      const [head, one, two] = await t.keyWithHeld(2, me)
      await t.done(head, me.right, { promoteLimit: 1 })
      const result = await t.retry(one!, me.right)
      assert.deepEqual(result.promoted, [])
      assert.equal(await t.status(two!), 'held')
      assert.deepEqual((await t.done(one!, me.right)).promoted, ['alpha'])
      assert.deepEqual(await t.readableIds(), idsOf([two!]))
    },

    'a row that was held again is promoted before those that are still pending behind it': async (t) => {
      const me = await t.worker()
      const [head, one, two] = await t.keyWithHeld(2, me)
      await t.done(head, me.right)
      const late = await t.publish({ key: 'k' })
      await t.retry(one!, me.right, { delayMs: 0 })
      assert.deepEqual(await t.store.queue.hold(me.id, 'alpha', idsOf([two!])), idsOf([two!]))
      const next = await t.publish({ key: 'k' })
      await t.done(one!, me.right)
      assert.deepEqual(await t.readableIds(), idsOf([two!, late, next]))
      assert.equal((await t.readOne(late)).behind, false)
    },

    'a promoted row does not overtake one that was held again and waits for an earlier one': async (t) => {
      const me = await t.worker()
      const [head, unsettled, failing, again, last] = await t.keyWithHeld(4, me)
      await t.done(head, me.right)
      await t.retry(failing!, me.right, { delayMs: 0 })
      assert.deepEqual(await t.store.queue.hold(me.id, 'alpha', idsOf([again!])), idsOf([again!]))
      assert.deepEqual((await t.done(failing!, me.right)).promoted, [], 'one before it has not ended')
      assert.equal((await t.readOne(last!)).behind, true)
      assert.deepEqual(await t.store.queue.hold(me.id, 'alpha', idsOf([last!])), idsOf([last!]))
      assert.deepEqual((await t.done(unsettled!, me.right)).promoted, ['alpha'])
      assert.deepEqual(await t.readableIds(), idsOf([again!, last!]))
    },

    'a released promoted row keeps the others waiting': async (t) => {
      const me = await t.worker()
      const [head, one, two] = await t.keyWithHeld(2, me)
      await t.done(head, me.right, { promoteLimit: 1 })
      assert.deepEqual(await t.release(one!, me.right), { lost: [], promoted: [] })
      assert.equal((await t.readOne(one!)).holdsKey, true)
      assert.equal(await t.status(two!), 'held')
    },

    'a dead head that is put aside lets the key go on': async (t) => {
      const me = await t.worker()
      const [head, one] = await t.keyWithHeld(1, me)
      assert.deepEqual((await t.dead(head, me.right)).promoted, ['alpha'])
      assert.deepEqual(await t.readableIds(), idsOf([one!]))
    },

    'a dead head that blocks keeps its key waiting': async (t) => {
      const me = await t.worker()
      const [head, one] = await t.keyWithHeld(1, me)
      assert.deepEqual((await t.dead(head, me.right, { holdsKey: true })).promoted, [])
      assert.equal(await t.status(one!), 'held')
      const newcomer = await t.publish({ key: 'k' })
      assert.equal((await t.readOne(newcomer)).behind, true)
      assert.deepEqual(await t.store.queue.hold(me.id, 'alpha', idsOf([newcomer])), idsOf([newcomer]))
    },

    'a retry that waits behind an earlier head is held too, and goes on with its attempts': async (t) => {
      const me = await t.worker()
      const [head, retrying] = await t.publishMany(2, { key: 'k' })
      await t.retry(retrying!, me.right, { delayMs: 0, attempts: 3 })
      await t.dead(head!, me.right, { holdsKey: true })
      assert.equal((await t.readOne(retrying!)).behind, true)
      assert.deepEqual(await t.store.queue.hold(me.id, 'alpha', idsOf([retrying!])), idsOf([retrying!]))
      assert.deepEqual(await t.readableIds(), [], 'it does not come back with every read')
      const act = { actor: 'someone', reason: null }
      await t.store.operations.discard({ deliveryIds: [head!.delivery.id], limit: 1 }, act)
      const row = await t.readOne(retrying!)
      assert.deepEqual([row.status, row.attempts], ['pending', 3])
    },

    'a repeated settle of the head promotes nobody twice': async (t) => {
      const me = await t.worker()
      const [head, ...held] = await t.keyWithHeld(2, me)
      await t.done(head, me.right, { promoteLimit: 1 })
      assert.deepEqual(await t.done(head, me.right, { promoteLimit: 1 }), { lost: [], promoted: [] })
      assert.deepEqual(await t.readableIds(), idsOf(held.slice(0, 1)))
    },

    'the keys of one batch are promoted separately': async (t) => {
      const me = await t.worker()
      const [headA, a] = await t.keyWithHeld(1, me, 'a')
      const [headB, b] = await t.keyWithHeld(1, me, 'b')
      await t.keyWithHeld(1, me, 'c')
      const done = [headA, headB].map((head) => t.settlement(head, me.right, { kind: 'done' }))
      assert.deepEqual((await t.settle(done)).promoted, ['alpha'])
      assert.deepEqual(await t.readableIds(), idsOf([a!, b!]))
    },

    'a delayed row does not hold its key before its time': async (t) => {
      await t.publish({ key: 'k', due: { afterMs: LONG_MS } })
      assert.equal((await t.readOne(await t.publish({ key: 'k' }))).behind, false)
    },

    'a promoted row whose key fails before it can be held again': async (t) => {
      const me = await t.worker()
      const [head, one, two] = await t.keyWithHeld(2, me)
      await t.done(head, me.right)
      await t.retry(one!, me.right)
      assert.equal((await t.readOne(two!)).behind, true)
      assert.deepEqual(await t.store.queue.hold(me.id, 'alpha', idsOf([two!])), idsOf([two!]))
      assert.deepEqual((await t.done(one!, me.right)).promoted, ['alpha'])
      assert.deepEqual(await t.readableIds(), idsOf([two!]))
    },

    'in one batch a failure counts before anything of its key is promoted': async (t) => {
      const me = await t.worker()
      const [head, one, two, three] = await t.keyWithHeld(3, me)
      await t.done(head, me.right, { promoteLimit: 2 })
      const failure = t.failure(1)
      const result = await t.settle([
        t.settlement(one!, me.right, { kind: 'done' }),
        t.settlement(two!, me.right, { kind: 'retry', delayMs: LONG_MS, counted: true, failure }),
      ])
      assert.deepEqual(result, { lost: [], promoted: [] })
      assert.equal(await t.status(three!), 'held')
    },
  },
}
