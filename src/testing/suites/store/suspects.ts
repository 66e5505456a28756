import assert from 'node:assert/strict'
import {
  idsOf,
  LONG_MS,
  type Published,
  type StoreFixture,
  type Topic,
  tokenRight,
} from '../store-fixture.ts'

const suspect = (
  t: StoreFixture,
  workerId: string,
  published: Published,
  over: { token?: string; spendFrom?: number } = {},
) =>
  t.store.queue.suspect({
    workerId,
    ids: idsOf([published]),
    token: over.token ?? t.newId(),
    spendFrom: over.spendFrom ?? 3,
  })

export const suspectsTopic: Topic = {
  title: 'suspects',
  cases: {
    'each suspicion is counted and a token is written': async (t) => {
      const me = await t.worker()
      const published = await t.publish()
      const id = published.delivery.id
      assert.deepEqual(await suspect(t, me.id, published), [{ id, suspicions: 1, attempts: 0 }])
      const token = t.newId()
      assert.deepEqual(await suspect(t, me.id, published, { token }), [{ id, suspicions: 2, attempts: 0 }])
      const row = await t.readOne(published)
      assert.deepEqual([row.suspicions, row.attempts, row.token], [2, 0, token])
    },

    'from a certain number on a suspicion also spends an attempt': async (t) => {
      const me = await t.worker()
      const published = await t.publish()
      const seen: [number, number][] = []
      for (let i = 0; i < 4; i++) {
        const [one] = await suspect(t, me.id, published, { spendFrom: 3 })
        seen.push([one!.suspicions, one!.attempts])
      }
      assert.deepEqual(seen, [
        [1, 0],
        [2, 0],
        [3, 1],
        [4, 2],
      ])
      assert.equal((await t.readOne(published)).attempts, 2)
    },

    'repeating it with the same token counts once': async (t) => {
      const me = await t.worker()
      const published = await t.publish()
      const token = t.newId()
      for (let i = 0; i < 3; i++) {
        const answer = await suspect(t, me.id, published, { token, spendFrom: 1 })
        assert.deepEqual(answer, [{ id: published.delivery.id, suspicions: 1, attempts: 1 }])
      }
    },

    'a suspect is settled by the right of its lane': async (t) => {
      const me = await t.worker()
      const published = await t.publish()
      await suspect(t, me.id, published)
      assert.deepEqual((await t.done(published, me.right)).lost, [])
      assert.equal(await t.status(published), 'done')
    },

    'the token that was written is a right as well': async (t) => {
      const me = await t.worker()
      const published = await t.publish()
      const token = t.newId()
      await suspect(t, me.id, published, { token })
      assert.deepEqual((await t.done(published, tokenRight(token))).lost, [])
    },

    'a former hot owner loses its right and cannot extend its claim': async (t) => {
      const me = await t.worker()
      const token = t.newId()
      const hot = await t.publish({ token, hotLeaseMs: 10 })
      await t.until(10, 'the claim has run out', async () => (await t.readableIds()).length === 1)
      await suspect(t, me.id, hot)
      const claims = [{ id: hot.delivery.id, token }]
      assert.deepEqual(await t.store.queue.extend(claims, LONG_MS), idsOf([hot]))
      assert.deepEqual((await t.done(hot, tokenRight(token))).lost, idsOf([hot]))
      assert.deepEqual((await t.done(hot, me.right)).lost, [])
    },

    'a claim that its owner extended in the meantime is not taken away': async (t) => {
      const me = await t.worker()
      const token = t.newId()
      const hot = await t.publish({ token, hotLeaseMs: 10 })
      await t.until(10, 'the claim has run out', async () => (await t.readableIds()).length === 1)
      await t.store.queue.extend([{ id: hot.delivery.id, token }], LONG_MS)
      assert.deepEqual(await suspect(t, me.id, hot), [])
      assert.deepEqual((await t.done(hot, tokenRight(token))).lost, [])
    },

    'what was settled in the meantime is left out': async (t) => {
      const [me, other] = [await t.worker(), await t.worker()]
      const [done, buried, left] = await t.publishMany(3)
      await t.done(done!, other.right)
      await t.dead(buried!, other.right)
      const request = { workerId: me.id, token: t.newId(), spendFrom: 3 }
      const answer = await t.store.queue.suspect({
        ...request,
        ids: [...idsOf([done!, buried!, left!]), t.newId()],
      })
      assert.deepEqual(
        answer.map((one) => one.id),
        idsOf([left!]),
      )
      assert.equal((await t.view(buried!)).suspicions, 0)
    },

    'a fenced or unknown worker suspects nothing': async (t) => {
      const published = await t.publish()
      const fenced = await t.fencedWorker()
      assert.deepEqual(await suspect(t, fenced.id, published), [])
      assert.deepEqual(await suspect(t, t.newId(), published), [])
      const row = await t.readOne(published)
      assert.deepEqual([row.suspicions, row.token], [0, null])
    },

    'a retry that is due can be a suspect and stays a retry': async (t) => {
      const me = await t.worker()
      const published = await t.publish({ key: 'k' })
      await t.retry(published, me.right, { delayMs: 0 })
      const answer = await suspect(t, me.id, published, { spendFrom: 1 })
      assert.deepEqual(answer, [{ id: published.delivery.id, suspicions: 1, attempts: 2 }])
      const row = await t.readOne(published)
      assert.deepEqual([row.status, row.holdsKey, row.attempts], ['retry', true, 2])
    },

    'nor does one that was put aside behind the head of its key and goes on': async (t) => {
      const me = await t.worker()
      const head = await t.publish({ key: 'k' })
      const suspected = await t.publish({ key: 'k' })
      await suspect(t, me.id, suspected)
      await t.retry(head, me.right)
      assert.deepEqual(await t.store.queue.hold(me.id, 'alpha', idsOf([suspected])), idsOf([suspected]))
      await t.done(head, me.right)
      const { token, suspicions } = await t.readOne(suspected)
      assert.deepEqual([token, suspicions], [null, 1])
    },

    'after a settle or a release the row no longer looks like a suspect': async (t) => {
      const me = await t.worker()
      const [released, retried] = await t.publishMany(2)
      await suspect(t, me.id, released!)
      await suspect(t, me.id, retried!)
      await t.release(released!, me.right)
      await t.retry(retried!, me.right, { delayMs: 0 })
      assert.equal((await t.readOne(released!)).token, null)
      assert.equal((await t.readOne(retried!)).token, null)
      assert.equal((await t.readOne(released!)).suspicions, 1, 'the count itself stays')
    },
  },
}
