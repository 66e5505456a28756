/** An empty database for one case: the store's tables, two of the application's, and a way for a library to get there. */
import { PGlite } from '@electric-sql/pglite'
import Database from 'libsql'
import type mysql from 'mysql2/promise'
import pg from 'pg'
import type { Store } from '../../src/core/spi/index.ts'
import { mysqlStore } from '../../src/stores/mysql/index.ts'
import { pglitePool, postgresStore, type SqlExecutor } from '../../src/stores/postgres/index.ts'
import { sqliteStore } from '../../src/stores/sqlite/index.ts'
import { startProxy } from '../databases/proxy.ts'
import { poolOf, TablePool } from '../stores/mysql-harness.ts'
import { newSchema, SchemaPool } from '../stores/postgres-harness.ts'
import { type ServerName, serverUrl } from '../stores/servers.ts'
import { testFolder } from '../stores/sqlite-files.ts'
import { RoundTrips } from './round-trips.ts'

export type DatabaseName = 'postgres' | 'pglite' | 'mariadb' | 'mysql' | 'sqlite'

export interface TestDatabase {
  readonly name: DatabaseName
  readonly store: Omit<Store<unknown, SqlExecutor>, 'transactions'>
  /** Where the library connects to; a file for SQLite. */
  readonly url: string
  /** The application's table, with a column `n`. */
  readonly rows: string
  /** A statement that makes COMMIT fail; null where constraints are checked at once. */
  readonly spoiling: string | null
  readonly failureEndsTransaction: boolean
  readonly overlaps: boolean
  numbers(): Promise<number[]>
  /** The connection that sends this text is cut. */
  cutAt?(text: string, when: 'before' | 'after'): Promise<void>
  /** Meets a deadlock, or its like, on the connection of these statements, which are rolled back for it. */
  deadlock?(exec: (sql: string) => Promise<unknown>): Promise<unknown>
  roundTrips?(fn: () => Promise<unknown>): Promise<number>
  dispose(): Promise<void>
}

/** The name of the server that a database needs. */
export const serverOf = (name: DatabaseName): ServerName | null =>
  name === 'sqlite' || name === 'pglite' ? null : name === 'postgres' ? 'postgres-new' : name

const hands = new Map<string, pg.Pool>()

const handOf = (url: string): pg.Pool => {
  const pool = hands.get(url) ?? new pg.Pool({ connectionString: url, max: 2, allowExitOnIdle: true })
  hands.set(url, pool)
  return pool
}

const numbersOf = (rows: unknown): number[] =>
  (rows as readonly { readonly n: unknown }[]).map(({ n }) => Number(n)).sort((a, b) => a - b)

const ownTables = (schema: string): string =>
  `CREATE SCHEMA IF NOT EXISTS ${schema}; CREATE TABLE IF NOT EXISTS ${schema}.client_rows (n int);
   CREATE TABLE IF NOT EXISTS ${schema}.client_late (n int UNIQUE DEFERRABLE INITIALLY DEFERRED)`

const ownEmptied = (schema: string): string =>
  `DELETE FROM ${schema}.client_rows; DELETE FROM ${schema}.client_late`

/** Of databases that cases take over from each other, in which the store's tables are. */
const schemas = {
  postgres: new SchemaPool((sql) => handOf(serverUrl('postgres-new')).query(sql)),
  pglite: new SchemaPool(async (sql) => await (await pglite()).exec(sql)),
}

const openPostgres = async ({ again }: Opening): Promise<TestDatabase> => {
  const url = serverUrl('postgres-new')
  const schema = again ? schemas.postgres.take() : newSchema()
  const hand = handOf(url)
  const proxy = await startProxy(url)
  const trips = new RoundTrips()
  proxy.onSent((connection, data) => trips.sent(connection, data))
  await hand.query(ownTables(schema))
  return {
    name: 'postgres',
    store: postgresStore({ connectionString: url, schema, poolSize: 4 }),
    url: proxy.url,
    rows: `${schema}.client_rows`,
    spoiling: `INSERT INTO ${schema}.client_late VALUES (1), (1)`,
    failureEndsTransaction: true,
    overlaps: true,
    numbers: async () => numbersOf((await hand.query(`SELECT n FROM ${schema}.client_rows`)).rows),
    cutAt: (text, when) => proxy.cutAt(text, when),
    roundTrips: (fn) => trips.during(fn),
    dispose: async () => {
      await proxy[Symbol.asyncDispose]()
      if (!again) return void (await hand.query(`DROP SCHEMA IF EXISTS ${schema} CASCADE`))
      await hand.query(ownEmptied(schema))
      await schemas.postgres.giveBack(schema)
    },
  }
}

/** One for all cases, in a schema each: it takes a second to start. */
let inProcess: Promise<PGlite> | null = null

export const pglite = (): Promise<PGlite> => {
  inProcess ??= PGlite.create()
  return inProcess
}

