import assert from 'node:assert/strict'
import { rejectsWithCode, type Topic } from '../store-fixture.ts'

class Refused extends Error {}

export const transactionsTopic: Topic = {
  title: 'transactions',
  cases: {
    'nothing is visible before the commit, everything after it': async (t) => {
      const published = t.prepare()
      const open = await t.begin()
      await t.publishIn(open.tx, published)
      // A store with one writer at a time may make a reader wait, so what it reads is looked at after the end.
      const early = t.store.capabilities.commitOrder ? null : await t.readableIds()
      await open.commit()
      if (early !== null) assert.deepEqual(early, [])
      assert.deepEqual(await t.readableIds(), [published.delivery.id])
    },

    'a rollback leaves nothing behind': async (t) => {
      const published = t.prepare()
      const open = await t.begin()
      await t.publishIn(open.tx, published)
      await open.rollback()
      assert.deepEqual(await t.readableIds(), [])
      assert.equal(await t.store.inspection.event(published.event.id), null)
    },

    'run commits and hands on the result of its function': async (t) => {
      const published = t.prepare()
      const answer = await t.transactions.run(async (tx) => {
        await t.publishIn(tx, published)
        return 42
      })
      assert.equal(answer, 42)
      assert.deepEqual(await t.readableIds(), [published.delivery.id])
    },

    'run rolls back and rejects with what its function threw': async (t) => {
      const thrown = new Refused('no')
      const published = t.prepare()
      const running = t.transactions.run(async (tx) => {
        await t.publishIn(tx, published)
        throw thrown
      })
      await assert.rejects(running, (error) => error === thrown)
      assert.deepEqual(await t.readableIds(), [])
    },

    'several inserts of one transaction become visible together': async (t) => {
      const [one, two] = [t.prepare(), t.prepare()]
      await t.transactions.run(async (tx) => {
        await t.publishIn(tx, one)
        await t.publishIn(tx, two)
      })
      assert.deepEqual(await t.readableIds(), [one.delivery.id, two.delivery.id])
    },

    'a nested transaction that throws undoes only its own part': async (t) => {
      const { transactions } = t
      if (!transactions.nested) return
      const [before, inside, after] = [t.prepare(), t.prepare(), t.prepare()]
      await transactions.run(async (tx) => {
        await t.publishIn(tx, before)
        const nested = transactions.nested!(tx, async (inner) => {
          await t.publishIn(inner, inside)
          throw new Refused('only this part')
        })
        await assert.rejects(nested, Refused)
        await t.publishIn(tx, after)
      })
      assert.deepEqual(await t.readableIds(), [before.delivery.id, after.delivery.id])
    },

    'a nested transaction inside a nested one keeps what the outer one keeps': async (t) => {
      const { transactions } = t
      if (!transactions.nested) return
      const [outer, inner, innermost] = [t.prepare(), t.prepare(), t.prepare()]
      await transactions.run(async (tx) => {
        await t.publishIn(tx, outer)
        await transactions.nested!(tx, async (first) => {
          await t.publishIn(first, inner)
          const second = transactions.nested!(first, async (handle) => {
            await t.publishIn(handle, innermost)
            throw new Refused('innermost')
          })
          await assert.rejects(second, Refused)
        })
      })
      assert.deepEqual(await t.readableIds(), [outer.delivery.id, inner.delivery.id])
    },

    'a rollback also undoes nested transactions that had succeeded': async (t) => {
      const { transactions } = t
      if (!transactions.nested) return
      const running = transactions.run(async (tx) => {
        await transactions.nested!(tx, async (inner) => {
          await t.publishIn(inner, t.prepare())
        })
        throw new Refused('all of it')
      })
      await assert.rejects(running, Refused)
      assert.deepEqual(await t.readableIds(), [])
    },

    'the handle of a transaction that is over is refused': async (t) => {
      let kept: unknown
      await t.transactions.run(async (tx) => {
        kept = tx
      })
      const use = async () => t.transactions.executor(kept)
      await rejectsWithCode(use(), 'POSTHASTE_TRANSACTION_ENDED')
      const open = await t.begin()
      await open.rollback()
      await rejectsWithCode((async () => t.transactions.executor(open.tx))(), 'POSTHASTE_TRANSACTION_ENDED')
    },

    'a handle says that it is in a transaction only while it is': async (t) => {
      let kept: unknown
      await t.transactions.run(async (tx) => {
        kept = tx
        assert.notEqual(t.transactions.inTransaction(tx), false)
      })
      assert.notEqual(t.transactions.inTransaction(kept), true)
    },

    '[1] a lower seq that commits late is found by the sweep behind the cursor': async (t) => {
      t.needsOverlap()
      const late = t.prepare()
      const open = await t.begin()
      await t.publishIn(open.tx, late)
      const early = await t.publish()
      const first = await t.read()
      assert.deepEqual(
        first.fresh.map((row) => row.id),
        [early.delivery.id],
      )
      const cursor = first.fresh[0]!.seq
      await open.commit()
      const second = await t.read({ after: cursor, sweep: true })
      const behind = second.swept!.map((row) => row.id)
      assert.deepEqual(second.fresh, [])
      assert.ok(behind.includes(late.delivery.id), 'the late row is listed')
      const rows = await t.store.queue.readByIds('alpha', [late.delivery.id])
      assert.ok(rows[0]!.seq < cursor)
    },

    'overlapping transactions see nothing of each other and both commit': async (t) => {
      t.needsOverlap()
      const [one, two] = [await t.begin(), await t.begin()]
      const [first, second] = [t.prepare(), t.prepare()]
      await t.publishIn(one.tx, first)
      await t.publishIn(two.tx, second)
      await two.commit()
      assert.deepEqual(await t.readableIds(), [second.delivery.id])
      await one.commit()
      assert.deepEqual((await t.readableIds()).sort(), [first.delivery.id, second.delivery.id].sort())
    },
  },
}
