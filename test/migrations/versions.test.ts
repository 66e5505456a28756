/** The tables of one release, and those of the next: in one transaction with other things, and statement by statement. */
import pg from 'pg'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { createOutbox } from '../../src/index.ts'
import { postgresMigration, postgresRemoval, postgresStore } from '../../src/stores/postgres/index.ts'
import { lowestIdAt } from '../../src/stores/postgres/periods.ts'
import { COMPLETE, type EmptyDatabase, emptyDatabase, expectDelivery, expectNoTables } from './databases.ts'

let database: EmptyDatabase
let client: pg.Client

beforeEach(async () => {
  database = await emptyDatabase('postgres')
  client = new pg.Client({ connectionString: database.url })
  await client.connect()
})

afterEach(async () => {
  await client.end()
  await database.dispose()
})

const run = async (statements: readonly string[]): Promise<void> => {
  for (const statement of statements) await client.query(statement)
}

const lockTimeout = async (): Promise<unknown> =>
  (await client.query<{ lock_timeout: string }>('SHOW lock_timeout')).rows[0]?.lock_timeout

describe('migrations after each other', () => {
  it('are asked for by the release that needs them', async () => {
    await run(postgresMigration({ to: 1 }))
    const outbox = createOutbox({ store: database.store(), migrate: false })
    await expect(outbox.start()).rejects.toMatchObject({
      code: 'POSTHASTE_SCHEMA_BEHIND',
      message: expect.stringContaining('from version 1 to 6'),
      detail: { current: 1, latest: 6 },
    })
    await outbox.close()
    await run(postgresMigration({ from: 1, to: 6 }))
    await expectDelivery(database)
  })

  it('leave what lies in the tails to whoever looks after partitions', async () => {
    await run(postgresMigration({ to: 5, layout: 'partitioned' }))
    await client.query(
      `INSERT INTO outbox.events (id, seq, occurred_at, created_at, version, routes_version, size, type, content_type, payload)
       VALUES ($1, 1, now(), now(), 1, 0, 2, 'order.placed', 'application/json', '{}')`,
      [lowestIdAt(Date.now())],
    )
    const store = postgresStore({ connectionString: database.url, layout: 'partitioned' })
    const outbox = createOutbox({ store, migrate: true, maintain: false, serve: [] })
    await outbox.start()
    const { current, latest } = await outbox.schema.status()
    expect(current).toBe(latest)
    await outbox.close()
    const { rows } = await client.query('SELECT id FROM outbox.events_tail')
    expect(rows).toHaveLength(1)
  })

  it('leave the settings of the transaction as they were', async () => {
    await client.query("BEGIN; SET LOCAL lock_timeout = '1234ms'")
    await run(postgresMigration({ to: 1 }))
    await run(postgresMigration({ from: 1, to: 6 }))
    expect(await lockTimeout()).toBe('1234ms')
    await client.query('COMMIT')
    expect(await lockTimeout()).toBe('0')
    // Without a transaction there is nothing to give back.
    await run(postgresRemoval())
    await run(postgresMigration({ to: 6 }))
    expect(await lockTimeout()).toBe('0')
    await expectDelivery(database)
  })

  it('are undone as a whole with their transaction', async () => {
    await client.query('BEGIN')
    await run(postgresMigration({ to: 6, layout: 'partitioned' }))
    await client.query('ROLLBACK')
    await expectNoTables(database)
  })

  it('with partitions, are removed with all of them', async () => {
    await run(postgresMigration({ to: 6, layout: 'partitioned' }))
    expect(await database.present()).toEqual([...COMPLETE, 'events_tail', 'finished_tail'].sort())
    await run(postgresRemoval())
    await expectNoTables(database)
    const { rows } = await client.query(
      "SELECT c.relname FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE n.nspname = 'outbox' UNION ALL SELECT t.typname FROM pg_type AS t JOIN pg_namespace AS n ON n.oid = t.typnamespace WHERE n.nspname = 'outbox'",
    )
    expect(rows).toEqual([])
  })
})
