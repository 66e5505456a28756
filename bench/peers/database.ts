/** The database of one run: created for it, and dropped in the end. */
import pg, { type Client, type Pool } from 'pg'
import type { Subject } from './subject.ts'

export interface BenchDatabase {
  readonly url: string
  readonly pool: Pool
  readonly server: Readonly<Record<string, string>>
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

const withClient = async <T>(url: string, work: (client: Client) => Promise<T>): Promise<T> => {
  const client = new pg.Client(url)
  await client.connect()
  try {
    return await work(client)
  } finally {
    await client.end()
  }
}

export const createDatabase = async (serverUrl: string): Promise<BenchDatabase> => {
  const name = `bench_${process.pid}_${Date.now().toString(36)}`
  const url = new URL(serverUrl)
  url.pathname = `/${name}`
  const server = await withClient(serverUrl, async (client) => {
    await client.query(`CREATE DATABASE ${name}`)
    const { rows } = await client.query<{ name: string; setting: string }>(
      'SELECT name, current_setting(name) AS setting FROM pg_settings WHERE name = ANY ($1)',
      [SHOWN],
    )
    return Object.fromEntries(rows.map((row) => [row.name, row.setting]))
  })
  const pool = new pg.Pool({ connectionString: url.href, max: 4 })
  await pool.query(`CREATE SCHEMA shop;
    CREATE TABLE shop.orders (
      id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, customer text NOT NULL, total integer NOT NULL,
      status text NOT NULL, created_at timestamptz NOT NULL DEFAULT now())`)
  return {
    url: url.href,
    pool,
    server,
    async drop() {
      await pool.end()
      await withClient(serverUrl, (client) => client.query(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`))
    },
  }
}

/** The same start for every run: no rows but history, no dead ones, and no checkpoint that the last run has earned. */
export const reset = async (pool: Pool, { tables }: Subject, keepHistory = false): Promise<void> => {
  if (!keepHistory) await pool.query(`TRUNCATE ${tables.join(', ')}, shop.orders`)
  await pool.query(`VACUUM (ANALYZE) ${tables.join(', ')}`)
  await pool.query('CHECKPOINT')
}

/** Nothing that dies from now on can be cleaned away until it is called. */
export const pinHorizon = async (url: string): Promise<() => Promise<void>> => {
  const client = new pg.Client(url)
  await client.connect()
  await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
  await client.query('SELECT pg_current_xact_id(), count(*) FROM shop.orders')
  return async () => {
    await client.query('ROLLBACK')
    await client.end()
  }
}
