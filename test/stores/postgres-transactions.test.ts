/** What COMMIT answers, connections that break, and handles that are used in a wrong way. */
import pg from 'pg'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Store } from '../../src/core/spi/index.ts'
import { type PostgresHandle, postgresStore, type SqlExecutor } from '../../src/stores/postgres/index.ts'
import { createWorld, type World } from './postgres-words.ts'
import { newPostgresUrl } from './servers.ts'
import { testContext } from './sqlite-files.ts'
import { until } from './until.ts'

let world: World
let store: Store<PostgresHandle, SqlExecutor>

beforeEach(async () => {
  world = await createWorld(newPostgresUrl())
  store = world.harness.store
})

afterEach(() => world.close())

const pidOf = async (tx: PostgresHandle): Promise<number> =>
  (await tx.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')).rows[0]!.pid

const kill = async (pid: number): Promise<void> => {
  await world.hand.query('SELECT pg_terminate_backend($1)', [pid])
  await until('it is gone', async () => {
    const { rows } = await world.hand.query('SELECT 1 FROM pg_stat_activity WHERE pid = $1', [pid])
    return rows.length === 0
  })
}

const publishIn = (tx: PostgresHandle): Promise<unknown> => world.t.publishIn(tx, world.t.prepare())

describe('a hot claim', () => {
  it.each([1, 2])(
    'counts from its insert, not from the beginning of its transaction (%i at once)',
    async (count) => {
      const { t } = world
      const leaseMs = 60_000
      const [sleptMs, roundingMs] = [500, 50]
      let insertedAt = 0
      await store.transactions.run(async (tx) => {
        await tx.query('SELECT pg_sleep($1)', [sleptMs / 1_000])
        insertedAt = performance.now()
        const published = Array.from({ length: count }, () => t.prepare({ token: t.newId() }))
        const [events, deliveries] = [
          published.map(({ event }) => event),
          published.map(({ delivery }) => delivery),
        ]
        await t.insertIn(tx, { events, deliveries, hotLeaseMs: leaseMs })
      })
      const { nextDueInMs } = await t.read()
      expect(nextDueInMs).toBeGreaterThan(leaseMs - (performance.now() - insertedAt) - roundingMs)
    },
  )
})

describe('commits', () => {
  it('a commit that is answered with a rollback says so', async () => {
    const running = store.transactions.run(async (tx) => {
      await publishIn(tx)
      await tx.query('SELECT 1/0').catch(() => undefined)
    })
    await expect(running).rejects.toMatchObject({ code: 'POSTHASTE_COMMIT_ROLLED_BACK' })
    expect(await world.t.readableIds()).toEqual([])
  })

  it('a constraint that fails at the commit is a rollback', async () => {
    await world.hand.query(`CREATE TABLE ${world.schema}.late (n int UNIQUE DEFERRABLE INITIALLY DEFERRED)`)
    const running = store.transactions.run(async (tx) => {
      await publishIn(tx)
      await tx.query(`INSERT INTO ${world.schema}.late VALUES (1), (1)`)
    })
    await expect(running).rejects.toMatchObject({ code: 'POSTHASTE_COMMIT_ROLLED_BACK' })
    expect(await world.t.readableIds()).toEqual([])
  })

  it('a connection that is lost at the commit leaves the outcome unknown', async () => {
    await world.hand.query(`CREATE TABLE ${world.schema}.late (n int);
      CREATE FUNCTION ${world.schema}.wait() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN PERFORM pg_advisory_xact_lock(NEW.n); RETURN NULL; END';
      CREATE CONSTRAINT TRIGGER late AFTER INSERT ON ${world.schema}.late DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION ${world.schema}.wait()`)
    const open = await store.transactions.begin!()
    await publishIn(open.tx)
    const pid = await pidOf(open.tx)
    // Numbers of locks are the whole database's.
    await world.hand.query('SELECT pg_advisory_lock($1)', [pid])
    await open.tx.query(`INSERT INTO ${world.schema}.late VALUES ($1)`, [pid])
    const committing = open.commit()
    await until('COMMIT is under way', async () => {
      const waiting = 'SELECT FROM pg_stat_activity WHERE pid = $1 AND wait_event = $2'
      return (await world.hand.query(waiting, [pid, 'advisory'])).rowCount === 1
    })
    const [answer] = await Promise.allSettled([committing, kill(pid)])
    expect(answer).toMatchObject({ reason: { code: 'POSTHASTE_COMMIT_UNKNOWN' } })
    await store.transactions.run(publishIn)
    expect((await world.t.readableIds()).length).toBe(1)
  })

  it('a connection that breaks in the middle does not go back to the pool', async () => {
    const seen: number[] = []
    const running = store.transactions.run(async (tx) => {
      const pid = await pidOf(tx)
      seen.push(pid)
      await kill(pid)
      await publishIn(tx)
    })
    await expect(running).rejects.toMatchObject({ code: 'POSTHASTE_STORE_UNAVAILABLE', transient: true })
    for (let i = 0; i < 10; i++) seen.push(await store.transactions.run(pidOf))
    expect(seen.slice(1)).not.toContain(seen[0])
  })

  it('idle connections that break are replaced, and the process lives', async () => {
    await Promise.all(Array.from({ length: 4 }, () => store.transactions.run(publishIn)))
    await world.hand.query(
      'SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND query LIKE $1',
      [`%${world.schema}%`],
    )
    await until('it works again', () =>
      store.transactions.run(publishIn).then(
        () => true,
        () => false,
      ),
    )
  })

  it('a nested part that failed in the database can be given up', async () => {
    const [before, after] = [world.t.prepare(), world.t.prepare()]
    await store.transactions.run(async (tx) => {
      await world.t.publishIn(tx, before)
      const nested = store.transactions.nested!(tx, async (inner) => {
        await inner.query('SELECT 1/0')
      })
      await expect(nested).rejects.toThrow('division by zero')
      await world.t.publishIn(tx, after)
    })
    expect(await world.t.readableIds()).toEqual([before.delivery.id, after.delivery.id])
  })

  it('a commit while a nested one is open rolls everything back', async () => {
    const open = await store.transactions.begin!()
    let release = (): void => undefined
    const nested = store.transactions.nested!(
      open.tx,
      () => new Promise<void>((resolve) => (release = resolve)),
    )
    await expect(open.commit()).rejects.toMatchObject({ code: 'POSTHASTE_CONFLICT' })
    release()
    await expect(nested).rejects.toMatchObject({ code: 'POSTHASTE_TRANSACTION_ENDED' })
  })
})

describe('handles', () => {
  it.each(['COMMIT', 'rollback', 'SAVEPOINT x', 'SELECT 1; END'])('%s is refused', async (sql) => {
    await store.transactions.run(async (tx) => {
      expect(() => tx.query(sql)).toThrow(expect.objectContaining({ code: 'POSTHASTE_CONFLICT' }))
      await publishIn(tx)
    })
    expect((await world.t.readableIds()).length).toBe(1)
  })

  it('are over with their transaction', async () => {
    const kept = await store.transactions.run(async (tx) => tx)
    const code = 'POSTHASTE_TRANSACTION_ENDED'
    expect(() => kept.query('SELECT 1')).toThrow(expect.objectContaining({ code }))
    expect(() => store.transactions.executor(kept)).toThrow(expect.objectContaining({ code }))
  })

  it('cannot be given back by hand', async () => {
    await store.transactions.run(async (tx) => {
      const handle = tx as unknown as { release(): void }
      expect(() => handle.release()).toThrow(expect.objectContaining({ code: 'POSTHASTE_CONFLICT' }))
    })
  })

  it('of the application are taken between BEGIN and COMMIT', async () => {
    const published = world.t.prepare()
    const client = world.hand as unknown as PostgresHandle
    await world.hand.query('BEGIN')
    expect(store.transactions.inTransaction(client)).toBe(true)
    await world.t.publishIn(client, published)
    await world.hand.query('COMMIT')
    expect(await world.t.readableIds()).toEqual([published.delivery.id])
  })

  it('of the application are refused outside of a transaction, and so are pools', async () => {
    const code = 'POSTHASTE_NO_TRANSACTION'
    const pool = new pg.Pool({ connectionString: world.url })
    for (const handle of [world.hand, pool, {}, 7]) {
      const use = (): unknown => store.transactions.executor(handle as never)
      expect(use).toThrow(expect.objectContaining({ code }))
      expect(store.transactions.inTransaction(handle as never)).toBe(false)
    }
    await pool.end()
    await world.hand.query('BEGIN')
    // The client knows of the failure by the answer to the next statement at the latest.
    for (const sql of ['SELECT 1/0', 'SELECT 1']) await world.hand.query(sql).catch(() => undefined)
    expect(() => store.transactions.executor(world.hand as never)).toThrow(expect.objectContaining({ code }))
    await world.hand.query('ROLLBACK')
  })

  it('of an own pool have its type, and the pool is left open', async () => {
    const pool = new pg.Pool({ connectionString: world.url, max: 3 })
    const other = postgresStore({ pool, schema: world.schema, listen: false })
    await other.open(testContext())
    const published = world.t.prepare()
    await other.transactions.run(async (client: pg.PoolClient) => {
      await other.insert(other.transactions.executor(client), {
        events: [published.event],
        deliveries: [published.delivery],
        hotLeaseMs: 1_000,
        lockKeys: false,
      })
    })
    await other.close()
    expect((await pool.query('SELECT 1 AS one')).rows).toEqual([{ one: 1 }])
    await pool.end()
    expect(await world.t.readableIds()).toEqual([published.delivery.id])
  })
})

describe('errors that people meet first', () => {
  const opening = async (connectionString: string): Promise<unknown> => {
    const other = postgresStore({ connectionString })
    try {
      await other.open(testContext())
      await other.close()
      return null
    } catch (error) {
      return error
    }
  }

  it('a server that is not there', async () => {
    const error = await opening('postgres://127.0.0.1:1/x')
    expect(error).toMatchObject({ code: 'POSTHASTE_STORE_UNAVAILABLE', transient: true })
    expect(String(error)).toContain('127.0.0.1:1/x')
  })

  it('a wrong password, which is not repeated', async () => {
    const url = new URL(world.url)
    url.password = 'hunter2'
    const error = await opening(url.href)
    expect(error).toMatchObject({ code: 'POSTHASTE_STORE_UNAVAILABLE', transient: false })
    expect(String(error)).toContain('password')
    expect(String(error)).not.toContain('hunter2')
  })

  it('a database that does not exist', async () => {
    const url = new URL(world.url)
    url.pathname = '/nowhere'
    expect(await opening(url.href)).toMatchObject({ code: 'POSTHASTE_STORE_UNAVAILABLE', transient: false })
  })

  it('tables that were not made yet', async () => {
    const other = postgresStore({ connectionString: world.url, schema: 'ph_nothing_here' })
    await other.open(testContext())
    await expect(other.inspection.workers()).rejects.toMatchObject({ code: 'POSTHASTE_SCHEMA_BEHIND' })
    expect(await other.schema.status()).toMatchObject({ current: 0 })
    await other.close()
  })

  it('a store that is not open', async () => {
    const other = postgresStore({ connectionString: world.url })
    await expect(other.inspection.workers()).rejects.toMatchObject({ code: 'POSTHASTE_CLOSED' })
  })
})
