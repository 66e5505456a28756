/** What is kept of finished deliveries: how many there were in each minute. */
import { afterEach, beforeEach, expect, it } from 'vitest'
import type { StoreHarness } from '../../src/testing/suites/index.ts'
import { StoreFixture } from '../../src/testing/suites/store-fixture.ts'
import { createHarness } from './sqlite-harness.ts'

let harness: Awaited<ReturnType<typeof createHarness>>
let t: StoreFixture

beforeEach(async () => {
  harness = await createHarness('libsql')
  await harness.store.schema.migrate()
  t = new StoreFixture(harness as unknown as StoreHarness)
})

afterEach(() => harness.dispose())

const byHand = (sql: string): Promise<void> =>
  harness.store.transactions.run(async (tx) => {
    tx.exec(sql)
  })

const finish = async (count: number): Promise<void> => {
  const me = await t.worker()
  for (const one of await t.publishMany(count)) await t.done(one, me.right)
}

const doneInMinutes = (): Promise<number> =>
  harness.store.transactions.run(async (tx) => {
    const rows = await harness.store.transactions
      .executor(tx)
      .run('SELECT sum(done) AS done FROM outbox_stats WHERE minute > 0', [])
    return Number(rows?.[0]?.done)
  })

it('what finishes after a minute was recorded is counted in that minute all the same', async () => {
  await t.declare('alpha')
  await finish(1)
  await t.store.maintenance.recordStatistics(100)
  await finish(2)
  // As if everything so far had been a minute earlier.
  await byHand(`UPDATE outbox_finished SET finished_at = finished_at - 60000;
UPDATE outbox_stats SET minute = minute - 60000 WHERE minute > 0`)
  await finish(1)
  await t.store.maintenance.recordStatistics(100)
  expect(await doneInMinutes()).toBe(4)
  await byHand('DELETE FROM outbox_finished')
  await t.store.maintenance.recordStatistics(100)
  expect(await doneInMinutes()).toBe(4)
})

it('a delayed delivery whose routes and event nobody knows is buried, not waited for for ever', async () => {
  const lost = await t.publish({ destination: '*', due: { afterMs: 60_000 } })
  await byHand('DELETE FROM outbox_events')
  await t.store.maintenance.cleanup({
    doneOlderThanMs: 0,
    deadOlderThanMs: null,
    dedupOlderThanMs: 0,
    limit: 10,
  })
  const { deliveries } = await t.store.inspection.list({ status: ['dead'], limit: 10 })
  expect(deliveries.map(({ id }) => id)).toEqual([lost.delivery.id])
})
