/** What the tests of publishes that travel with COMMIT say: an outbox whose statements and round trips are counted. */
import pg from 'pg'
import { afterEach, beforeEach, expect, onTestFinished } from 'vitest'
import { createOutbox, type Draft, type Outbox } from '../../src/index.ts'
import { postgresStore } from '../../src/stores/postgres/index.ts'
import { RoundTrips } from '../clients/round-trips.ts'
import { startProxy } from '../databases/proxy.ts'
import { createWorld, type World } from './postgres-words.ts'
import { newPostgresUrl } from './servers.ts'

export const ID = '01900000-0000-7000-8000-000000000001'
export const draft = (over: Partial<Draft> = {}): Draft => ({ type: 'a', payload: 1, ...over })

/** A new one for each test. */
export const here = { world: null as unknown as World }
export const sent: string[] = []

/** What the application and the outbox said, in order. */
export const spoken = (): string[] => sent.map((sql) => (/^[A-Z]+$/.test(sql) ? sql : 'the event'))

/** What the store is told beside, and what it does when it hears of a statement. */
export const heard = { do: (_sql: string): void => undefined }

/** Behind something that counts, with one connection, so that what is left behind on it is found. */
export const open = async (options: pg.PoolConfig = {}) => {
  const proxy = await startProxy(here.world.url)
  const trips = new RoundTrips()
  proxy.onSent((connection, data) => trips.sent(connection, data))
  const pool = new pg.Pool({ connectionString: proxy.url, max: 1, ...options })
  // What the tests break.
  pool.on('error', () => undefined)
  const store = postgresStore({
    pool,
    schema: here.world.schema,
    poolSize: 2,
    onStatement: (sql) => {
      sent.push(sql)
      heard.do(sql)
    },
  })
  const outbox = createOutbox({ store, serve: [] })
  onTestFinished(async () => {
    await outbox.close()
    await pool.end()
    await proxy[Symbol.asyncDispose]()
  })
  await outbox.start()
  sent.length = 0
  return { pool, outbox, proxy, trips }
}

type Opened = Outbox<pg.PoolClient>

export const stored = async (): Promise<number> =>
  (await here.world.hand.query(`SELECT count(*)::int AS n FROM "${here.world.schema}".events`)).rows[0].n

export const rows = async (): Promise<number> =>
  (await here.world.hand.query(`SELECT count(*)::int AS n FROM "${here.world.schema}".things`)).rows[0].n

export const write = (tx: pg.PoolClient, n = 1): Promise<unknown> =>
  tx.query(`INSERT INTO "${here.world.schema}".things VALUES ($1)`, [n])

/** The connection was given back as it should be. */
export const worksAgain = async (outbox: Opened): Promise<void> => {
  const before = await stored()
  await outbox.transaction((tx) => outbox.publish(tx, draft()))
  expect(await stored()).toBe(before + 1)
}

/** BEGIN waits only for a `query()` that has given one of our groups to the server: here one has. */
const provePg = async ({ url, schema, hand }: World): Promise<void> => {
  const pool = new pg.Pool({ connectionString: url, max: 1 })
  const outbox = createOutbox({ store: postgresStore({ pool, schema }), serve: [] })
  await outbox.transaction((tx) => outbox.publish(tx, draft()))
  await outbox.close()
  await pool.end()
  await hand.query(`DELETE FROM "${schema}".deliveries`)
  await hand.query(`DELETE FROM "${schema}".events`)
}

export const setUp = (): void => {
  let isProven = false
  beforeEach(async () => {
    heard.do = () => undefined
    here.world = await createWorld(newPostgresUrl())
    await here.world.hand.query(
      `CREATE TABLE "${here.world.schema}".things (n int UNIQUE DEFERRABLE INITIALLY DEFERRED)`,
    )
    if (!isProven) await provePg(here.world)
    isProven = true
  })

  afterEach(() => here.world.close())
}

/** The event before the data, which has another number each time. */
export const publishingFirst = (outbox: Opened, then?: (tx: pg.PoolClient) => Promise<unknown>) => {
  let n = 0
  return (): Promise<void> =>
    outbox.transaction(async (tx) => {
      await outbox.publish(tx, draft())
      n += 1
      await write(tx, n)
      await then?.(tx)
    })
}
