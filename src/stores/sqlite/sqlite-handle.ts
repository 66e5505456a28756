/**
 * The handle that `outbox.transaction` gives to users of `{ file }`: the same small surface whichever library
 * is underneath, without its surprises.
 */
import type { SqliteConnection } from './connection.ts'
import type { DriverStatement } from './drivers.ts'

export type SqliteParameter = string | number | bigint | Uint8Array | null | Readonly<Record<string, unknown>>

export interface SqliteStatement {
  run(...params: SqliteParameter[]): {
    readonly changes: number | bigint
    readonly lastInsertRowid: number | bigint
  }
  get(...params: SqliteParameter[]): Record<string, unknown> | undefined
  all(...params: SqliteParameter[]): Record<string, unknown>[]
}

export interface SqliteHandle {
  exec(sql: string): void
  prepare(sql: string): SqliteStatement
}

const refuse = (value: unknown): never => {
  throw new TypeError(`SQLite has no ${typeof value}; bind a number, text, bytes or null`)
}

/** libsql ends the process over a boolean, so values that no library can bind stop here. */
const checkValue = (value: unknown): void => {
  if (
    value === undefined ||
    typeof value === 'boolean' ||
    typeof value === 'function' ||
    typeof value === 'symbol'
  ) {
    refuse(value)
  }
}

const isNamed = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !(value instanceof Uint8Array) && !Array.isArray(value)

const checked = (params: readonly unknown[]): unknown[] => {
  for (const value of params) {
    if (isNamed(value)) for (const field of Object.values(value)) checkValue(field)
    else checkValue(value)
  }
  const [first] = params
  return params.length === 1 && isNamed(first) ? [first] : [params]
}

/** libsql adds a field of its own to objects and changes the type of blobs; arrays and column names have neither. */
const libsqlStatement = (statement: DriverStatement): SqliteStatement => {
  const names = statement.reader === true ? statement.columns().map(({ name }) => name) : []
  if (statement.reader === true) statement.raw?.(true)
  const all = (params: readonly unknown[]): Record<string, unknown>[] =>
    statement
      .all(...checked(params))
      .map((row) => Object.fromEntries(names.map((name, i) => [name, (row as unknown[])[i]])))
  return {
    run: (...params) => statement.run(...checked(params)) as ReturnType<SqliteStatement['run']>,
    get: (...params) => all(params)[0],
    all: (...params) => all(params),
  }
}

const plainStatement = (statement: DriverStatement): SqliteStatement => ({
  run: (...params) => statement.run(...params) as ReturnType<SqliteStatement['run']>,
  get: (...params) => statement.get(...params) as Record<string, unknown> | undefined,
  all: (...params) => statement.all(...params) as Record<string, unknown>[],
})

export const handleOf = (connection: SqliteConnection): SqliteHandle => ({
  exec: (sql) => {
    connection.handle.exec(sql)
  },
  prepare: (sql) => {
    const statement = connection.handle.prepare(sql)
    return connection.driver === 'libsql' ? libsqlStatement(statement) : plainStatement(statement)
  },
})
