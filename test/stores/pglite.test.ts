/** The PostgreSQL store on PGlite, and what its pool does with transactions. */
import { PGlite } from '@electric-sql/pglite'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { pglitePool, postgresStore } from '../../src/stores/postgres/index.ts'
import { runStoreSuite } from '../../src/testing/suites/index.ts'
import { createHarness } from './pglite-harness.ts'
import { testContext } from './sqlite-files.ts'

describe('PGlite, in memory', () => {
  runStoreSuite({ describe, it, create: createHarness })
})

/** What a client has beyond what the application is shown. */
interface Client {
  query(text: string, values?: readonly unknown[]): Promise<{ command: string; rows: unknown[] }>
  getTransactionStatus(): string
  release(): void
}

describe('a client of the pool', () => {
  let db: PGlite
  const connect = async (): Promise<Client> => (await pglitePool(db).connect()) as unknown as Client

  beforeAll(async () => {
    db = await PGlite.create()
  })
  afterAll(() => db.close())
  beforeEach(async () => {
    await db.exec('DROP TABLE IF EXISTS t; CREATE TABLE t (n int UNIQUE DEFERRABLE INITIALLY DEFERRED)')
  })

  const numbers = async (): Promise<unknown[]> => (await db.query('SELECT n FROM t ORDER BY n')).rows

  it('is in a transaction from BEGIN to COMMIT, and PGlite itself waits for that', async () => {
    const client = await connect()
    expect(client.getTransactionStatus()).toBe('I')
    await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
    expect(client.getTransactionStatus()).toBe('T')
    const beside = numbers()
    await client.query('INSERT INTO t VALUES ($1)', [1])
    const { rows } = await client.query('SHOW transaction_isolation')
    expect(rows).toEqual([{ transaction_isolation: 'repeatable read' }])
    expect(await client.query('COMMIT')).toMatchObject({ command: 'COMMIT' })
    expect(client.getTransactionStatus()).toBe('I')
    expect(await beside).toEqual([{ n: 1 }])
  })

  it('says ROLLBACK when a transaction that failed is committed', async () => {
    const client = await connect()
    await client.query('begin')
    await client.query('INSERT INTO t VALUES (1)')
    await expect(client.query('SELECT 1 / 0')).rejects.toMatchObject({ code: '22012' })
    expect(client.getTransactionStatus()).toBe('E')
    expect(await client.query('commit;')).toMatchObject({ command: 'ROLLBACK' })
    expect(await numbers()).toEqual([])
  })

  it('goes on after a savepoint took a failure back', async () => {
    const client = await connect()
    await client.query('START TRANSACTION')
    await client.query('SAVEPOINT a')
    await expect(client.query('SELECT 1 / 0')).rejects.toThrow()
    await client.query('ROLLBACK TO SAVEPOINT a')
    expect(client.getTransactionStatus()).toBe('T')
    await client.query('INSERT INTO t VALUES (2)')
    await client.query('COMMIT')
    expect(await numbers()).toEqual([{ n: 2 }])
  })

  it('hands on what COMMIT refuses', async () => {
    const client = await connect()
    await client.query('BEGIN')
    await client.query('INSERT INTO t VALUES (1), (1)')
    await expect(client.query('COMMIT')).rejects.toMatchObject({ code: '23505' })
    expect(client.getTransactionStatus()).toBe('I')
    expect(await numbers()).toEqual([])
  })

  it('undoes what is open when it is released, and what gets its turn only then', async () => {
    const [first, second] = [await connect(), await connect()]
    await first.query('BEGIN')
    await first.query('INSERT INTO t VALUES (1)')
    void second.query('BEGIN')
    second.release()
    first.release()
    expect(await numbers()).toEqual([])
  })

  it('makes a closed PGlite a database that cannot be reached', async () => {
    const other = await PGlite.create()
    const store = postgresStore({ pool: pglitePool(other) })
    await store.open(testContext())
    await other.close()
    await expect(store.lanes.renew('w', 1_000)).rejects.toMatchObject({ code: 'POSTHASTE_STORE_UNAVAILABLE' })
    await store.close()
  })
})
