import assert from 'node:assert/strict'
import { idsOf, LONG_MS, type Topic, tokenRight } from '../store-fixture.ts'

export const settleTopic: Topic = {
  title: 'settle',
  cases: {
    'a hot delivery is done by its token and never read again': async (t) => {
      const token = t.newId()
      const hot = await t.publish({ token, hotLeaseMs: 10 })
      assert.deepEqual(await t.done(hot, tokenRight(token)), { lost: [], promoted: [] })
      await t.until(10, 'its lease has run out', async () => (await t.read()).nextDueInMs === null)
      assert.deepEqual(await t.readableIds(), [])
      const view = await t.view(hot)
      assert.equal(view.status, 'done')
      assert.ok(view.finishedAtMs !== null)
      assert.equal(view.availableAtMs, null)
    },

    'a cold delivery is done by the right of a lane': async (t) => {
      const me = await t.worker()
      const cold = await t.publish()
      assert.deepEqual(await t.done(cold, me.right), { lost: [], promoted: [] })
      assert.deepEqual(await t.readableIds(), [])
      assert.equal(await t.status(cold), 'done')
    },

    'settling as done again by the same right is not lost': async (t) => {
      const me = await t.worker()
      const token = t.newId()
      const [hot, cold] = [await t.publish({ token }), await t.publish()]
      for (let i = 0; i < 2; i++) {
        assert.deepEqual((await t.done(hot, tokenRight(token))).lost, [])
        assert.deepEqual((await t.done(cold, me.right)).lost, [])
      }
      assert.equal((await t.detail(hot)).deliveries.length, 1)
    },

    'a finished delivery is final: another right changes nothing': async (t) => {
      const [me, other] = [await t.worker(), await t.worker()]
      const published = await t.publish()
      await t.done(published, me.right)
      assert.deepEqual((await t.dead(published, other.right)).lost, idsOf([published]))
      assert.deepEqual((await t.retry(published, tokenRight(t.newId()))).lost, idsOf([published]))
      const view = await t.view(published)
      assert.deepEqual([view.status, view.attempts], ['done', 0])
    },

    'a dead delivery stays dead: another right changes nothing': async (t) => {
      const [me, other] = [await t.worker(), await t.worker()]
      const published = await t.publish()
      await t.dead(published, me.right)
      assert.deepEqual((await t.done(published, other.right)).lost, idsOf([published]))
      assert.deepEqual((await t.retry(published, other.right, { delayMs: 0 })).lost, idsOf([published]))
      const released = t.settlement(published, other.right, { kind: 'released' })
      assert.deepEqual((await t.settle([released])).lost, idsOf([published]))
      assert.equal(await t.status(published), 'dead')
      assert.deepEqual(await t.readableIds(), [])
    },

    'a failed attempt makes it a retry with a time, a count and a history': async (t) => {
      const me = await t.worker()
      const published = await t.publish({ key: 'k' })
      await t.retry(published, me.right, { delayMs: 500_000, message: 'π refused' })
      const view = await t.view(published)
      assert.equal(view.status, 'retry')
      assert.equal(view.attempts, 1)
      assert.equal(view.lastError, 'π refused')
      const { nextDueInMs } = await t.read()
      assert.ok(nextDueInMs !== null && nextDueInMs > 440_000 && nextDueInMs <= 500_000)
      const { attempts } = await t.detail(published)
      const { atMs, ...attempt } = attempts[0]!
      assert.equal(attempts.length, 1)
      assert.ok(Number.isFinite(atMs))
      assert.deepEqual(attempt, {
        deliveryId: published.delivery.id,
        attempt: 1,
        worker: 'host:1',
        durationMs: 12,
        code: 'E_REFUSED',
        message: 'π refused',
        stack: 'at there',
      })
    },

    'the attempts are what the settle says, however often it is repeated': async (t) => {
      const me = await t.worker()
      const published = await t.publish()
      for (let i = 0; i < 3; i++) {
        assert.deepEqual((await t.retry(published, me.right, { delayMs: 0, attempts: 4 })).lost, [])
      }
      assert.equal((await t.readOne(published)).attempts, 4)
      assert.equal((await t.detail(published)).attempts.length, 1)
    },

    'attempts only grow, however late a settle comes': async (t) => {
      const me = await t.worker()
      const [retried, done, dead] = [await t.publish(), await t.publish(), await t.publish()]
      for (const each of [retried, done, dead]) await t.retry(each, me.right, { delayMs: 0, attempts: 4 })
      await t.retry(retried, me.right, { delayMs: 0, attempts: 2 })
      await t.settle([
        t.settlement(done, me.right, { kind: 'done' }, { attempts: 2 }),
        t.settlement(dead, me.right, { kind: 'dead', failure: t.failure(2) }, { attempts: 2 }),
      ])
      for (const each of [retried, done, dead]) assert.equal((await t.view(each)).attempts, 4)
    },

    'a retry settled by its token leaves no token, and repeating it changes nothing': async (t) => {
      const token = t.newId()
      const hot = await t.publish({ token })
      assert.deepEqual((await t.retry(hot, tokenRight(token), { delayMs: 0 })).lost, [])
      assert.equal((await t.readOne(hot)).token, null, 'or it would look like a claim that ran out')
      assert.deepEqual((await t.retry(hot, tokenRight(token), { delayMs: LONG_MS })).lost, [])
      const row = await t.readOne(hot)
      assert.deepEqual([row.status, row.attempts], ['retry', 1])
      assert.equal((await t.detail(hot)).attempts.length, 1)
    },

    'a token is used up by its settle: it does not settle the next attempt': async (t) => {
      const me = await t.worker()
      const token = t.newId()
      const hot = await t.publish({ token })
      await t.retry(hot, tokenRight(token), { delayMs: 0 })
      await t.retry(hot, me.right, { delayMs: 0, attempts: 2 })
      assert.deepEqual((await t.done(hot, tokenRight(token))).lost, idsOf([hot]))
      assert.equal((await t.readOne(hot)).attempts, 2)
    },

    'an attempt that was not counted keeps the number and moves the time': async (t) => {
      const me = await t.worker()
      const published = await t.publish()
      const failure = t.failure(1)
      const outcome = { kind: 'retry', delayMs: LONG_MS, counted: false, failure } as const
      const settlement = t.settlement(published, me.right, outcome, { attempts: 0 })
      assert.deepEqual((await t.settle([settlement])).lost, [])
      const view = await t.view(published)
      assert.deepEqual([view.status, view.attempts], ['retry', 0])
      assert.deepEqual(await t.readableIds(), [])
    },

    'the history is bounded and keeps the newest attempts': async (t) => {
      const me = await t.worker()
      const published = await t.publish()
      for (let attempts = 1; attempts <= 6; attempts++) {
        await t.retry(published, me.right, { delayMs: 0, attempts, historyLimit: 3 })
      }
      const { attempts } = await t.detail(published)
      assert.deepEqual(attempts.map((one) => one.attempt).sort(), [4, 5, 6])
    },

    'a dead delivery stays visible, with its reason, outside all reads': async (t) => {
      const me = await t.worker()
      const published = await t.publish()
      assert.deepEqual(await t.dead(published, me.right, { attempts: 3 }), { lost: [], promoted: [] })
      const result = await t.read({ after: 1_000_000n, sweep: true })
      assert.deepEqual([result.fresh, result.due, result.swept, result.nextDueInMs], [[], [], [], null])
      assert.deepEqual(await t.readableIds(), [])
      const view = await t.view(published)
      assert.deepEqual([view.status, view.attempts, view.availableAtMs], ['dead', 3, null])
      assert.equal(view.lastError, 'attempt 3 was refused')
      assert.equal((await t.detail(published)).attempts.length, 1)
    },

    'burying again by the same right is not lost, by another it is': async (t) => {
      const [me, other] = [await t.worker(), await t.worker()]
      const published = await t.publish()
      await t.dead(published, me.right)
      assert.deepEqual((await t.dead(published, me.right)).lost, [])
      assert.deepEqual((await t.done(published, other.right)).lost, idsOf([published]))
      assert.equal(await t.status(published), 'dead')
      assert.equal((await t.detail(published)).attempts.length, 1)
    },

    'a released hot delivery can be read at once, as if nobody had touched it': async (t) => {
      const token = t.newId()
      const hot = await t.publish({ token })
      assert.deepEqual(await t.release(hot, tokenRight(token)), { lost: [], promoted: [] })
      const row = await t.readOne(hot)
      assert.deepEqual([row.token, row.attempts, row.suspicions, row.status], [null, 0, 0, 'pending'])
      assert.deepEqual((await t.release(hot, tokenRight(token))).lost, [], 'a repeated release is not lost')
    },

    'a released retry stays a retry that is due': async (t) => {
      const me = await t.worker()
      const published = await t.publish({ key: 'k' })
      await t.retry(published, me.right, { delayMs: 0 })
      await t.settle([t.settlement(published, me.right, { kind: 'released' }, { attempts: 1 })])
      const row = await t.readOne(published)
      assert.deepEqual([row.status, row.attempts, row.holdsKey], ['retry', 1, true])
    },

    'in a mixed batch each delivery gets its own outcome and its own verdict': async (t) => {
      const me = await t.worker()
      const token = t.newId()
      const [done, retried, buried, stale] = await t.publishMany(4)
      const hot = await t.publish({ token })
      const failure = t.failure(1)
      const result = await t.settle([
        t.settlement(done!, me.right, { kind: 'done' }),
        t.settlement(retried!, me.right, { kind: 'retry', delayMs: LONG_MS, counted: true, failure }),
        t.settlement(buried!, me.right, { kind: 'dead', failure }),
        t.settlement(stale!, tokenRight(t.newId()), { kind: 'done' }),
        t.settlement(hot, tokenRight(token), { kind: 'released' }),
      ])
      assert.deepEqual(result.lost, idsOf([stale!]))
      const statuses = await Promise.all([done!, retried!, buried!, stale!, hot].map((one) => t.status(one)))
      assert.deepEqual(statuses, ['done', 'retry', 'dead', 'pending', 'pending'])
    },

    'a delivery that does not exist is reported as lost': async (t) => {
      const me = await t.worker()
      const ghost = t.prepare()
      assert.deepEqual((await t.done(ghost, me.right)).lost, idsOf([ghost]))
    },

    'an empty settle does nothing': async (t) => {
      assert.deepEqual(await t.settle([]), { lost: [], promoted: [] })
    },

    '[14] a settle after the token was replaced changes nothing and is reported': async (t) => {
      const me = await t.worker()
      const token = t.newId()
      const hot = await t.publish({ token, hotLeaseMs: 10 })
      await t.until(10, 'the claim has run out', async () => (await t.readableIds()).length === 1)
      await t.store.queue.suspect({ workerId: me.id, ids: idsOf([hot]), token: t.newId(), spendFrom: 3 })
      for (const settle of [t.done, t.dead, t.release, t.retry]) {
        const result = await settle.call(t, hot, tokenRight(token))
        assert.deepEqual(result.lost, idsOf([hot]))
      }
      const row = await t.readOne(hot)
      assert.deepEqual([row.status, row.attempts], ['pending', 0])
    },

    '[14] a fenced worker settles nothing, whatever the outcome': async (t) => {
      const published = await t.publish()
      const fenced = await t.fencedWorker()
      for (const settle of [t.done, t.dead, t.release, t.retry]) {
        const result = await settle.call(t, published, fenced.right)
        assert.deepEqual(result.lost, idsOf([published]))
      }
      const row = await t.readOne(published)
      assert.deepEqual([row.status, row.attempts], ['pending', 0])
    },

    '[14] a worker that retired or never existed settles nothing': async (t) => {
      const me = await t.worker()
      const published = await t.publish()
      await t.store.lanes.retire(me.id)
      assert.deepEqual((await t.done(published, me.right)).lost, idsOf([published]))
      const stranger = { kind: 'lane', workerId: t.newId() } as const
      assert.deepEqual((await t.done(published, stranger)).lost, idsOf([published]))
      assert.equal(await t.status(published), 'pending')
    },

    'a failure whose text no database can hold does not keep anything from being settled': async (t) => {
      const me = await t.worker()
      const texts = [`${'x'.repeat(3_999)}🙂`, 'a\ud800b', '\udc00', 'a\0b']
      const published = await t.publishMany(texts.length + 1)
      const settlements = published.map((one, i) => {
        const text = texts[i]
        if (text === undefined) return t.settlement(one, me.right, { kind: 'done' })
        const failure = { ...t.failure(1, text), stack: text, code: text.slice(-2) }
        return t.settlement(one, me.right, { kind: 'retry', delayMs: LONG_MS, counted: true, failure })
      })
      assert.deepEqual((await t.settle(settlements)).lost, [])
      for (const one of published.slice(0, -1))
        assert.equal((await t.detail(one)).attempts[0]?.message.slice(0, 1).length, 1)
      assert.equal(await t.status(published.at(-1)!), 'done')
    },

    'a delay beyond all calendars is a long one': async (t) => {
      const me = await t.worker()
      for (const delayMs of [1e15, Number.MAX_SAFE_INTEGER, 1e300, Number.POSITIVE_INFINITY]) {
        const published = await t.publish()
        assert.deepEqual((await t.retry(published, me.right, { delayMs })).lost, [])
        const { status, availableAtMs } = await t.view(published)
        assert.equal(status, 'retry')
        assert.ok((availableAtMs ?? 0) > Date.now() + LONG_MS, 'it is not due soon')
      }
      assert.deepEqual(await t.readableIds(), [])
    },

    '[41] sixteen settles at once over the same destination all get through': async (t) => {
      const me = await t.worker()
      const all = Array.from({ length: 160 }, (_, i) => t.prepare({ key: `k${i % 7}` }))
      await t.insert({ events: all.map((one) => one.event), deliveries: all.map((one) => one.delivery) })
      const flushes = Array.from({ length: 16 }, (_, flush) => {
        // Neighbouring flushes share half of their rows, in opposite orders: the classic way to deadlock.
        const mine = all.filter((_, i) => i % 16 === flush || i % 16 === (flush + 1) % 16)
        if (flush % 2 === 1) mine.reverse()
        return t.settle(mine.map((one) => t.settlement(one, me.right, { kind: 'done' })))
      })
      for (const result of await Promise.all(flushes)) assert.deepEqual(result.lost, [])
      const [counts] = await t.store.inspection.counts()
      assert.equal(counts?.counts.done, 160)
    },
  },
}
