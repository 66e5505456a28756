/**
 * One connection, the same for all three libraries: rows come as arrays, integers as BigInt (positions may
 * pass 2^53), blobs as Uint8Array. Statements are prepared once and kept, up to a bound.
 */
import type { SqlValue } from '../sql/sql-executor.ts'
import type { DriverHandle, DriverStatement, SqliteDriver } from './drivers.ts'

/** Parameters are plain `?` everywhere: better-sqlite3 takes `?1` for a name. */
export type Row = readonly unknown[]

export interface SqliteConnection {
  readonly driver: SqliteDriver
  readonly handle: DriverHandle
  readonly inTransaction: boolean
  exec(sql: string): void
  rows(sql: string, params?: readonly SqlValue[]): Row[]
  /** Names of the columns that the statement returns. */
  columns(sql: string): readonly string[]
  close(): void
}

const MAX_STATEMENTS = 128

/** Whole numbers are bound as integers by every driver only when they are BigInt. */
const bindable = (value: SqlValue): SqlValue =>
  typeof value === 'number' && Number.isInteger(value) ? BigInt(value) : value

/** A statement that returns rows hands them over as arrays with BigInt. */
const configure = (driver: SqliteDriver, statement: DriverStatement): ((params: SqlValue[]) => Row[]) => {
  if (driver === 'node:sqlite') {
    statement.setReadBigInts?.(true)
    statement.setReturnArrays?.(true)
    return (params) => statement.all(...params) as Row[]
  }
  if (statement.reader !== true) {
    return (params) => {
      // An array, because libsql takes a lone buffer for named parameters and ends the process over it.
      statement.run(params)
      return []
    }
  }
  statement.raw?.(true)
  statement.safeIntegers?.(true)
  return (params) => statement.all(params) as Row[]
}

class DriverConnection implements SqliteConnection {
  readonly driver: SqliteDriver
  readonly handle: DriverHandle
  readonly #statements = new Map<
    string,
    { readonly statement: DriverStatement; readonly run: (params: SqlValue[]) => Row[] }
  >()
  readonly #onStatement: ((sql: string) => void) | null

  constructor(driver: SqliteDriver, handle: DriverHandle, onStatement: ((sql: string) => void) | null) {
    this.driver = driver
    this.handle = handle
    this.#onStatement = onStatement
  }

  get inTransaction(): boolean {
    // libsql ends the process when a closed handle is asked.
    if (this.handle.open === false || this.handle.isOpen === false) return false
    return (this.driver === 'node:sqlite' ? this.handle.isTransaction : this.handle.inTransaction) === true
  }

  exec(sql: string): void {
    this.#onStatement?.(sql)
    this.handle.exec(sql)
  }

  rows(sql: string, params: readonly SqlValue[] = []): Row[] {
    this.#onStatement?.(sql)
    return this.#prepared(sql).run(params.map(bindable))
  }

  columns(sql: string): readonly string[] {
    return this.#prepared(sql)
      .statement.columns()
      .map(({ name }) => name)
  }

  close(): void {
    this.#statements.clear()
    this.handle.close()
  }

  #prepared(sql: string) {
    const known = this.#statements.get(sql)
    if (known !== undefined) {
      // Moved to the end, so that the one dropped below is the one that was not used for longest.
      this.#statements.delete(sql)
      this.#statements.set(sql, known)
      return known
    }
    const statement = this.handle.prepare(sql)
    const prepared = { statement, run: configure(this.driver, statement) }
    if (this.#statements.size >= MAX_STATEMENTS) {
      const [oldest] = this.#statements.keys()
      if (oldest !== undefined) this.#statements.delete(oldest)
    }
    this.#statements.set(sql, prepared)
    return prepared
  }
}

export const connectionOf = (
  driver: SqliteDriver,
  handle: DriverHandle,
  onStatement: ((sql: string) => void) | null,
): SqliteConnection => new DriverConnection(driver, handle, onStatement)

/** Path of the main database's file; empty for memory and temporary databases. */
export const fileOf = (connection: SqliteConnection): string => {
  const main = connection.rows('PRAGMA database_list').find(([, name]) => name === 'main')
  return typeof main?.[2] === 'string' ? main[2] : ''
}
