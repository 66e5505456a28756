/** What the tests of the MySQL store do by hand, beside the store. */
import mysql from 'mysql2/promise'
import type { StoreHarness } from '../../src/testing/suites/index.ts'
import { StoreFixture } from '../../src/testing/suites/store-fixture.ts'
import { isIn } from '../parts.ts'
import { createHarness, type MysqlHarness, poolOf } from './mysql-harness.ts'
import { type ServerName, serverUrl } from './servers.ts'
import { until } from './until.ts'

const ALL_SERVERS = ['mariadb', 'mysql'] as const satisfies readonly ServerName[]

export const SERVERS = ALL_SERVERS.filter((name) => isIn(name === 'mysql' ? 'rest' : 'most'))

/** A store with its tables, the suite's words on it, and a connection for what is done by hand. */
export interface World {
  readonly server: ServerName
  readonly harness: MysqlHarness
  readonly t: StoreFixture
  readonly hand: mysql.Connection
  /** Quoted, with the prefix. */
  table(name: string): string
  close(): Promise<void>
}

export const createWorld = async (
  server: ServerName,
  options: Parameters<typeof createHarness>[1] = {},
): Promise<World> => {
  const harness = await createHarness(server, options)
  await harness.store.schema.migrate()
  const hand = await mysql.createConnection({ uri: serverUrl(server), multipleStatements: true })
  return {
    server,
    harness,
    t: new StoreFixture(harness as unknown as StoreHarness),
    hand,
    table: (name) => `\`${harness.prefix}${name}\``,
    close: async () => {
      await hand.end().catch(() => undefined)
      await harness.dispose()
    },
  }
}

export const hex = (id: string): string => `X'${id.replaceAll('-', '')}'`

export const rowsOf = async (connection: Pick<mysql.Connection, 'query'>, sql: string) =>
  (await connection.query(sql))[0] as Record<string, unknown>[]

/**
 * The server makes this list anew only when nobody has asked for it for a tenth of a second. Three files ask, maybe at the same
 * time: however their questions fall, there is such a pause in each of these intervals.
 */
const ASK_EVERY_MS = 3 * 120

/** Resolves when so many statements about these tables wait for a lock of a row, or as soon as `isOver` says so. */
export const untilWaiting = (
  { server, harness }: World,
  least = 1,
  isOver: () => boolean = () => false,
): Promise<void> =>
  until(
    `${least} wait for a lock`,
    async () => {
      const [row] = await rowsOf(
        poolOf(server),
        `SELECT COUNT(*) AS n FROM information_schema.INNODB_TRX WHERE trx_state = 'LOCK WAIT' AND trx_query LIKE '%${harness.prefix}%'`,
      )
      return isOver() || Number(row?.n) >= least
    },
    ASK_EVERY_MS,
  )

/** Resolves when so many statements about these tables wait for a table. */
export const untilTableWaiting = ({ server, harness }: World, least = 1): Promise<void> =>
  until(`${least} wait for a table`, async () => {
    const [row] = await rowsOf(
      poolOf(server),
      `SELECT COUNT(*) AS n FROM information_schema.PROCESSLIST WHERE STATE LIKE 'Waiting for table%' AND INFO LIKE '%${harness.prefix}%'`,
    )
    return Number(row?.n) >= least
  })
