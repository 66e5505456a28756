/** What a user can set, with defaults, units and bounds; checked when the store is built, before any I/O. */
import { refuseUnknown } from '../../core/model/index.ts'
import { checkPrefix } from '../sql/identifiers.ts'
import {
  checkEither,
  checkLayout,
  checkOnStatement,
  checkParses,
  checkPeriod,
  checkQueryTimeout,
  checkWhole,
  type Layout,
  type PartitionPeriod,
  refuse,
} from '../sql/options.ts'
import { type MysqlPool, settingsOf } from './driver.ts'

export type { PartitionPeriod }

export type MysqlLayout = Layout

interface CommonOptions {
  /** Begins the name of every table. Default `outbox_`; letters, digits and underscores. */
  readonly prefix?: string
  /** `partitioned` splits events and history by time, so that old ones are dropped at once. Default `plain`; decided by the first migration. */
  readonly layout?: MysqlLayout
  /** What one partition holds. Default `day`. */
  readonly period?: PartitionPeriod
  /** Connections that the store keeps for itself, beside those of your transactions. Default 4; 2 to 100. */
  readonly ownConnections?: number
  /** How long the store waits for the answer to a statement of its own, in ms. Default 30,000; 100 to 600,000. */
  readonly queryTimeoutMs?: number
  /** Called with the text of everything that is sent to the server, once per round trip; for tests and for counting. */
  readonly onStatement?: (sql: string) => void
}

export interface MysqlPoolOptions<Connection extends object> extends CommonOptions {
  /** Your own pool of `mysql2/promise`, for your transactions; the store never ends it, and connects beside it. */
  readonly pool: MysqlPool<Connection>
}

export interface MysqlUrlOptions extends CommonOptions {
  /** `mysql://user:password@host/database`; the store makes its pools with the package `mysql2`. */
  readonly connectionString: string
  /** Most connections for your transactions. Default 10; 1 to 1,000. */
  readonly poolSize?: number
}

export interface ResolvedMysqlOptions {
  readonly source:
    | { readonly pool: MysqlPool<object>; readonly settings: Readonly<Record<string, unknown>> }
    | { readonly connectionString: string; readonly poolSize: number }
  readonly prefix: string
  readonly layout: MysqlLayout
  readonly period: PartitionPeriod
  readonly ownConnections: number
  readonly queryTimeoutMs: number
  readonly onStatement: ((sql: string) => void) | null
}

const NAMES: ReadonlySet<string> = new Set<keyof MysqlPoolOptions<object> | keyof MysqlUrlOptions>([
  'pool',
  'connectionString',
  'poolSize',
  'prefix',
  'layout',
  'period',
  'ownConnections',
  'queryTimeoutMs',
  'onStatement',
])

const checkUrl = (value: unknown): string => {
  const option = 'connectionString'
  if (typeof value !== 'string' || !/^(mysql|mariadb):\/\/./.test(value))
    return refuse(option, typeof value, 'must begin with mysql:// or mariadb://, and say where')
  return checkParses(option, value.replace(/^mariadb:/, 'mysql:'))
}

const checkPool = (value: unknown): ResolvedMysqlOptions['source'] => {
  const pool = value as Partial<MysqlPool<object>> | null
  const settings = typeof pool === 'object' && pool !== null ? settingsOf(pool) : null
  if (typeof pool?.getConnection === 'function' && settings !== null)
    return { pool: pool as MysqlPool<object>, settings }
  return refuse(
    'pool',
    typeof value,
    'must be a pool of mysql2/promise; of a pool of mysql2, pass pool.promise()',
  )
}

const checkSource = (
  given: Partial<MysqlPoolOptions<object> & MysqlUrlOptions>,
): ResolvedMysqlOptions['source'] => {
  const { pool, connectionString, poolSize } = given
  checkEither('mysqlStore', pool, connectionString)
  if (pool === undefined) {
    return {
      connectionString: checkUrl(connectionString),
      poolSize: checkWhole('poolSize', poolSize ?? 10, 1, 1_000),
    }
  }
  if (poolSize !== undefined)
    refuse('poolSize', poolSize, 'belongs to connectionString; your pool has its own')
  return checkPool(pool)
}

export const resolvePrefix = (value: unknown): string => checkPrefix('prefix', value ?? 'outbox_')

export const resolveMysqlOptions = (
  given: MysqlPoolOptions<object> | MysqlUrlOptions,
): ResolvedMysqlOptions => {
  refuseUnknown('mysqlStore', given, NAMES)
  return Object.freeze({
    source: checkSource(given),
    prefix: resolvePrefix(given.prefix),
    layout: checkLayout(given.layout),
    period: checkPeriod(given.period),
    ownConnections: checkWhole('ownConnections', given.ownConnections ?? 4, 2, 100),
    queryTimeoutMs: checkQueryTimeout(given.queryTimeoutMs),
    onStatement: checkOnStatement(given.onStatement),
  })
}
