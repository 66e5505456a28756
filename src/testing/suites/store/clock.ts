import assert from 'node:assert/strict'
import { Inapplicable } from '../run-suite.ts'
import { idsOf, LONG_MS, type StoreFixture, type Topic } from '../store-fixture.ts'

/** Two to the power of 53, where a double can no longer count by one. */
const UNSAFE = 9_007_199_254_740_992n

const setBack = async ({ harness }: StoreFixture): Promise<void> => {
  if (harness.setBack) await harness.setBack(LONG_MS)
  else if (harness.advance) await harness.advance(-LONG_MS)
  else throw new Inapplicable('nobody can turn back the clock of this database')
}

export const clockTopic: Topic = {
  title: 'clocks and large numbers',
  cases: {
    '[25] leases and due times follow the database, whatever the clock of the publisher says': async (t) => {
      const skewed = t.event({ createdAtMs: Date.now() + 10 * LONG_MS })
      await t.insert({ events: [skewed], deliveries: [t.delivery(skewed)] })
      const row = (await t.read()).fresh[0]
      assert.equal(row?.event?.id, skewed.id, 'an event from the future is due now')
      assert.notEqual(row.event.createdAtMs, skewed.createdAtMs)
      const me = await t.worker()
      await t.done({ event: skewed, delivery: t.delivery(skewed) }, me.right)
      const past = t.event({ createdAtMs: 1_000 })
      await t.insert({
        events: [past],
        deliveries: [t.delivery(past, { token: t.newId() })],
        hotLeaseMs: 60_000,
      })
      const { nextDueInMs } = await t.read()
      assert.ok(nextDueInMs !== null && nextDueInMs > 0 && nextDueInMs <= 60_000, 'its lease began now')
    },

    '[26] a delay of nothing is due at once and no wait is ever negative': async (t) => {
      const me = await t.worker()
      const published = await t.publish()
      await t.retry(published, me.right, { delayMs: 0 })
      const { due, nextDueInMs } = await t.read()
      assert.deepEqual(
        due.map((row) => row.id),
        idsOf([published]),
      )
      assert.ok(nextDueInMs === null || nextDueInMs >= 0)
    },

    '[26] a clock that steps back neither hides pending rows nor ends a lease': async (t) => {
      const me = await t.worker({ leaseMs: 60_000 })
      const pending = await t.publish()
      const released = await t.publish({ token: 'a'.repeat(8) + t.newId().slice(8) })
      const retrying = await t.publish()
      await t.retry(retrying, me.right, { delayMs: 1_000 })
      await t.release(released, { kind: 'token', token: released.delivery.token! })
      await setBack(t)
      assert.deepEqual(await t.readableIds(), idsOf([pending, released]))
      const { nextDueInMs } = await t.read()
      assert.ok(nextDueInMs !== null && nextDueInMs <= LONG_MS + 1_000, 'the stall is bounded by the step')
      assert.equal((await t.store.lanes.survey(me.id, ['alpha'])).alive, true)
    },

    '[26] a clock that steps back lets nobody overtake what is pending already': async (t) => {
      const me = await t.worker()
      const early = await t.publish({ key: 'k' })
      const { fresh } = await t.read()
      await setBack(t)
      const late = await t.publish({ key: 'k' })
      assert.deepEqual(await t.readableIds(), idsOf([early, late]))
      const swept = await t.read({ after: fresh[0]!.seq, sweep: true })
      assert.deepEqual(
        swept.swept!.map((row) => row.id),
        idsOf([early]),
      )
      assert.equal((await t.store.queue.readByIds('alpha', idsOf([early]))).length, 1)
      const heads = await t.store.queue.claim(me.id, idsOf([early, late]), 10)
      assert.deepEqual(
        heads.map((head) => head.ahead),
        [[], idsOf([early])],
      )
      await t.retry(early, me.right)
      const waiting = await t.publish({ key: 'k' })
      await setBack(t)
      const ids = idsOf([late, waiting])
      const held = await t.store.queue.hold(me.id, 'alpha', ids)
      assert.deepEqual([...held].sort(), [...ids].sort(), 'what cannot be sent can be held')
    },

    '[26] a clock that steps back hides no suspect, which others of its key would overtake': async (t) => {
      const me = await t.worker()
      const early = await t.publish({ key: 'k' })
      const request = { workerId: me.id, ids: idsOf([early]), token: t.newId(), spendFrom: 3 }
      assert.equal((await t.store.queue.suspect(request)).length, 1)
      await setBack(t)
      const late = await t.publish({ key: 'k' })
      assert.deepEqual(await t.readableIds(), idsOf([early, late]))
    },

    '[26] what can be read after the clock stepped back can be counted as a suspect': async (t) => {
      const me = await t.worker()
      const early = await t.publish({ key: 'k' })
      await setBack(t)
      assert.deepEqual(await t.readableIds(), idsOf([early]))
      const request = { workerId: me.id, ids: idsOf([early]), token: t.newId(), spendFrom: 3 }
      assert.equal((await t.store.queue.suspect(request)).length, 1)
    },

    '[27] times keep their milliseconds': async (t) => {
      const atMs = Date.UTC(2100, 0, 1) + 999
      const published = await t.publish({ due: { atMs }, occurredAtMs: 1_699_999_999_999 })
      assert.equal((await t.view(published)).availableAtMs, atMs)
      assert.equal((await t.detail(published)).event.occurredAtMs, 1_699_999_999_999)
      const early = await t.publish({ occurredAtMs: 1 })
      assert.equal((await t.readOne(early)).event?.occurredAtMs, 1)
    },

    '[27] two tokens that differ in one character are two rights': async (t) => {
      const token = t.newId()
      const similar = token.slice(0, -1) + (token.endsWith('0') ? '1' : '0')
      const hot = await t.publish({ token })
      assert.deepEqual((await t.done(hot, { kind: 'token', token: similar })).lost, idsOf([hot]))
      assert.deepEqual((await t.done(hot, { kind: 'token', token })).lost, [])
    },

    '[77] positions beyond 2^53 stay exact in reads, cursors and sweeps': async (t) => {
      await t.need('setNextSeq')(UNSAFE)
      const all = await t.publishMany(4)
      const { fresh } = await t.read()
      assert.deepEqual(
        fresh.map((row) => row.id),
        idsOf(all),
      )
      const seqs = fresh.map((row) => row.seq)
      assert.ok(seqs[0]! >= UNSAFE)
      assert.equal(new Set(seqs).size, 4, 'neighbours do not fall together')
      for (const [i, seq] of seqs.entries()) {
        const result = await t.read({ after: seq, sweep: true })
        assert.deepEqual(
          result.fresh.map((row) => row.id),
          idsOf(all.slice(i + 1)),
        )
        assert.deepEqual(
          result.swept!.map((row) => row.seq),
          seqs.slice(0, i + 1),
        )
      }
    },

    '[77] positions beyond 2^53 stay exact in the order of a key and in pages': async (t) => {
      await t.need('setNextSeq')(UNSAFE)
      const me = await t.worker()
      const [one, two, three] = await t.publishMany(3, { key: 'k' })
      const heads = await t.store.queue.claim(me.id, idsOf([one!, two!, three!]), 10)
      const ahead = new Map(heads.map((head) => [head.id, head.ahead.length]))
      assert.deepEqual(
        idsOf([one!, two!, three!]).map((id) => ahead.get(id)),
        [0, 1, 2],
      )
      await t.retry(two!, me.right, { delayMs: 0 })
      assert.deepEqual(
        [(await t.readOne(one!)).behind, (await t.readOne(two!)).behind, (await t.readOne(three!)).behind],
        [false, false, true],
      )
      const first = await t.store.inspection.list({ limit: 1, order: 'oldest' })
      const second = await t.store.inspection.list({ limit: 1, order: 'oldest', after: first.next! })
      assert.deepEqual(
        [...first.deliveries, ...second.deliveries].map((row) => row.id),
        idsOf([one!, two!]),
      )
    },
  },
}
