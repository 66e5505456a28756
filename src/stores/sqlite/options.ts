/** What a user can set, with defaults, units and bounds; checked when the store is built, before any I/O. */
import { resolve } from 'node:path'
import { InvalidOptionError } from '../../core/errors.ts'
import { refuseUnknown } from '../../core/model/index.ts'
import { checkPrefix } from '../sql/identifiers.ts'
import { checkOneOf, checkWhole, refuse } from '../sql/options.ts'
import type { SqliteDriver } from './drivers.ts'

interface CommonOptions {
  /** Which library opens files. Default: node:sqlite where Node has it, else better-sqlite3, else libsql. */
  readonly driver?: SqliteDriver
  /** Begins the name of every table. Default `outbox_`; letters, digits and underscores. */
  readonly prefix?: string
  /** How long to wait for a lock that somebody else holds, in ms. Default 5,000; 0 to 600,000. */
  readonly busyTimeoutMs?: number
  /** Called with the text of every statement that the store runs; for tests and for counting. */
  readonly onStatement?: (sql: string) => void
}

export interface SqliteFileOptions extends CommonOptions {
  /** Path of the database, from the working directory, made when it is missing; `:memory:` for one that lives as long as the store. */
  readonly file: string
}

export interface SqliteDatabaseOptions<Handle extends object> extends CommonOptions {
  /** Your own open database of better-sqlite3, libsql or node:sqlite; the store never closes it. */
  readonly database: Handle
}

export interface ResolvedSqliteOptions {
  readonly source: { readonly file: string } | { readonly database: object }
  readonly driver: SqliteDriver | null
  readonly prefix: string
  readonly busyTimeoutMs: number
  readonly onStatement: ((sql: string) => void) | null
}

const NAMES: ReadonlySet<string> = new Set<keyof SqliteFileOptions | keyof SqliteDatabaseOptions<object>>([
  'file',
  'database',
  'driver',
  'prefix',
  'busyTimeoutMs',
  'onStatement',
])

const checkOnStatement = (value: unknown): void => {
  if (value === undefined || value === null || typeof value === 'function') return
  refuse('onStatement', value, `must be a function of the statement's text, not ${typeof value}`)
}

const DRIVERS: readonly SqliteDriver[] = ['node:sqlite', 'better-sqlite3', 'libsql']

/** Settled here, so that it stays the same file wherever the process goes, and messages can name it. */
const settledPath = (file: string): string =>
  file === ':memory:' || file.startsWith('file:') ? file : resolve(file)

export const resolvePrefix = (value: unknown): string => checkPrefix('prefix', value ?? 'outbox_')

export const resolveSqliteOptions = (
  given: SqliteFileOptions | SqliteDatabaseOptions<object>,
): ResolvedSqliteOptions => {
  refuseUnknown('sqliteStore', given, NAMES)
  checkOnStatement(given.onStatement)
  const file = 'file' in given ? given.file : undefined
  const database = 'database' in given ? given.database : undefined
  if ((file === undefined) === (database === undefined)) {
    throw new InvalidOptionError('sqliteStore needs either file or database', { option: 'file', value: file })
  }
  if (file !== undefined && (typeof file !== 'string' || file === '' || file.includes('\0'))) {
    refuse('file', file, 'must be the path of a database, or ":memory:"')
  }
  if (database !== undefined && (typeof database !== 'object' || database === null)) {
    refuse('database', typeof database, 'must be an open database of better-sqlite3, libsql or node:sqlite')
  }
  return Object.freeze({
    source: file === undefined ? { database: database as object } : { file: settledPath(file) },
    driver: given.driver == null ? null : checkOneOf('driver', given.driver, DRIVERS),
    prefix: resolvePrefix(given.prefix),
    busyTimeoutMs: checkWhole('busyTimeoutMs', given.busyTimeoutMs ?? 5_000, 0, 600_000),
    onStatement: given.onStatement ?? null,
  })
}
