/** A store in a schema of its own for every case of the suite; what the suite cannot do through the SPI goes by hand. */
import { randomBytes } from 'node:crypto'
import pg from 'pg'
import type { Store } from '../../src/core/spi/index.ts'
import { type PostgresHandle, postgresStore, type SqlExecutor } from '../../src/stores/postgres/index.ts'
import type { PostgresUrlOptions } from '../../src/stores/postgres/options.ts'
import { TABLE_NAMES } from '../../src/stores/sql/identifiers.ts'
import type { StoreHarness } from '../../src/testing/suites/index.ts'
import { type LogLine, testContext } from './sqlite-files.ts'

export const newSchema = (): string => `ph_${randomBytes(8).toString('hex')}`

/** One connection per test file for what is done by hand. */
const byHand = new Map<string, pg.Pool>()

const poolOf = (url: string): pg.Pool => {
  const pool = byHand.get(url) ?? new pg.Pool({ connectionString: url, max: 2, allowExitOnIdle: true })
  byHand.set(url, pool)
  return pool
}

export const runByHand = async (url: string, sql: string): Promise<pg.QueryResult> => poolOf(url).query(sql)

/** Making and dropping tables is what takes longest, so the cases of a suite take over each other's, emptied. */
export class SchemaPool {
  readonly #run: (sql: string) => Promise<unknown>
  readonly #free: string[] = []

  constructor(run: (sql: string) => Promise<unknown>) {
    this.#run = run
  }

  take(): string {
    return this.#free.pop() ?? newSchema()
  }

  async giveBack(schema: string): Promise<void> {
    const emptied = TABLE_NAMES.filter((name) => name !== 'migrations').map(
      (name) => `DELETE FROM ${schema}.${name}`,
    )
    // As after the migrations, which draw a number.
    await this.#run([...emptied, `SELECT setval('${schema}.events_seq', 1)`].join('; '))
    this.#free.push(schema)
  }

  async drop(): Promise<void> {
    for (const schema of this.#free.splice(0)) await this.#run(`DROP SCHEMA ${schema} CASCADE`)
  }
}

export const schemasAt = (url: string): SchemaPool => new SchemaPool((sql) => runByHand(url, sql))

export interface PostgresHarness extends StoreHarness<PostgresHandle, SqlExecutor> {
  readonly schema: string
  /** What its stores said. */
  readonly logged: readonly LogLine[]
}

export const createHarness = async (
  url: string,
  options: Partial<PostgresUrlOptions> = {},
  schemas: SchemaPool | null = null,
): Promise<PostgresHarness> => {
  const schema = schemas?.take() ?? newSchema()
  const opened: Store<PostgresHandle, SqlExecutor>[] = []
  const logged: LogLine[] = []
  const open = async (): Promise<Store<PostgresHandle, SqlExecutor>> => {
    const store = postgresStore({ connectionString: url, schema, poolSize: 8, ...options })
    await store.open(testContext(logged))
    opened.push(store)
    return store
  }
  return {
    schema,
    logged,
    store: await open(),
    reopen: open,
    setNextSeq: async (seq) => {
      await runByHand(url, `SELECT setval('${schema}.events_seq', ${seq}, false)`)
    },
    setBack: async (ms) => {
      const later = (column: string): string => `${column} = ${column} + interval '${ms} milliseconds'`
      await runByHand(
        url,
        `UPDATE ${schema}.deliveries SET ${['available_at', 'created_at', 'settled_at'].map(later).join(', ')};
UPDATE ${schema}.workers SET ${later('expires_at')}`,
      )
    },
    corruptEvent: async (id) => {
      await runByHand(url, `UPDATE ${schema}.events SET headers = '["broken"]' WHERE id = '${id}'`)
    },
    dispose: async () => {
      for (const store of opened) await store.close()
      if (schemas === null) await runByHand(url, `DROP SCHEMA IF EXISTS ${schema} CASCADE`)
      else await schemas.giveBack(schema)
    },
  }
}
