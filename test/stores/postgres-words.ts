/** What the tests of the PostgreSQL store do by hand, beside the store. */
import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { createIdGenerator } from '../../src/core/model/index.ts'
import type { StoreHarness } from '../../src/testing/suites/index.ts'
import { StoreFixture } from '../../src/testing/suites/store-fixture.ts'
import { createHarness, type PostgresHarness } from './postgres-harness.ts'
import { until } from './until.ts'

export const newId = createIdGenerator({ wallNow: () => Date.now(), randomBytes })

/** A store with its tables, the suite's words on it, and a connection for what is done by hand. */
export interface World {
  readonly url: string
  readonly schema: string
  readonly harness: PostgresHarness
  readonly t: StoreFixture
  readonly hand: pg.Client
  close(): Promise<void>
}

export const createWorld = async (
  url: string,
  options: Parameters<typeof createHarness>[1] = {},
): Promise<World> => {
  const harness = await createHarness(url, options)
  await harness.store.schema.migrate()
  const hand = new pg.Client({ connectionString: url })
  await hand.connect()
  return {
    url,
    schema: harness.schema,
    harness,
    t: new StoreFixture(harness as unknown as StoreHarness),
    hand,
    close: async () => {
      await hand.end().catch(() => undefined)
      await harness.dispose()
    },
  }
}

/** Asks on a connection of its own: inside a transaction the server's answer would stay the first one. */
const untilCount = async (
  what: string,
  url: string,
  sql: string,
  params: unknown[],
  least: number,
): Promise<void> => {
  const watcher = new pg.Client({ connectionString: url })
  await watcher.connect()
  try {
    await until(what, async () => (await watcher.query(sql, params)).rows[0].waiting >= least)
  } finally {
    await watcher.end()
  }
}

/** Resolves when somebody waits for a lock that this connection has. */
export const untilBlocking = (url: string, blocker: pg.Client): Promise<void> =>
  untilCount(
    'somebody waits',
    url,
    'SELECT count(*)::int AS waiting FROM pg_stat_activity WHERE $1 = ANY(pg_blocking_pids(pid))',
    [(blocker as unknown as { processID: number }).processID],
    1,
  )

/** Resolves when so many connections wait for locks with statements about this schema. */
export const untilWaiting = ({ url, schema }: World, count: number): Promise<void> =>
  untilCount(
    `${count} wait`,
    url,
    "SELECT count(*)::int AS waiting FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE $1",
    [`%${schema}%`],
    count,
  )
