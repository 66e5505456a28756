import assert from 'node:assert/strict'
import { UNROUTED } from '../../../core/model/index.ts'
import {
  idsOf,
  LONG_MS,
  type Published,
  type StoreFixture,
  type Topic,
  tokenRight,
} from '../store-fixture.ts'

/** What a claim of this delivery names as coming first. */
const ahead = async (t: StoreFixture, published: Published, aheadLimit = 10): Promise<readonly string[]> => {
  const me = await t.worker()
  const heads = await t.store.queue.claim(me.id, [published.delivery.id], aheadLimit)
  assert.deepEqual(
    heads.map((head) => head.id),
    [published.delivery.id],
  )
  return [...heads[0]!.ahead].sort()
}

export const claimTopic: Topic = {
  title: 'claims by id and hot claims',
  cases: {
    'the only row of its key has nothing ahead, and its position is told': async (t) => {
      const me = await t.worker()
      const published = await t.publish({ key: 'k' })
      const { seq } = await t.readOne(published)
      const heads = await t.store.queue.claim(me.id, [published.delivery.id], 10)
      assert.deepEqual(heads, [{ id: published.delivery.id, seq, ahead: [] }])
    },

    'unfinished rows of the same key before it are named, up to the limit': async (t) => {
      const before = await t.publishMany(5, { key: 'k' })
      const last = await t.publish({ key: 'k' })
      await t.publish({ key: 'k' })
      assert.deepEqual(await ahead(t, last), idsOf(before).sort())
      const some = await ahead(t, last, 3)
      assert.equal(some.length, 3)
      for (const id of some) assert.ok(idsOf(before).includes(id))
    },

    'rows of other keys, of other destinations and finished ones are not ahead': async (t) => {
      const me = await t.worker()
      await t.publish({ key: 'other' })
      await t.publish({ key: null })
      await t.publish({ key: 'k', destination: 'beta' })
      await t.done(await t.publish({ key: 'k' }), me.right)
      await t.dead(await t.publish({ key: 'k' }), me.right)
      assert.deepEqual(await ahead(t, await t.publish({ key: 'k' })), [])
    },

    'retrying, held and blocking rows are ahead': async (t) => {
      const me = await t.worker()
      const before = await t.keyWithHeld(1, me)
      assert.deepEqual(await ahead(t, await t.publish({ key: 'k' })), idsOf(before).sort())
      const dead = await t.publish({ key: 'blocked' })
      await t.dead(dead, me.right, { holdsKey: true })
      assert.deepEqual(await ahead(t, await t.publish({ key: 'blocked' })), idsOf([dead]))
    },

    'an unrouted row of the key is ahead': async (t) => {
      const unrouted = await t.publish({ key: 'k', destination: UNROUTED })
      assert.deepEqual(await ahead(t, await t.publish({ key: 'k' })), idsOf([unrouted]))
    },

    'a delayed row is not ahead before it has its place': async (t) => {
      await t.publish({ key: 'k', due: { afterMs: LONG_MS } })
      await t.publish({ key: 'k', due: { afterMs: 20 } })
      await t.until(20, 'it is due', async () => (await t.read()).activatable)
      assert.deepEqual(await ahead(t, await t.publish({ key: 'k' })), [])
    },

    'what is not pending and due cannot be claimed': async (t) => {
      const me = await t.worker()
      const [retrying, done] = [await t.publish({ key: 'k' }), await t.publish({ key: 'l' })]
      await t.retry(retrying, me.right, { delayMs: 0 })
      await t.done(done, me.right)
      const delayed = await t.publish({ key: 'm', due: { afterMs: LONG_MS } })
      const ids = [retrying.delivery.id, done.delivery.id, delayed.delivery.id, t.newId()]
      assert.deepEqual(await t.store.queue.claim(me.id, ids, 10), [])
    },

    'several rows of one key are claimed in one call, each with what is before it': async (t) => {
      const me = await t.worker()
      const all = await t.publishMany(3, { key: 'k' })
      const heads = await t.store.queue.claim(
        me.id,
        all.map((one) => one.delivery.id),
        10,
      )
      const before = new Map(heads.map((head) => [head.id, [...head.ahead].sort()]))
      for (const [i, one] of all.entries()) {
        assert.deepEqual(before.get(one.delivery.id), idsOf(all.slice(0, i)).sort())
      }
    },

    'a fenced or unknown worker claims nothing': async (t) => {
      const published = await t.publish({ key: 'k' })
      const fenced = await t.fencedWorker()
      assert.deepEqual(await t.store.queue.claim(fenced.id, [published.delivery.id], 10), [])
      assert.deepEqual(await t.store.queue.claim(t.newId(), [published.delivery.id], 10), [])
    },

    'a hot claim can be extended by its token': async (t) => {
      const token = t.newId()
      const hot = await t.publish({ token, hotLeaseMs: 600_000 })
      assert.deepEqual(await t.store.queue.extend([{ id: hot.delivery.id, token }], LONG_MS), [])
      const { nextDueInMs } = await t.read()
      assert.ok(nextDueInMs !== null && nextDueInMs > 600_000)
    },

    'a hot claim that ran out can still be extended while nobody replaced it': async (t) => {
      const token = t.newId()
      const hot = await t.publish({ token, hotLeaseMs: 10 })
      await t.until(10, 'the claim has run out', async () => (await t.readableIds()).length === 1)
      assert.deepEqual(await t.store.queue.extend([{ id: hot.delivery.id, token }], LONG_MS), [])
      assert.deepEqual(await t.readableIds(), [])
      assert.deepEqual((await t.done(hot, tokenRight(token))).lost, [])
    },

    'claims with another token, and of rows that are finished, are reported as lost': async (t) => {
      const [token, wrong] = [t.newId(), t.newId()]
      const [live, done] = [await t.publish({ token }), await t.publish({ token })]
      await t.done(done, tokenRight(token))
      const claims = [
        { id: live.delivery.id, token: wrong },
        { id: done.delivery.id, token },
        { id: live.delivery.id, token },
      ]
      const lost = await t.store.queue.extend(claims, LONG_MS)
      assert.deepEqual([...lost].sort(), [live.delivery.id, done.delivery.id].sort())
    },
  },
}