const openPglite = async ({ again }: Opening): Promise<TestDatabase> => {
  const db = await pglite()
  const schema = again ? schemas.pglite.take() : newSchema()
  await db.exec(ownTables(schema))
  return {
    name: 'pglite',
    store: postgresStore({ pool: pglitePool(db), schema }),
    url: '',
    rows: `${schema}.client_rows`,
    spoiling: `INSERT INTO ${schema}.client_late VALUES (1), (1)`,
    failureEndsTransaction: true,
    overlaps: false,
    numbers: async () => numbersOf((await db.query(`SELECT n FROM ${schema}.client_rows`)).rows),
    dispose: async () => {
      if (!again) return void (await db.exec(`DROP SCHEMA ${schema} CASCADE`))
      await db.exec(ownEmptied(schema))
      await schemas.pglite.giveBack(schema)
    },
  }
}

const OWN_TABLES = ['client_rows', 'client_locks']

const tables = { mariadb: new TablePool('mariadb', OWN_TABLES), mysql: new TablePool('mysql', OWN_TABLES) }

/** The server rolls back whoever has changed less, so the other one changes more. */
const HEAVY = Array.from({ length: 200 }, (_, n) => `(${n + 10})`).join(', ')

const meetDeadlock = async (
  hand: mysql.Pool,
  table: string,
  exec: (sql: string) => Promise<unknown>,
): Promise<unknown> => {
  const take = (n: number): string => `UPDATE ${table} SET held = held + 1 WHERE n = ${n}`
  const other = await hand.getConnection()
  try {
    await other.query(`START TRANSACTION; INSERT INTO ${table} (n) VALUES ${HEAVY}; ${take(1)}`)
    await exec(take(2))
    const [answer] = await Promise.allSettled([exec(take(1)), other.query(take(2))])
    if (answer.status === 'rejected') throw answer.reason
    return answer.value
  } finally {
    await other.query('ROLLBACK')
    other.release()
  }
}

const openMysql = async (name: 'mariadb' | 'mysql'): Promise<TestDatabase> => {
  const url = serverUrl(name)
  const prefix = tables[name].take()
  const rows = `${prefix}client_rows`
  const locks = `${prefix}client_locks`
  const hand: mysql.Pool = poolOf(name)
  const proxy = await startProxy(url)
  await hand.query(
    `CREATE TABLE IF NOT EXISTS ${rows} (n int);
     CREATE TABLE IF NOT EXISTS ${locks} (n int PRIMARY KEY, held int NOT NULL DEFAULT 0);
     INSERT INTO ${locks} (n) VALUES (1), (2)`,
  )
  return {
    name,
    store: mysqlStore({ connectionString: url, prefix }),
    url: proxy.url,
    rows,
    spoiling: null,
    failureEndsTransaction: false,
    overlaps: true,
    numbers: async () => numbersOf((await hand.query(`SELECT n FROM ${rows}`))[0]),
    cutAt: (text, when) => proxy.cutAt(text, when),
    deadlock: (exec) => meetDeadlock(hand, locks, exec),
    dispose: async () => {
      await proxy[Symbol.asyncDispose]()
      await tables[name].giveBack(prefix)
    },
  }
}

/** A file that a library opened, as far as the tests use it. */
export interface SqliteFile {
  exec(sql: string): unknown
  prepare(sql: string): { all(): unknown[] }
  close(): unknown
}

export type OpenFile = (path: string) => SqliteFile

interface Opening {
  /** What opens the file of SQLite for everybody; libsql unless said. */
  readonly openFile?: OpenFile | undefined
  /** The store makes its tables here, and the next case may take them over, emptied: making them takes longest. */
  readonly again?: boolean
}

/**
 * One library for everything in the file: two copies of SQLite in one process do not see each other's locks.
 */
const openSqlite = async ({ openFile = (path) => new Database(path) }: Opening): Promise<TestDatabase> => {
  const folder = testFolder()
  const hand = openFile(folder.file)
  const ofStore = openFile(folder.file)
  hand.exec(
    `PRAGMA journal_mode = WAL; CREATE TABLE client_rows (n int);
     CREATE TABLE client_late (n int REFERENCES client_parents (n) DEFERRABLE INITIALLY DEFERRED);
     CREATE TABLE client_parents (n integer PRIMARY KEY)`,
  )
  return {
    name: 'sqlite',
    store: sqliteStore({ database: ofStore }),
    url: folder.file,
    rows: 'client_rows',
    spoiling: 'INSERT INTO client_late VALUES (7)',
    failureEndsTransaction: false,
    overlaps: false,
    numbers: async () => numbersOf(hand.prepare('SELECT n FROM client_rows').all()),
    deadlock: async (exec) => {
      await exec('INSERT INTO client_parents VALUES (1)')
      return await exec('INSERT OR ROLLBACK INTO client_parents VALUES (1)')
    },
    dispose: async () => {
      hand.close()
      ofStore.close()
      folder.remove()
    },
  }
}

const OPENERS = { postgres: openPostgres, pglite: openPglite, sqlite: openSqlite } as const

export const openDatabase = (name: DatabaseName, opening: Opening = {}): Promise<TestDatabase> =>
  name === 'mariadb' || name === 'mysql' ? openMysql(name) : OPENERS[name](opening)

/** What the cases on these databases left for each other to use again. */
export const dropTables = async (databases: readonly DatabaseName[]): Promise<void> => {
  for (const name of databases) {
    if (name === 'mariadb' || name === 'mysql') await tables[name].drop()
    else if (name !== 'sqlite') await schemas[name].drop()
  }
}
