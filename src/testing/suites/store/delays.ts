import assert from 'node:assert/strict'
import { idsOf, LONG_MS, type StoreFixture, type TestWorker, type Topic } from '../store-fixture.ts'

const activate = (t: StoreFixture, worker: TestWorker, over: { lanes?: number[]; limit?: number } = {}) =>
  t.store.queue.activate({ workerId: worker.id, destination: 'alpha', lanes: null, limit: 1_000, ...over })

const untilDue = (t: StoreFixture, lanes: number[] | null = null) =>
  t.until(20, 'delayed rows are due', async () => (await t.read({ lanes })).activatable)

export const delaysTopic: Topic = {
  title: 'delays',
  cases: {
    'a delayed delivery is scheduled, and not read before it has its place': async (t) => {
      const soon = await t.publish({ due: { afterMs: 20 } })
      const later = await t.publish({ due: { afterMs: LONG_MS } })
      assert.equal(await t.status(later), 'scheduled')
      await untilDue(t)
      assert.deepEqual(await t.readableIds(), [])
      assert.equal(await activate(t, await t.worker()), 1)
      assert.equal((await t.readOne(soon)).status, 'pending')
      assert.equal(await t.status(later), 'scheduled')
      assert.equal((await t.read()).activatable, false)
    },

    'one takes its place behind everything that is there when it is due': async (t) => {
      const me = await t.worker()
      const delayed = await t.publish({ key: 'k', due: { afterMs: 20 } })
      const before = await t.publishMany(2, { key: 'k' })
      await untilDue(t)
      await activate(t, me)
      const after = await t.publish({ key: 'k' })
      assert.deepEqual(await t.readableIds(), idsOf([...before, delayed, after]))
      const seqs = (await t.read()).fresh.map(({ seq }) => seq)
      assert.equal(new Set(seqs).size, 4, 'no place is given away twice')
    },

    'several take their places in order of their time': async (t) => {
      const me = await t.worker()
      const [third, first, second] = [30, 10, 20].map((afterMs) => t.prepare({ due: { afterMs } }))
      await t.insert({
        events: [third!, first!, second!].map(({ event }) => event),
        deliveries: [third!, first!, second!].map(({ delivery }) => delivery),
      })
      await t.until(30, 'all are due', async () => {
        await activate(t, me)
        return (await t.readableIds()).length === 3
      })
      assert.deepEqual(await t.readableIds(), idsOf([first!, second!, third!]))
    },

    'a delayed one waits for a later event of its key that is retrying': async (t) => {
      const me = await t.worker()
      const delayed = await t.publish({ key: 'k', due: { afterMs: 20 } })
      const later = await t.publish({ key: 'k' })
      await t.retry(later, me.right, { delayMs: 20 })
      await untilDue(t)
      await activate(t, me)
      assert.equal((await t.readOne(delayed)).behind, true)
      assert.deepEqual(await t.store.queue.hold(me.id, 'alpha', idsOf([delayed])), idsOf([delayed]))
      assert.deepEqual((await t.done(later, me.right)).promoted, ['alpha'])
      assert.deepEqual(await t.readableIds(), idsOf([delayed]))
    },

    'only rows of these lanes, and no more than the limit, are activated': async (t) => {
      const me = await t.worker()
      for (const lane of [1, 1, 1, 2]) await t.publish({ lane, due: { afterMs: 20 } })
      await t.until(20, 'all are due', async () => (await t.read({ lanes: [2] })).activatable)
      assert.equal((await t.read({ lanes: [3] })).activatable, false)
      assert.equal(await activate(t, me, { lanes: [1], limit: 2 }), 2)
      assert.equal(await activate(t, me, { lanes: [1] }), 1)
      assert.equal(await activate(t, me, { lanes: [1] }), 0)
      assert.equal(await activate(t, me), 1)
    },

    'a fenced worker activates nothing': async (t) => {
      await t.publish({ due: { afterMs: 20 } })
      await untilDue(t)
      assert.equal(await activate(t, await t.fencedWorker()), 0)
      assert.deepEqual(await t.readableIds(), [])
    },

    'one that was delayed lags since it was due, not since it was stored': async (t) => {
      const me = await t.worker()
      const beganAt = performance.now()
      await t.publish({ due: { afterMs: 400 } })
      await t.until(400, 'it is due', async () => (await t.read()).activatable)
      await activate(t, me)
      const [counts] = await t.store.inspection.counts()
      // By a real clock all of this took some time, of which the first 400 ms are no lag; times are rounded.
      const sinceDueMs = performance.now() - beganAt - 400 + 5
      const mostMs = t.harness.advance ? 399 : sinceDueMs
      assert.ok(counts!.oldestLagMs! <= mostMs, `${counts!.oldestLagMs} ms, at most ${mostMs}`)
    },
  },
}
