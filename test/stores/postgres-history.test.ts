/** What is kept of finished deliveries: how many there were in each minute, and for how long. */
import { afterEach, beforeEach, expect, it } from 'vitest'
import type { CleanupResult } from '../../src/core/spi/index.ts'
import { createWorld, type World } from './postgres-words.ts'
import { newPostgresUrl } from './servers.ts'

const DAY_MS = 24 * 3_600_000

let world: World

beforeEach(async () => {
  world = await createWorld(newPostgresUrl())
})

afterEach(() => world.close())

const finish = async (count: number): Promise<void> => {
  const me = await world.t.worker()
  for (let n = 0; n < count; n += 1) await world.t.done(await world.t.publish(), me.right)
}

const cleanup = (limit: number, doneOlderThanMs = 7 * DAY_MS): Promise<CleanupResult> =>
  world.t.store.maintenance.cleanup({
    doneOlderThanMs,
    deadOlderThanMs: null,
    dedupOlderThanMs: 7 * DAY_MS,
    limit,
  })

const finishedInMinutes = async (): Promise<number> => {
  const { rows } = await world.hand.query(
    `SELECT coalesce(sum(done), 0)::int AS done FROM ${world.schema}.stats WHERE minute > 'epoch'`,
  )
  return rows[0].done
}

/** As if the deliveries had been made, or had finished, so many days ago. */
const age = (days: { readonly made: number; readonly finished: number }): Promise<unknown> =>
  world.hand.query(
    `UPDATE ${world.schema}.finished SET finished_at = now() - $2 * interval '1 day',
      id = (lpad(to_hex((extract(epoch FROM now() - $1 * interval '1 day') * 1000)::bigint), 12, '0') || substr(replace(id::text, '-', ''), 13))::uuid`,
    [days.made, days.finished],
  )

it('counts every delivery in the minute in which it finished, however rarely that is recorded', async () => {
  await finish(3)
  expect(await finishedInMinutes()).toBe(3)
  await world.t.store.maintenance.recordStatistics(60)
  await finish(2)
  await world.t.store.maintenance.recordStatistics(60)
  expect(await finishedInMinutes()).toBe(5)
})

it('does not forget the minutes of what is cleaned', async () => {
  await finish(3)
  expect((await cleanup(100, 0)).done).toBe(3)
  expect(await finishedInMinutes()).toBe(3)
  expect((await world.t.store.inspection.counts())[0]?.counts.done).toBe(0)
})

it('is cleaned by when it finished, in steps, and what took long is passed over', async () => {
  await finish(5)
  await age({ made: 20, finished: 1 })
  await finish(3)
  await age({ made: 20, finished: 1 })
  await world.hand.query(
    `UPDATE ${world.schema}.finished SET finished_at = now() - interval '8 days' WHERE id IN (SELECT id FROM ${world.schema}.finished ORDER BY id DESC LIMIT 3)`,
  )
  let done = 0
  let steps = 0
  for (let more = true; more; steps += 1) {
    const step = await cleanup(2)
    done += step.done
    more = step.more
  }
  expect(done).toBe(3)
  expect(steps).toBeGreaterThanOrEqual(4)
  expect((await cleanup(100)).done).toBe(0)
})

it('is cleaned even if the clock that made its id was years ahead', async () => {
  await finish(2)
  await age({ made: -700, finished: 8 })
  expect((await cleanup(100)).done).toBe(2)
})
