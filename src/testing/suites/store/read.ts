import assert from 'node:assert/strict'
import { idsOf, LONG_MS, type Topic } from '../store-fixture.ts'

export const readTopic: Topic = {
  title: 'read',
  cases: {
    'an empty queue has nothing to say': async (t) => {
      const { snapshot: _, ...result } = await t.read({ sweep: true })
      assert.deepEqual(result, {
        fresh: [],
        due: [],
        swept: [],
        sweptMore: false,
        more: false,
        nextDueInMs: null,
        unrouted: false,
        activatable: false,
      })
    },

    'fresh rows come in order, after the cursor, up to the limit': async (t) => {
      const all = await t.publishMany(7)
      const first = await t.read({ limit: 3 })
      assert.deepEqual(
        first.fresh.map((row) => row.id),
        idsOf(all.slice(0, 3)),
      )
      assert.equal(first.more, true)
      const second = await t.read({ after: first.fresh.at(-1)!.seq, limit: 100 })
      assert.deepEqual(
        second.fresh.map((row) => row.id),
        idsOf(all.slice(3)),
      )
      assert.equal(second.more, false)
    },

    'a read of exactly the limit says that there is no more': async (t) => {
      await t.publishMany(3)
      assert.equal((await t.read({ limit: 3 })).more, false)
    },

    'only rows of the lanes asked for are read; null means all of them': async (t) => {
      const [one, two, three] = [
        await t.publish({ lane: 1 }),
        await t.publish({ lane: 2 }),
        await t.publish({ lane: 3 }),
      ]
      const some = await t.read({ lanes: [1, 3], sweep: true })
      assert.deepEqual(
        some.fresh.map((row) => row.id),
        idsOf([one, three]),
      )
      assert.deepEqual((await t.read({ lanes: [] })).fresh, [])
      const behind = await t.read({ lanes: [2], after: 1_000_000n, sweep: true })
      assert.deepEqual(
        behind.swept!.map((row) => row.id),
        idsOf([two]),
      )
      assert.equal((await t.read({ lanes: null })).fresh.length, 3)
    },

    'a row says for how long it could have been sent, also after a claim that ran out': async (t) => {
      const published = await t.publish()
      const claimed = await t.publish({ token: t.newId(), hotLeaseMs: 200 })
      await t.until(200, 'the claim ran out', async () => (await t.read({})).fresh.length === 2)
      const { fresh } = await t.read({})
      const dueFor = (id: string): number | undefined => fresh.find((row) => row.id === id)?.dueForMs
      const [plain, after] = [published, claimed].map(({ delivery }) => dueFor(delivery.id))
      // A store need not tell.
      if (plain === undefined || after === undefined) return
      assert.ok(plain >= 200 && plain < LONG_MS, `${plain} ms`)
      assert.ok(after >= 199 && after <= plain, `${after} ms, not since the end of its claim`)
    },

    'rows of another destination are not read': async (t) => {
      await t.publish({ destination: 'beta' })
      assert.deepEqual(await t.readableIds('alpha'), [])
    },

    'a read stops before its bytes are exceeded, but returns at least one row': async (t) => {
      const all = await t.publishMany(3, { data: JSON.stringify('x'.repeat(98)) })
      const two = await t.read({ maxBytes: 250 })
      assert.deepEqual(
        two.fresh.map((row) => row.id),
        idsOf(all.slice(0, 2)),
      )
      assert.equal(two.more, true)
      const one = await t.read({ maxBytes: 1 })
      assert.deepEqual(
        one.fresh.map((row) => row.id),
        idsOf(all.slice(0, 1)),
      )
    },

    'retries whose time has come go first and share the limit': async (t) => {
      const me = await t.worker()
      const [first, second, third] = [await t.publish(), await t.publish(), await t.publish()]
      await t.retry(third, me.right, { delayMs: 0 })
      const { due, fresh, more } = await t.read({ limit: 2 })
      assert.deepEqual(
        due.map((row) => [row.id, row.status, row.attempts]),
        [[third.delivery.id, 'retry', 1]],
      )
      assert.deepEqual(
        fresh.map((row) => row.id),
        [first.delivery.id],
      )
      assert.equal(more, true)
      assert.ok(second)
    },

    '[69] a crowd of retries leaves room for fresh rows': async (t) => {
      const me = await t.worker()
      const poisons = [await t.publish(), await t.publish(), await t.publish()]
      const fresh = await t.publish()
      for (const poison of poisons) await t.retry(poison, me.right, { delayMs: 0 })
      const result = await t.read({ limit: 3, dueLimit: 2 })
      assert.equal(result.due.length, 2)
      assert.deepEqual(
        result.fresh.map((row) => row.id),
        [fresh.delivery.id],
      )
      assert.equal(result.more, true)
    },

    'retries are read by due time, not by position': async (t) => {
      const me = await t.worker()
      const [one, two] = [await t.publish(), await t.publish()]
      await t.retry(two, me.right, { delayMs: 10 })
      await t.retry(one, me.right, { delayMs: 60 })
      await t.until(60, 'both are due', async () => (await t.readableIds()).length === 2)
      assert.deepEqual(
        (await t.read()).due.map((row) => row.id),
        idsOf([two, one]),
      )
    },

    'a retry is not read before its time': async (t) => {
      const me = await t.worker()
      const one = await t.publish()
      await t.retry(one, me.right, { delayMs: LONG_MS })
      assert.deepEqual(await t.readableIds(), [])
    },

    'the sweep lists what is pending at or behind the cursor, lowest first': async (t) => {
      const me = await t.worker()
      const all = await t.publishMany(5)
      const { fresh } = await t.read()
      await t.done(all[1]!, me.right)
      await t.retry(all[2]!, me.right, { delayMs: 0 })
      const result = await t.read({ after: fresh[3]!.seq, sweep: true })
      assert.deepEqual(
        result.swept!.map((row) => row.id),
        idsOf([all[0]!, all[3]!]),
      )
      assert.deepEqual(
        result.swept!.map((row) => row.seq),
        [fresh[0]!.seq, fresh[3]!.seq],
      )
      assert.deepEqual(
        result.fresh.map((row) => row.id),
        idsOf([all[4]!]),
      )
      assert.equal(result.sweptMore, false)
    },

    'without a sweep there is no list, which is not the same as an empty one': async (t) => {
      await t.publish()
      assert.equal((await t.read({ after: 1_000_000n, sweep: false })).swept, null)
    },

    'a sweep that finds too much says so': async (t) => {
      const all = await t.publishMany(5)
      const result = await t.read({ after: 1_000_000n, sweep: true, sweepLimit: 3 })
      assert.deepEqual(
        result.swept!.map((row) => row.id),
        idsOf(all.slice(0, 3)),
      )
      assert.equal(result.sweptMore, true)
      const exact = await t.read({ after: 1_000_000n, sweep: true, sweepLimit: 5 })
      assert.equal(exact.sweptMore, false)
    },

    'a hot claim keeps a row out of the sweep': async (t) => {
      await t.publish({ token: t.newId() })
      assert.deepEqual((await t.read({ after: 1_000_000n, sweep: true })).swept, [])
    },

    'rows that were stored a moment ago can be left out': async (t) => {
      const old = await t.publish()
      assert.deepEqual((await t.read({ skipRecentMs: 60_000 })).fresh, [])
      await t.until(
        50,
        'the row is old enough',
        async () => (await t.read({ skipRecentMs: 50 })).fresh.length === 1,
      )
      assert.deepEqual(await t.readableIds(), [old.delivery.id])
    },

    'nothing behind a recent row is read, because it could be of the same key': async (t) => {
      const me = await t.worker()
      const delayed = await t.publish({ key: 'k', due: { afterMs: 2_000 } })
      const due = { workerId: me.id, destination: 'alpha', lanes: null, limit: 10 }
      await t.until(2_000, 'it is due', async () => (await t.read()).activatable)
      const recent = await t.publish({ key: 'k' })
      await t.store.queue.activate(due)
      assert.deepEqual((await t.read({ skipRecentMs: 1_900 })).fresh, [])
      assert.deepEqual(await t.readableIds(), idsOf([recent, delayed]))
    },

    'rows that were stored long ago can be left out of the fresh ones, but not of the sweep': async (t) => {
      const old = await t.publish()
      assert.deepEqual(
        (await t.read({ windowMs: LONG_MS })).fresh.map((row) => row.id),
        idsOf([old]),
      )
      await t.until(50, 'the row is too old', async () => (await t.read({ windowMs: 40 })).fresh.length === 0)
      const behind = await t.read({ windowMs: 40, after: 1_000_000n, sweep: true })
      assert.deepEqual(
        behind.swept!.map((row) => row.id),
        idsOf([old]),
      )
    },

    'the next due time is that of the nearest retry, delayed or claimed row of these lanes': async (t) => {
      const me = await t.worker()
      const claimed = await t.publish({ lane: 1, token: t.newId(), hotLeaseMs: 500_000 })
      const near = async (lanes: readonly number[] | null) => (await t.read({ lanes })).nextDueInMs ?? -1
      const within = (value: number, limit: number) =>
        assert.ok(value > limit - 60_000 && value <= limit, `${value}`)
      within(await near(null), 500_000)
      await t.publish({ lane: 2, due: { afterMs: 400_000 } })
      within(await near(null), 400_000)
      const retrying = await t.publish({ lane: 3 })
      await t.retry(retrying, me.right, { delayMs: 300_000 })
      within(await near(null), 300_000)
      within(await near([1, 2]), 400_000)
      within(await near([1]), 500_000)
      assert.equal((await t.read({ lanes: [4] })).nextDueInMs, null)
      assert.ok(claimed)
    },

    'reading by id leaves out what is no longer pending and due': async (t) => {
      const me = await t.worker()
      const [ready, done, retrying] = [await t.publish(), await t.publish(), await t.publish()]
      const delayed = await t.publish({ due: { afterMs: LONG_MS } })
      const claimed = await t.publish({ token: t.newId() })
      const elsewhere = await t.publish({ destination: 'beta' })
      await t.done(done, me.right)
      await t.retry(retrying, me.right, { delayMs: 0 })
      const ids = [...idsOf([ready, done, retrying, delayed, claimed, elsewhere]), t.newId()]
      const rows = await t.store.queue.readByIds('alpha', ids)
      assert.deepEqual(
        rows.map((row) => row.id),
        [ready.delivery.id],
      )
      // Apart from the time that has passed.
      const { dueForMs: _, ...again } = await t.readOne(ready)
      assert.deepEqual({ ...rows[0], dueForMs: undefined }, { ...again, dueForMs: undefined })
    },

    'an event that cannot be decoded is a row with a problem, not a failed read': async (t) => {
      const corruptEvent = t.need('corruptEvent')
      const [broken, whole] = [await t.publish(), await t.publish()]
      await corruptEvent(broken.event.id)
      const row = await t.readOne(broken)
      assert.equal(row.event, null)
      assert.ok(row.problem !== null && row.problem.length > 0)
      assert.equal((await t.readOne(whole)).problem, null)
      const me = await t.worker()
      assert.deepEqual((await t.dead(broken, me.right)).lost, [])
    },

    'another process sees the same queue': async (t) => {
      const other = await t.need('reopen')()
      const published = await t.publish()
      const request = {
        lanes: null,
        after: 0n,
        limit: 10,
        dueLimit: 10,
        maxBytes: 1_000,
        skipRecentMs: 0,
        windowMs: 0,
        sweep: false,
        sweepFrom: 0n,
        sweepLimit: 1,
      }
      const { fresh } = await other.queue.read({ destination: 'alpha', ...request })
      assert.deepEqual(
        fresh.map((row) => row.id),
        [published.delivery.id],
      )
    },

    '[22] every unfinished row is found by a read, now or at its time': async (t) => {
      const me = await t.worker()
      await t.keyWithHeld(2, me)
      await t.publish()
      await t.publish({ token: t.newId(), hotLeaseMs: 20 })
      await t.publish({ due: { afterMs: 20 } })
      const [head] = await t.keyWithHeld(1, me, 'other')
      await t.retry(head, me.right, { delayMs: 20, attempts: 2 })
      // Whatever can be read is settled, until nothing unfinished is left but the head that retries in an hour.
      await t.until(20, 'everything is found and settled', async () => {
        for (let round = 0; round < 20; round++) {
          const delayed = { workerId: me.id, destination: 'alpha', lanes: null, limit: 10 }
          await t.store.queue.activate(delayed)
          const { due, fresh } = await t.read()
          const rows = [...due, ...fresh].filter((row) => !row.behind)
          if (rows.length === 0) break
          for (const row of rows) {
            const { id, event } = row
            const delivery = { ...t.delivery({ ...t.event(), ...event! }), id }
            await t.done({ event: { ...t.event(), ...event! }, delivery }, me.right)
          }
        }
        const [counts] = await t.store.inspection.counts()
        const { pending, scheduled, retry, held } = counts!.counts
        return pending === 0 && scheduled === 0 && retry === 1 && held === 2
      })
    },
  },
}
