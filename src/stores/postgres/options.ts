/** What a user can set, with defaults, units and bounds; checked when the store is built, before any I/O. */
import { refuseUnknown } from '../../core/model/index.ts'
import { checkName } from '../sql/identifiers.ts'
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
import type { PostgresPool } from './driver.ts'

export type { PartitionPeriod }

export type PostgresLayout = Layout

interface CommonOptions {
  /** Schema of the tables. Default `outbox`; letters, digits and underscores. */
  readonly schema?: string
  /** Begins the name of every table. Default none; letters, digits and underscores. */
  readonly prefix?: string
  /** How `migrate` makes `events` and `finished`: one table each, or partitions by time. Default `plain`. */
  readonly layout?: PostgresLayout
  /** How much time one partition holds. Default `day`. */
  readonly period?: PartitionPeriod
  /** Named prepared statements. Default: used, unless a pooler stands between us and the server. */
  readonly prepare?: boolean
  /** Wake-up by LISTEN. Default: a connection of its own to the same place; `false` leaves it to polling. */
  readonly listen?: false | { readonly connectionString: string }
  /** How long the store waits for the answer to a statement of its own, in ms. Default 30,000; 100 to 600,000. */
  readonly queryTimeoutMs?: number
  /** Called with the text of everything that is sent to the server, once per round trip; for tests and for counting. */
  readonly onStatement?: (sql: string) => void
}

export interface PostgresPoolOptions<Pool extends PostgresPool<object>> extends CommonOptions {
  /** Your own pool of `pg`, for transactions; the store never ends it. */
  readonly pool: Pool
  /**
   * Most connections of the pool that the store makes beside yours, with the same settings, for its own statements:
   * handlers that hold all of yours do not keep it from working. Default 4; 2 to 1,000.
   */
  readonly poolSize?: number
}

export interface PostgresUrlOptions extends CommonOptions {
  /** `postgres://user:password@host/database`; the store makes pools of its own with the package `pg`. */
  readonly connectionString: string
  /** Most connections; up to four of them, but at most half, are for the store's own statements. Default 10; 2 to 1,000. */
  readonly poolSize?: number
}

export interface ResolvedPostgresOptions {
  readonly source:
    | { readonly pool: PostgresPool<object>; readonly poolSize: number }
    | { readonly connectionString: string; readonly poolSize: number }
  readonly schema: string
  readonly prefix: string
  readonly layout: PostgresLayout
  readonly period: PartitionPeriod
  /** Null: found out when the store is opened. */
  readonly prepare: boolean | null
  readonly listen: false | { readonly connectionString: string } | null
  readonly queryTimeoutMs: number
  readonly onStatement: ((sql: string) => void) | null
}

const NAMES: ReadonlySet<string> = new Set<
  keyof PostgresPoolOptions<PostgresPool<object>> | keyof PostgresUrlOptions
>([
  'pool',
  'connectionString',
  'poolSize',
  'schema',
  'prefix',
  'layout',
  'period',
  'prepare',
  'listen',
  'queryTimeoutMs',
  'onStatement',
])

const checkSchema = (value: unknown): string => {
  const name = checkName('schema', value)
  if (/^pg_|^information_schema$/i.test(name))
    refuse('schema', name, 'must not be a schema that PostgreSQL keeps for itself')
  return name
}

const checkUrl = (option: string, value: unknown): string => {
  if (typeof value !== 'string' || !/^postgres(ql)?:\/\/./.test(value))
    return refuse(option, typeof value, 'must begin with postgres:// or postgresql://, and say where')
  // A user and no host means a socket, which the driver takes.
  return checkParses(option, value, value.replace('@/', '@socket/'))
}

const checkPool = (value: unknown): PostgresPool<object> => {
  const pool = value as Partial<PostgresPool<object>> | null
  if (typeof pool === 'object' && pool !== null && 'connectionParameters' in pool)
    return refuse('pool', 'Client', 'must be a Pool of the package pg, and this is one of its Clients')
  if (typeof pool === 'object' && typeof pool?.connect === 'function' && typeof pool.on === 'function')
    return pool as PostgresPool<object>
  return refuse('pool', typeof value, 'must be a Pool of the package pg')
}

const checkListen = (value: CommonOptions['listen']): ResolvedPostgresOptions['listen'] => {
  if (value === undefined) return null
  if (value === false) return false
  if (typeof value !== 'object' || value === null)
    return refuse('listen', value, 'must be false or { connectionString }')
  refuseUnknown('listen', value, new Set(['connectionString']))
  return { connectionString: checkUrl('listen.connectionString', value.connectionString) }
}

const checkSource = (
  given: Partial<PostgresPoolOptions<PostgresPool<object>> & PostgresUrlOptions>,
): ResolvedPostgresOptions['source'] => {
  const { pool, connectionString, poolSize } = given
  checkEither('postgresStore', pool, connectionString)
  if (pool === undefined) {
    return {
      connectionString: checkUrl('connectionString', connectionString),
      poolSize: checkWhole('poolSize', poolSize ?? 10, 2, 1_000),
    }
  }
  return { pool: checkPool(pool), poolSize: checkWhole('poolSize', poolSize ?? 4, 2, 1_000) }
}

export const resolveNames = ({
  schema = 'outbox',
  prefix = '',
}: Pick<CommonOptions, 'schema' | 'prefix'>): { readonly schema: string; readonly prefix: string } => ({
  schema: checkSchema(schema),
  prefix: prefix === '' ? '' : checkName('prefix', prefix),
})

export const resolvePostgresOptions = (
  given: PostgresPoolOptions<PostgresPool<object>> | PostgresUrlOptions,
): ResolvedPostgresOptions => {
  refuseUnknown('postgresStore', given, NAMES)
  const { prepare } = given
  if (prepare !== undefined && typeof prepare !== 'boolean')
    refuse('prepare', prepare, 'must be true or false')
  return Object.freeze({
    source: checkSource(given),
    ...resolveNames(given),
    layout: checkLayout(given.layout),
    period: checkPeriod(given.period),
    prepare: prepare ?? null,
    listen: checkListen(given.listen),
    queryTimeoutMs: checkQueryTimeout(given.queryTimeoutMs),
    onStatement: checkOnStatement(given.onStatement),
  })
}
