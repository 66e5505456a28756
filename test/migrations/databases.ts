/** A database without anything in it, for one tool to migrate. */
import { randomBytes } from 'node:crypto'
import Database from 'libsql'
import mysql from 'mysql2/promise'
import pg from 'pg'
import { expect } from 'vitest'
import type { Store } from '../../src/core/spi/index.ts'
import { createOutbox } from '../../src/index.ts'
import { mysqlStore } from '../../src/stores/mysql/index.ts'
import { postgresStore, type SqlExecutor } from '../../src/stores/postgres/index.ts'
import { TABLE_NAMES } from '../../src/stores/sql/identifiers.ts'
import { sqliteStore } from '../../src/stores/sqlite/index.ts'
import { serverUrl } from '../stores/servers.ts'
import { testFolder } from '../stores/sqlite-files.ts'
import { until } from '../stores/until.ts'

export type DatabaseName = 'postgres' | 'mariadb' | 'sqlite'

export interface EmptyDatabase {
  readonly name: DatabaseName
  readonly storeName: 'postgres' | 'mysql' | 'sqlite'
  /** A path for SQLite. */
  readonly url: string
  store(): Store<never, SqlExecutor>
  /** Which tables and views of the outbox there are, without schema and prefix. */
  present(): Promise<string[]>
  /** Which tables there are beside them. */
  others(): Promise<string[]>
  count(table: string): Promise<number>
  dispose(): Promise<void>
}

/** All that there is when the outbox is complete. */
export const COMPLETE: readonly string[] = [...TABLE_NAMES, 'all'].sort()

const newName = (): string => `migrations_${randomBytes(6).toString('hex')}`

const within = (url: string, database: string): string => {
  const changed = new URL(url)
  changed.pathname = `/${database}`
  return changed.href
}

const PREFIX = 'outbox_'
const ours = (names: readonly string[]): string[] =>
  names
    .filter((name) => name.startsWith(PREFIX))
    .map((name) => name.slice(PREFIX.length))
    .sort()
const theirs = (names: readonly string[]): string[] => names.filter((name) => !name.startsWith(PREFIX)).sort()

const emptyPostgres = async (): Promise<EmptyDatabase> => {
  const server = serverUrl('postgres-new')
  const name = newName()
  const url = within(server, name)
  const admin = new pg.Pool({ connectionString: server, max: 1 })
  await admin.query(`CREATE DATABASE ${name}`)
  const hand = new pg.Pool({ connectionString: url, max: 1 })
  const tables = async (condition: string): Promise<string[]> => {
    const { rows } = await hand.query<{ name: string }>(
      `SELECT table_name AS name FROM information_schema.tables WHERE table_schema ${condition}`,
    )
    return rows.map((row) => row.name).sort()
  }
  return {
    name: 'postgres',
    storeName: 'postgres',
    url,
    store: () => postgresStore({ connectionString: url, poolSize: 4 }) as Store<never, SqlExecutor>,
    present: () => tables("= 'outbox'"),
    others: () => tables("NOT IN ('outbox', 'pg_catalog', 'information_schema')"),
    count: async (table) => Number((await hand.query(`SELECT count(*) AS n FROM ${table}`)).rows[0].n),
    dispose: async () => {
      await hand.end()
      // Pools end before their connections do.
      await until('nobody is connected', async () => {
        const { rows } = await admin.query('SELECT 1 FROM pg_stat_activity WHERE datname = $1', [name])
        return rows.length === 0
      })
      await admin.query(`DROP DATABASE ${name}`)
      await admin.end()
    },
  }
}

const emptyMariadb = async (): Promise<EmptyDatabase> => {
  const server = serverUrl('mariadb')
  const name = newName()
  const url = within(server, name)
  const hand = await mysql.createConnection({ uri: server, multipleStatements: true })
  await hand.query(`CREATE DATABASE ${name} CHARACTER SET utf8mb4; USE ${name}`)
  const tables = async (): Promise<string[]> => {
    const [rows] = await hand.query(
      'SELECT table_name AS name FROM information_schema.tables WHERE table_schema = database()',
    )
    return (rows as { name: string }[]).map((row) => row.name)
  }
  return {
    name: 'mariadb',
    storeName: 'mysql',
    url,
    store: () => mysqlStore({ connectionString: url }) as Store<never, SqlExecutor>,
    present: async () => ours(await tables()),
    others: async () => theirs(await tables()),
    count: async (table) => {
      const [rows] = await hand.query(`SELECT count(*) AS n FROM ${table}`)
      return Number((rows as { n: unknown }[])[0]?.n)
    },
    dispose: async () => {
      await hand.query(`DROP DATABASE ${name}`)
      await hand.end()
    },
  }
}

const emptySqlite = async (): Promise<EmptyDatabase> => {
  const folder = testFolder()
  // Opened for each question, because a tool may want the file for itself.
  const rows = (sql: string): Record<string, unknown>[] => {
    const hand = new Database(folder.file)
    try {
      return hand.prepare(sql).all() as Record<string, unknown>[]
    } finally {
      hand.close()
    }
  }
  const tables = (): string[] =>
    rows("SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%'").map(
      ({ name }) => String(name),
    )
  return {
    name: 'sqlite',
    storeName: 'sqlite',
    url: folder.file,
    store: () => sqliteStore({ file: folder.file, driver: 'libsql' }) as Store<never, SqlExecutor>,
    present: async () => ours(tables()),
    others: async () => theirs(tables()),
    count: async (table) => Number(rows(`SELECT count(*) AS n FROM ${table}`)[0]?.n),
    dispose: async () => folder.remove(),
  }
}

const OPENERS = { postgres: emptyPostgres, mariadb: emptyMariadb, sqlite: emptySqlite } as const

export const emptyDatabase = (name: DatabaseName): Promise<EmptyDatabase> => OPENERS[name]()

/** An outbox that may not migrate finds what it needs, and carries an event. */
export const expectDelivery = async (database: EmptyDatabase): Promise<void> => {
  const outbox = createOutbox({ store: database.store(), migrate: false })
  const payload = { orderId: newName() }
  const heard = new Promise<unknown>((resolve) => {
    outbox.on('order.placed', (event) => resolve(event.payload))
  })
  await outbox.start()
  await outbox.transaction((tx) => outbox.publish(tx, { type: 'order.placed', payload }))
  expect(await heard).toEqual(payload)
  await outbox.close()
}

/** An outbox that may not migrate says that there is nothing. */
export const expectNoTables = async (database: EmptyDatabase): Promise<void> => {
  expect(await database.present()).toEqual([])
  const outbox = createOutbox({ store: database.store(), migrate: false })
  await expect(outbox.start()).rejects.toMatchObject({ code: 'POSTHASTE_SCHEMA_BEHIND' })
  await outbox.close()
}
