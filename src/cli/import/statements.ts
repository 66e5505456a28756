/** The statements on the other table. Everything is read as text, so that no driver rounds a number or moves a time. */
import { quoted } from './names.ts'
import { type Condition, type DatabaseKind, NOW, NULL } from './shapes.ts'

export type Value = string | number | bigint | Uint8Array | null
export type Row = Readonly<Record<string, unknown>>

export interface Sql {
  run(sql: string, params: readonly Value[]): Promise<readonly Row[] | undefined>
}

/** What a column holds, as far as reading it differs; `any` where each value has a type of its own. */
export type Kind = 'bytes' | 'instant' | 'datetime' | 'whole' | 'text' | 'any'

export interface Column {
  readonly name: string
  readonly kind: Kind
}

/** A row's id, as shown, and as it goes back into a statement. */
export interface RowId {
  readonly text: string
  readonly value: Value
}

/** What is read, from where, in which order. */
export interface Reading {
  readonly kind: DatabaseKind
  readonly table: readonly string[]
  readonly id: Column
  readonly payload: Column
  /** Roles and headers by the alias that they are read under. */
  readonly columns: readonly (readonly [alias: string, column: Column])[]
  readonly pending: Condition
  readonly exceptTypes: { readonly column: string; readonly prefix: string } | null
  readonly order: readonly string[]
}

const KINDS: readonly (readonly [RegExp, Kind])[] = [
  [/^(bytea|(tiny|medium|long)?blob|(var)?binary)/, 'bytes'],
  [/^timestamp( with time zone|tz)|^timestamp$/, 'instant'],
  [/^(timestamp|datetime|date)/, 'datetime'],
  [/^(small|big|tiny|medium)?int|^int/, 'whole'],
]

/** On PostgreSQL a bare `timestamp` has no zone, and is taken for UTC; on MySQL it is an instant. */
const kindOf = (database: DatabaseKind, type: string): Kind => {
  if (database === 'sqlite') return 'any'
  if (database === 'postgres' && /^timestamp(\(\d\))? without time zone|^timestamp$/.test(type))
    return 'datetime'
  if (database === 'postgres' && /^timestamp/.test(type)) return 'instant'
  return KINDS.find(([pattern]) => pattern.test(type))?.[1] ?? 'text'
}

const tableText = (kind: DatabaseKind, table: readonly string[]): string =>
  table.map((part) => quoted(kind, part)).join('.')

/** The columns of a table; empty when there is no such table. */
export const columnsOf = async (
  sql: Sql,
  kind: DatabaseKind,
  table: readonly string[],
): Promise<readonly Column[]> => {
  const [first = '', second] = table
  const [schema, name] = second === undefined ? [null, first] : [first, second]
  const rows = await (() => {
    switch (kind) {
      case 'postgres':
        return sql.run(
          'SELECT attname AS name, format_type(atttypid, atttypmod) AS type FROM pg_attribute ' +
            'WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped ORDER BY attnum',
          [tableText(kind, table)],
        )
      case 'mysql':
        return sql.run(
          'SELECT column_name AS name, data_type AS type FROM information_schema.columns ' +
            `WHERE table_schema = ${schema === null ? 'DATABASE()' : '?'} AND table_name = ? ORDER BY ordinal_position`,
          schema === null ? [name] : [schema, name],
        )
      default:
        return sql.run(
          `SELECT name, type FROM pragma_table_info(?${schema === null ? '' : ', ?'})`,
          schema === null ? [name] : [name, schema],
        )
    }
  })()
  return (rows ?? []).map((row) => ({
    name: String(row.name),
    kind: kindOf(kind, String(row.type).toLowerCase()),
  }))
}

/** Whether these are one table, whatever ways their names are written. */
export const isSameTable = async (
  sql: Sql,
  kind: DatabaseKind,
  table: readonly string[],
  own: string,
): Promise<boolean> => {
  const mine = tableText(kind, table)
  if (kind !== 'postgres') return mine.toLowerCase() === own.toLowerCase()
  const rows = await sql.run('SELECT (to_regclass($1) = to_regclass($2))::text AS same', [mine, own])
  return rows?.[0]?.same === 'true'
}

class Text {
  readonly params: Value[] = []
  readonly #kind: DatabaseKind

  constructor(kind: DatabaseKind) {
    this.#kind = kind
  }

  value(value: Value): string {
    this.params.push(value)
    return this.#kind === 'postgres' ? `$${this.params.length}` : '?'
  }

