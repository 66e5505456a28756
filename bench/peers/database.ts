/** The database of one run: created for it, and dropped in the end. */
import { readFileSync } from 'node:fs'
import mysql from 'mysql2/promise'
import pg from 'pg'
import type { Subject } from './subject.ts'

export type Query = (sql: string, values?: readonly unknown[]) => Promise<readonly Record<string, unknown>[]>

export interface BenchDatabase {
  readonly url: string
  /** What the server is and how it is set. */
  readonly server: Readonly<Record<string, string>>
  readonly query: Query
  /** The same start for every run: no rows but history, no dead ones, no checkpoint that an earlier run has earned. */
  reset(subject: Subject, keepHistory?: boolean): Promise<void>
  /** Of what ran before no dead rows are left, and no checkpoint is due. MySQL and MariaDB cannot be asked for that. */
  tidy(subject: Subject): Promise<void>
  /**
   * What each of the server's processes that work on it now has had of the processors. Empty where nobody can tell: the
   * server is elsewhere, or not made of processes.
   */
  processorMs(): Promise<ReadonlyMap<number, number>>
  /** Nothing that dies from now on can be cleaned away until the answer is called. */
  pinHorizon(): Promise<() => Promise<void>>
  drop(): Promise<void>
}

const SHOWN = [
  'server_version',
  'fsync',
  'synchronous_commit',
  'shared_buffers',
  'max_wal_size',
  'autovacuum',
]

const newName = (): string => `bench_${process.pid}_${Date.now().toString(36)}`

const urlOf = (serverUrl: string, name: string): string => {
  const url = new URL(serverUrl)
  url.pathname = `/${name}`
  return url.href
}

const onServer = async (serverUrl: string, sql: string): Promise<void> => {
  const client = new pg.Client(serverUrl)
  await client.connect()
  try {
    await client.query(sql)
  } finally {
    await client.end()
  }
}

/** A tick is a hundredth of a second wherever Node runs on Linux. */
const TICK_MS = 10

/** User and system time are the 14th and 15th field, counted from behind the name, which may hold anything. */
const ticksOf = (pid: number): number => {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return Number(fields[11]) + Number(fields[12])
}

const processorMsOf = async (query: Query, database: string): Promise<ReadonlyMap<number, number>> => {
  const rows = await query('SELECT pid FROM pg_stat_activity WHERE datname = current_database()')
  const found = rows.flatMap(({ pid }): (readonly [number, number])[] => {
    try {
      // A process of that number on this machine is the server's only if it says that it works on that database.
      const isServers = readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(database)
      return isServers ? [[Number(pid), ticksOf(Number(pid)) * TICK_MS]] : []
    } catch {
      return []
    }
  })
  return new Map(found)
}

const pinPostgres = async (url: string): Promise<() => Promise<void>> => {
  const client = new pg.Client(url)
  await client.connect()
  await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
  await client.query('SELECT pg_current_xact_id(), count(*) FROM shop.orders')
  return async () => {
    await client.query('ROLLBACK')
    await client.end()
  }
}

export const createDatabase = async (serverUrl: string): Promise<BenchDatabase> => {
  const name = newName()
  await onServer(serverUrl, `CREATE DATABASE ${name}`)
  const url = urlOf(serverUrl, name)
  const pool = new pg.Pool({ connectionString: url, max: 4 })
  const query: Query = async (sql, values = []) => (await pool.query(sql, [...values])).rows
  await pool.query(`CREATE SCHEMA shop;
    CREATE TABLE shop.orders (
      id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, customer text NOT NULL, total integer NOT NULL,
      status text NOT NULL, created_at timestamptz NOT NULL DEFAULT now())`)
  const rows = await query(
    'SELECT name, current_setting(name) AS setting FROM pg_settings WHERE name = ANY ($1)',
    [SHOWN],
  )
  const tidy = async ({ tables }: Subject): Promise<void> => {
    await query(`VACUUM (ANALYZE) ${tables.join(', ')}`)
    await query('CHECKPOINT')
  }
  return {
    url,
    server: Object.fromEntries(rows.map((row) => [String(row.name), String(row.setting)])),
    query,
    async reset(subject, keepHistory = false) {
      if (!keepHistory) await query(`TRUNCATE ${subject.tables.join(', ')}, shop.orders`)
      await tidy(subject)
    },
    tidy,
    processorMs: () => processorMsOf(query, name),
    pinHorizon: () => pinPostgres(url),
    async drop() {
      await pool.end()
      await onServer(serverUrl, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`)
    },
  }
}

/** MySQL and MariaDB, for Posthaste alone. */
export const createMysqlDatabase = async (serverUrl: string): Promise<BenchDatabase> => {
  const name = newName()
  const pool = mysql.createPool({ uri: serverUrl, connectionLimit: 4 })
  await pool.query(`CREATE DATABASE ${name}`)
  const inside = mysql.createPool({ uri: urlOf(serverUrl, name), connectionLimit: 4 })
  const query: Query = async (sql, values = []) => {
    const [rows] = await inside.query(sql, [...values])
    return rows as Record<string, unknown>[]
  }
  await query(`CREATE TABLE orders (
    id bigint AUTO_INCREMENT PRIMARY KEY, customer varchar(100) NOT NULL, total integer NOT NULL,
    status varchar(20) NOT NULL, created_at timestamp(6) NOT NULL DEFAULT current_timestamp(6))`)
  const [version] = await query('SELECT version() AS version, @@innodb_flush_log_at_trx_commit AS flush')
  return {
    url: urlOf(serverUrl, name),
    server: {
      server_version: String(version?.version),
      innodb_flush_log_at_trx_commit: String(version?.flush),
    },
    query,
    async reset({ tables }) {
      for (const table of [...tables, 'orders']) await query(`TRUNCATE TABLE ${table}`)
    },
    tidy: () => Promise.resolve(),
    processorMs: () => Promise.resolve(new Map()),
    pinHorizon: () => Promise.reject(new Error('this is measured on PostgreSQL alone')),
    async drop() {
      await inside.end()
      await pool.query(`DROP DATABASE IF EXISTS ${name}`)
      await pool.end()
    },
  }
}
