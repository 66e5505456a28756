/**
 * The three libraries, seen through the few members that we use. Nothing is imported statically: all of them
 * are optional, and node:sqlite does not exist before Node 22.
 */
import { ERROR_CODES, StoreError } from '../../core/errors.ts'

export type SqliteDriver = 'node:sqlite' | 'better-sqlite3' | 'libsql'

export interface DriverStatement {
  readonly reader?: boolean
  run(...params: unknown[]): unknown
  get(...params: unknown[]): unknown
  all(...params: unknown[]): unknown[]
  columns(): readonly { readonly name: string }[]
  raw?(toggle?: boolean): unknown
  safeIntegers?(toggle?: boolean): unknown
  setReadBigInts?(toggle: boolean): void
  setReturnArrays?(toggle: boolean): void
}

export interface DriverHandle {
  readonly open?: boolean
  readonly isOpen?: boolean
  readonly inTransaction?: boolean
  readonly isTransaction?: boolean
  exec(sql: string): unknown
  prepare(sql: string): DriverStatement
  close(): unknown
}

export type DriverConstructor = new (path: string, options?: object) => DriverHandle

/** In this order because a built-in needs no installation, and the second is what most people have. */
const PREFERENCE: readonly SqliteDriver[] = ['node:sqlite', 'better-sqlite3', 'libsql']

/** Since Node 22.16 rows come as arrays and a handle says whether it is in a transaction. */
const hasArrays = ({ StatementSync }: Record<string, unknown>): boolean =>
  typeof StatementSync === 'function' && 'setReturnArrays' in (StatementSync.prototype as object)

const importDriver = async (driver: SqliteDriver): Promise<DriverConstructor> => {
  // A variable keeps bundlers and the type checker from resolving packages that may not be there.
  const specifier: string = driver
  const module = (await import(specifier)) as Record<string, unknown>
  const found = driver === 'node:sqlite' ? module.DatabaseSync : (module.default ?? module)
  if (typeof found !== 'function') throw new TypeError(`${driver} does not export a database class`)
  if (driver === 'node:sqlite' && !hasArrays(module)) throw new TypeError('this node:sqlite is too old')
  return found as DriverConstructor
}

export const loadDriver = async (
  wanted: SqliteDriver | null,
): Promise<{ readonly driver: SqliteDriver; readonly open: DriverConstructor }> => {
  const causes: unknown[] = []
  for (const driver of wanted === null ? PREFERENCE : [wanted]) {
    try {
      return { driver, open: await importDriver(driver) }
    } catch (cause) {
      causes.push(cause)
    }
  }
  const [first] = causes
  throw new StoreError(ERROR_CODES.missingPeer, adviceFor(wanted), { cause: first, driver: wanted })
}

const adviceFor = (wanted: SqliteDriver | null): string => {
  if (wanted === null) {
    return 'No SQLite library could be loaded. Install one of them: npm install libsql (or better-sqlite3), or use Node 22.16 or later.'
  }
  return wanted === 'node:sqlite'
    ? 'node:sqlite needs Node 22.16 or later. Update Node, or install libsql or better-sqlite3 and set driver to it.'
    : `${wanted} could not be loaded. Install it: npm install ${wanted}`
}

/** Which library made this handle; null when it is none of the three. */
export const driverOf = (handle: object): SqliteDriver | null => {
  const members = handle as Partial<Record<string, unknown>>
  if (typeof members.prepare !== 'function' || typeof members.exec !== 'function') return null
  if (typeof members.pragma !== 'function') return 'node:sqlite'
  return typeof members.syncUntil === 'function' ? 'libsql' : 'better-sqlite3'
}

/** An older node:sqlite does not say whether it is in a transaction. */
export const checkAge = (driver: SqliteDriver, handle: DriverHandle): void => {
  if (driver !== 'node:sqlite' || handle.isTransaction !== undefined || handle.isOpen === false) return
  throw new StoreError(
    ERROR_CODES.unsupported,
    'node:sqlite needs Node 22.16 or later. Update Node, or use better-sqlite3.',
  )
}