  name(column: string): string {
    return quoted(this.#kind, column)
  }

  /** As text, so that numbers, booleans and enumerations are compared with what people write. */
  asText(column: string): string {
    const name = this.name(column)
    if (this.#kind === 'postgres') return `${name}::text`
    return this.#kind === 'mysql' ? `CAST(${name} AS CHAR)` : `CAST(${name} AS TEXT)`
  }

  read({ name, kind }: Column): string {
    const column = this.name(name)
    if (this.#kind === 'sqlite') return column
    const isMysql = this.#kind === 'mysql'
    switch (kind) {
      case 'bytes':
        return isMysql ? `HEX(${column})` : `encode(${column}, 'hex')`
      case 'instant':
        return isMysql ? `CAST(UNIX_TIMESTAMP(${column}) * 1000 AS CHAR)` : this.#epoch(column)
      case 'datetime':
        return isMysql
          ? `CAST(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', ${column}) DIV 1000 AS CHAR)`
          : this.#epoch(column)
      default:
        return isMysql ? `CAST(${column} AS CHAR CHARACTER SET utf8mb4)` : `${column}::text`
    }
  }

  #epoch(column: string): string {
    return `trunc(extract(epoch FROM ${column}) * 1000)::text`
  }

  size({ name, kind }: Column): string {
    const column = this.name(name)
    if (this.#kind === 'sqlite') return `length(CAST(${column} AS BLOB))`
    if (this.#kind === 'mysql') return `CAST(OCTET_LENGTH(${column}) AS CHAR)`
    return `octet_length(${kind === 'bytes' ? column : `${column}::text`})::text`
  }

  where(condition: Condition): string {
    const parts = condition.map(([column, values]) => {
      const texts = values.filter((value) => value !== NULL)
      const list = texts.map((value) => this.value(value)).join(', ')
      const ways = [
        ...(texts.length > 0 ? [`${this.asText(column)} IN (${list})`] : []),
        ...(texts.length < values.length ? [`${this.name(column)} IS NULL`] : []),
      ]
      return `(${ways.join(' OR ')})`
    })
    return parts.length === 0 ? '1 = 1' : parts.join(' AND ')
  }

  except(except: Reading['exceptTypes']): string {
    if (except === null) return ''
    const { column, prefix } = except
    return ` AND substring(${this.asText(column)} FROM 1 FOR ${prefix.length}) <> ${this.value(prefix)}`
  }

  ids(id: Column, ids: readonly RowId[]): string {
    if (this.#kind !== 'postgres')
      return `${this.name(id.name)} IN (${ids.map(({ value }) => this.value(value)).join(', ')})`
    // One parameter, so that the text is the same for every batch.
    const items = ids.map(({ value }) => `"${String(value).replace(/["\\]/g, '\\$&')}"`)
    return `${this.name(id.name)} = ANY(${this.value(`{${items.join(',')}}`)})`
  }
}

const bytesOf = (value: Uint8Array): string => Buffer.from(value).toString('hex')

/** Null for a row that has none. */
const rowIdOf = ({ kind, id }: Reading, value: unknown): RowId | null => {
  if (value === null || value === undefined) return null
  if (value instanceof Uint8Array) return { text: bytesOf(value), value }
  const text = String(value)
  if (id.kind === 'bytes') {
    const hex = text.toLowerCase()
    return { text: hex, value: kind === 'postgres' ? `\\x${hex}` : Buffer.from(hex, 'hex') }
  }
  // Compared as text, numbers beyond 2^53 would meet their neighbours on MySQL.
  if (kind === 'mysql' && id.kind === 'whole') return { text, value: BigInt(text) }
  return { text, value: typeof value === 'bigint' || typeof value === 'number' ? value : text }
}

const numberOf = (value: unknown): number => Number(value ?? 0)

export const countOf = async (sql: Sql, reading: Reading, condition: Condition): Promise<number> => {
  const text = new Text(reading.kind)
  const where = `${text.where(condition)}${text.except(reading.exceptTypes)}`
  const rows = await sql.run(
    `SELECT COUNT(*) AS n FROM ${tableText(reading.kind, reading.table)} WHERE ${where}`,
    text.params,
  )
  return numberOf(rows?.[0]?.n)
}

/** The unfinished rows of each type; the types as they are read, and as many as the table has. */
export const countByType = async (
  sql: Sql,
  reading: Reading,
  type: Column,
): Promise<readonly { readonly value: unknown; readonly rows: number }[]> => {
  const text = new Text(reading.kind)
  const where = `${text.where(reading.pending)}${text.except(reading.exceptTypes)}`
  // On MySQL most collations would take types for one that differ in case.
  const group = reading.kind === 'mysql' ? `HEX(${text.name(type.name)})` : text.read(type)
  const rows = await sql.run(
    `SELECT MIN(${text.read(type)}) AS type, COUNT(*) AS n FROM ${tableText(reading.kind, reading.table)} WHERE ${where} GROUP BY ${group}`,
    text.params,
  )
  return (rows ?? []).map((row) => ({ value: row.type, rows: numberOf(row.n) }))
}

const ALIAS = 'source_row'

/** Of the table: a bare name would mean what is read under that name, which is text, and 10 comes before 9. */
const orderText = (text: Text, { order }: Reading): string =>
  order.map((column) => `${ALIAS}.${text.name(column)}`).join(', ')

export interface Listed {
  readonly id: RowId | null
  readonly bytes: number
}

/** The unfinished rows in their order, without what is in them. */
export const listRows = async (sql: Sql, reading: Reading, limit: number): Promise<readonly Listed[]> => {
  const text = new Text(reading.kind)
  const order = orderText(text, reading)
  const where = `${text.where(reading.pending)}${text.except(reading.exceptTypes)}`
  const rows = await sql.run(
    `SELECT ${text.read(reading.id)} AS id, ${text.size(reading.payload)} AS size ` +
      `FROM ${tableText(reading.kind, reading.table)} AS ${ALIAS} WHERE ${where} ORDER BY ${order} LIMIT ${limit}`,
    text.params,
  )
  return (rows ?? []).map((row) => ({ id: rowIdOf(reading, row.id), bytes: numberOf(row.size) }))
}

export interface ReadRow {
  readonly id: RowId
  readonly values: Row
}

/**
 * Those of them that are still unfinished, in order; locked, and waited for: a row that another worker has must not be
 * passed over, or what comes after it in its key would overtake it.
 */
export const readRows = async (
  sql: Sql,
  reading: Reading,
  ids: readonly RowId[],
  lock: boolean,
): Promise<readonly ReadRow[]> => {
  const text = new Text(reading.kind)
  const columns = reading.columns.map(([alias, column]) => `${text.read(column)} AS ${text.name(alias)}`)
  const order = orderText(text, reading)
  const where = `${text.ids(reading.id, ids)} AND ${text.where(reading.pending)}`
  const forUpdate = lock && reading.kind !== 'sqlite' ? ' FOR UPDATE' : ''
  const rows = await sql.run(
    `SELECT ${[`${text.read(reading.id)} AS id`, ...columns].join(', ')} ` +
      `FROM ${tableText(reading.kind, reading.table)} AS ${ALIAS} WHERE ${where} ORDER BY ${order}${forUpdate}`,
    text.params,
  )
  return (rows ?? []).flatMap((values) => {
    const id = rowIdOf(reading, values.id)
    return id === null ? [] : [{ id, values }]
  })
}

const LOCK_SECONDS = 10

/** Whoever keeps a row for longer is a worker that was not stopped. */
export const boundLocks = async (sql: Sql, kind: DatabaseKind): Promise<void> => {
  if (kind === 'postgres') await sql.run(`SET LOCAL lock_timeout = '${LOCK_SECONDS}s'`, [])
  if (kind === 'mysql') await sql.run(`SET SESSION innodb_lock_wait_timeout = ${LOCK_SECONDS}`, [])
}

export type Assignment = readonly [column: string, value: string]

/** How many rows it was. */
export const finishRows = async (
  sql: Sql,
  reading: Reading,
  ids: readonly RowId[],
  done: readonly Assignment[] | 'delete',
): Promise<number> => {
  const { kind } = reading
  const text = new Text(kind)
  const table = tableText(kind, reading.table)
  const now = kind === 'mysql' ? 'CURRENT_TIMESTAMP(6)' : 'CURRENT_TIMESTAMP'
  const sets = (done === 'delete' ? [] : done).map(([column, value]) => {
    const said = value === NOW ? now : value === NULL ? 'NULL' : text.value(value)
    return `${text.name(column)} = ${said}`
  })
  const act = done === 'delete' ? `DELETE FROM ${table}` : `UPDATE ${table} SET ${sets.join(', ')}`
  const where = `${text.ids(reading.id, ids)} AND ${text.where(reading.pending)}`
  const rows = await sql.run(
    `${act} WHERE ${where}${kind === 'mysql' ? '' : ' RETURNING 1 AS one'}`,
    text.params,
  )
  return kind === 'mysql' ? numberOf(rows?.[0]?.affectedRows) : (rows ?? []).length
}

/** How many of them are still unfinished. */
export const unfinishedOf = async (sql: Sql, reading: Reading, ids: readonly RowId[]): Promise<number> => {
  const text = new Text(reading.kind)
  const where = `${text.ids(reading.id, ids)} AND ${text.where(reading.pending)}`
  const rows = await sql.run(
    `SELECT COUNT(*) AS n FROM ${tableText(reading.kind, reading.table)} WHERE ${where}`,
    text.params,
  )
  return numberOf(rows?.[0]?.n)
}
