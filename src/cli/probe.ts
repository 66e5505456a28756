/** Questions to the database that no role of a store answers: for doctor and why, which explain more than they need. */
import type { OutboxHost } from '../core/host.ts'
import type { Transactions } from '../core/spi/index.ts'

type Row = Readonly<Record<string, unknown>>
type Value = string | number

/** As far as it is used here of what SQL stores hand out. */
interface Executor {
  run(sql: string, params: readonly Value[]): Promise<readonly Row[] | undefined>
}

/** On a connection of the store's own, in a transaction that writes nothing. Empty where the store knows no SQL. */
export const ask = async (
  host: OutboxHost,
  sql: string,
  params: readonly Value[] = [],
): Promise<readonly Row[]> => {
  const transactions = host.store.transactions as Transactions<unknown, Executor>
  return await transactions.run(async (tx) => (await transactions.executor(tx).run(sql, params)) ?? [])
}

/** The quoted name of one of our tables, as the store's own statements spell it. */
export const tableName = (host: OutboxHost, table: string): string | null => {
  const pattern = new RegExp(`CREATE TABLE (?:IF NOT EXISTS )?(\\S*${table}["\`]) `)
  return pattern.exec(host.store.schema.sql())?.[1] ?? null
}

export interface DeclaredIndex {
  /** Without quotes; behind the name of its table where only the two together are unique. */
  readonly name: string
  /** Where its name begins with it. */
  readonly table: string | null
  /** The name of its table, quoted as the store's own statements spell it. */
  readonly on: string
  /** The statement that makes it anew. */
  readonly make: string
}

const STATEMENTS = /CREATE (?:UNIQUE )?INDEX (?:IF NOT EXISTS )?"([^"]+)" ON (\S+)[^;]*;/g
/** MySQL has them in the statement that makes the table, which does nothing where the table is. */
const TABLES = /CREATE TABLE IF NOT EXISTS `([^`]+)` \(\n([\s\S]*?)\n\)/g
const KEYS = /^ *((?:UNIQUE )?KEY (\w+) \(.*\)),?$/gm

/** The indexes that the store makes, beside the primary keys. */
export const declaredIndexes = (host: OutboxHost): readonly DeclaredIndex[] => {
  const sql = host.store.schema.sql()
  const byStatement = [...sql.matchAll(STATEMENTS)].map(([make, name, on]) => ({
    name: name as string,
    table: null,
    on: on as string,
    make,
  }))
  const byTable = [...sql.matchAll(TABLES)].flatMap(([, table = '', body = '']) =>
    [...body.matchAll(KEYS)].map(([, key, name]) => ({
      name: `${table}.${name}`,
      table,
      on: `\`${table}\``,
      make: `ALTER TABLE \`${table}\` ADD ${key};`,
    })),
  )
  return [...byStatement, ...byTable]
}
