/** A store with tables of its own for every case of the suite; what the suite cannot do through the SPI goes by hand. */
import { randomBytes } from 'node:crypto'
import mysql from 'mysql2/promise'
import type { Store } from '../../src/core/spi/index.ts'
import { type MysqlHandle, mysqlStore, type SqlExecutor } from '../../src/stores/mysql/index.ts'
import type { MysqlUrlOptions } from '../../src/stores/mysql/options.ts'
import { TABLE_NAMES } from '../../src/stores/sql/identifiers.ts'
import type { StoreHarness } from '../../src/testing/suites/index.ts'
import { type ServerName, serverUrl } from './servers.ts'
import { type LogLine, testContext } from './sqlite-files.ts'

export const newPrefix = (): string => `ph_${randomBytes(6).toString('hex')}_`

/** One connection per test file and server for what is done by hand. */
const byHand = new Map<ServerName, mysql.Pool>()

export const poolOf = (server: ServerName): mysql.Pool => {
  const pool =
    byHand.get(server) ??
    mysql.createPool({ uri: serverUrl(server), connectionLimit: 4, multipleStatements: true, maxIdle: 1 })
  byHand.set(server, pool)
  return pool
}

export const runByHand = async (server: ServerName, sql: string): Promise<unknown> =>
  (await poolOf(server).query(sql))[0]

export const dropTables = async (
  server: ServerName,
  prefix: string,
  others: readonly string[] = [],
): Promise<void> => {
  const names = [...TABLE_NAMES, ...others].map((name) => `\`${prefix}${name}\``).join(', ')
  await runByHand(server, `DROP VIEW IF EXISTS \`${prefix}all\`; DROP TABLE IF EXISTS ${names}`)
}

/** Making and dropping tables is what takes longest, so the cases of a suite take over each other's, emptied. */
export class TablePool {
  readonly #server: ServerName
  readonly #others: readonly string[]
  readonly #free: string[] = []

  /** `others`: tables of the application that cases take over as well. */
  constructor(server: ServerName, others: readonly string[] = []) {
    this.#server = server
    this.#others = others
  }

  take(): string {
    return this.#free.pop() ?? newPrefix()
  }

  async giveBack(prefix: string): Promise<void> {
    const emptied = [...TABLE_NAMES.filter((name) => name !== 'migrations'), ...this.#others].map(
      (name) => `DELETE FROM \`${prefix}${name}\`${name === 'lanes' ? " WHERE destination <> '*'" : ''}`,
    )
    await runByHand(this.#server, emptied.join('; '))
    this.#free.push(prefix)
  }

  async drop(): Promise<void> {
    for (const prefix of this.#free.splice(0)) await dropTables(this.#server, prefix, this.#others)
  }
}

export interface MysqlHarness extends StoreHarness<MysqlHandle, SqlExecutor> {
  readonly prefix: string
  /** What its stores said. */
  readonly logged: readonly LogLine[]
}

export const createHarness = async (
  server: ServerName,
  options: Partial<MysqlUrlOptions> = {},
  tables: TablePool | null = null,
): Promise<MysqlHarness> => {
  const prefix = tables?.take() ?? newPrefix()
  let numbered = false
  const opened: Store<MysqlHandle, SqlExecutor>[] = []
  const logged: LogLine[] = []
  const open = async (): Promise<Store<MysqlHandle, SqlExecutor>> => {
    const store = mysqlStore({ connectionString: serverUrl(server), prefix, ...options })
    await store.open(testContext(logged))
    opened.push(store)
    return store
  }
  return {
    prefix,
    logged,
    store: await open(),
    reopen: open,
    setNextSeq: async (seq) => {
      numbered = true
      await runByHand(server, `ALTER TABLE \`${prefix}events\` AUTO_INCREMENT = ${seq}`)
    },
    setBack: async (ms) => {
      const later = (column: string): string => `${column} = ${column} + INTERVAL ${ms * 1_000} MICROSECOND`
      await runByHand(
        server,
        `UPDATE \`${prefix}deliveries\` SET ${['available_at', 'created_at', 'settled_at'].map(later).join(', ')};
UPDATE \`${prefix}workers\` SET ${later('expires_at')}`,
      )
    },
    corruptEvent: async (id) => {
      const digits = id.replaceAll('-', '')
      await runByHand(server, `UPDATE \`${prefix}events\` SET headers = '{broken' WHERE id = X'${digits}'`)
    },
    dispose: async () => {
      for (const store of opened) await store.close()
      if (tables === null || numbered) await dropTables(server, prefix)
      else await tables.giveBack(prefix)
    },
  }
}
