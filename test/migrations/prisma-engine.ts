/**
 * Prisma's schema engine, built for WebAssembly: the commands of Prisma call the same engine as a program that they
 * download. It asks the database through adapters, of which there are small ones here: those of Prisma cannot answer
 * all that it asks, and split scripts at every semicolon, where that program sends them whole. MySQL it does not know.
 */
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import {
  bindMigrationAwareSqlAdapterFactory,
  ColumnTypeEnum,
  type SqlDriverAdapter,
  type SqlResultSet,
} from '@prisma/driver-adapter-utils'
import * as glue from '@prisma/schema-engine-wasm/schema_engine_bg'
import Database from 'libsql'
import pg from 'pg'
import type { EmptyDatabase } from './databases.ts'

type ColumnType = SqlResultSet['columnTypes'][number]

/** Types of Node's own library are not part of what the compiler is given. */
interface Wasm {
  compile(bytes: Uint8Array): Promise<object>
  instantiate(module: object, imports: object): Promise<{ readonly exports: { __wbindgen_start?(): void } }>
}

/** The package expects a bundler; this is what one would make of it. */
const loadGlue = async (): Promise<typeof glue> => {
  const wasm = (globalThis as unknown as { readonly WebAssembly: Wasm }).WebAssembly
  // Told what went wrong when the engine gives up, which is an error of its own then.
  Object.assign(globalThis, {
    PRISMA_WASM_PANIC_REGISTRY: { set_message: (text: string) => console.error(text) },
  })
  const home = dirname(createRequire(import.meta.url).resolve('@prisma/schema-engine-wasm'))
  const module = await wasm.compile(readFileSync(join(home, 'schema_engine_bg.wasm')))
  const { exports } = await wasm.instantiate(module, { './schema_engine_bg.js': glue })
  glue.__wbg_set_wasm(exports)
  exports.__wbindgen_start?.()
  return glue
}

let loading: Promise<typeof glue> | null = null

const noTransactions = async (): Promise<never> => {
  throw new Error('the engine opens no transactions')
}

/** By the numbers that PostgreSQL has for them; everything else is asked for as text. */
const POSTGRES_TYPES: Readonly<Record<number, ColumnType>> = {
  16: ColumnTypeEnum.Boolean,
  18: ColumnTypeEnum.Character,
  20: ColumnTypeEnum.Int64,
  21: ColumnTypeEnum.Int32,
  23: ColumnTypeEnum.Int32,
  26: ColumnTypeEnum.Int64,
  1009: ColumnTypeEnum.TextArray,
  1114: ColumnTypeEnum.DateTime,
  1184: ColumnTypeEnum.DateTime,
}

const plain = (value: unknown): unknown => (value instanceof Date ? value.toISOString() : value)

const onPostgres = async (
  url: string,
  afterEnd = async (): Promise<void> => {},
): Promise<SqlDriverAdapter> => {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  return {
    provider: 'postgres',
    adapterName: 'test',
    async queryRaw({ sql, args }) {
      const { fields, rows } = await client.query<unknown[]>({ text: sql, values: args, rowMode: 'array' })
      const columnTypes = fields.map(({ dataTypeID }) => POSTGRES_TYPES[dataTypeID] ?? ColumnTypeEnum.Text)
      const columnNames = fields.map(({ name }) => name)
      return { columnNames, columnTypes, rows: rows.map((row) => row.map(plain)) }
    },
    executeRaw: async ({ sql, args }) => (await client.query(sql, args)).rowCount ?? 0,
    executeScript: async (script) => void (await client.query(script)),
    startTransaction: noTransactions,
    dispose: async () => {
      await client.end()
      await afterEnd()
    },
  }
}

/** Beside the database, and gone with the connection. */
const onShadow = async ({ name, url }: EmptyDatabase): Promise<SqlDriverAdapter> => {
  if (name === 'sqlite') return onSqlite(':memory:')
  const shadow = new URL(url)
  shadow.pathname = `${shadow.pathname}_shadow`
  const send = async (sql: string): Promise<void> => {
    const adapter = await onPostgres(url)
    await adapter.executeScript(sql)
    await adapter.dispose()
  }
  await send(`CREATE DATABASE ${shadow.pathname.slice(1)}`)
  return onPostgres(shadow.href, () => send(`DROP DATABASE ${shadow.pathname.slice(1)}`))
}

/** SQLite has no types for times; the engine's own table is known by its names. */
const isTime = (column: string): boolean => column.endsWith('_at')

const typeOf = (column: string, value: unknown): ColumnType => {
  if (isTime(column)) return ColumnTypeEnum.DateTime
  return typeof value === 'number' ? ColumnTypeEnum.Int64 : ColumnTypeEnum.Text
}

const asText = (column: string, value: unknown): unknown => {
  if (value === null || !(isTime(column) || typeof value === 'number')) return value
  return isTime(column) ? new Date(value as number | string).toISOString() : String(value)
}

const onSqlite = async (path: string): Promise<SqlDriverAdapter> => {
  const database = new Database(path)
  return {
    provider: 'sqlite',
    adapterName: 'test',
    async queryRaw({ sql, args }) {
      // libsql takes what stands in double quotes for a name, and never for a text.
      const statement = database.prepare(sql.replace(/ name = "(\w+)"/, " name = '$1'"))
      if (!statement.reader) {
        statement.run(...args)
        return { columnNames: [], columnTypes: [], rows: [] }
      }
      const columnNames = statement.columns().map(({ name }) => name)
      const rows = statement.raw().all(...args) as unknown[][]
      const columnTypes = columnNames.map((column, index) =>
        typeOf(
          column,
          rows.map((row) => row[index]).find((value) => value !== null),
        ),
      )
      const texts = rows.map((row) => row.map((value, index) => asText(columnNames[index] ?? '', value)))
      return { columnNames, columnTypes, rows: texts }
    },
    // It would have the file for itself, which others of this process have open.
    executeRaw: async ({ sql, args }) =>
      sql.includes('locking_mode') ? 0 : Number(database.prepare(sql).run(...args).changes),
    executeScript: async (script) => void database.exec(script),
    startTransaction: noTransactions,
    dispose: async () => void database.close(),
  }
}

/** For one command, as Prisma does it. */
export const withEngine = async <T>(
  database: EmptyDatabase,
  schema: string,
  command: (engine: glue.SchemaEngine) => Promise<T>,
): Promise<T> => {
  loading ??= loadGlue()
  const { SchemaEngine } = await loading
  const { name, url } = database
  const adapter = await (name === 'sqlite' ? onSqlite(url) : onPostgres(url))
  const factory = bindMigrationAwareSqlAdapterFactory({
    provider: adapter.provider,
    adapterName: 'test',
    connect: async () => adapter,
    connectToShadowDb: () => onShadow(database),
  })
  const engine = await SchemaEngine.new({ datamodels: [['schema.prisma', schema]] }, () => undefined, factory)
  try {
    return await command(engine)
  } finally {
    engine.free()
    await adapter.dispose()
  }
}
