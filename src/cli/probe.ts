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

/** Names of the indexes that the store makes, without quotes. */
export const indexNames = (host: OutboxHost): readonly string[] =>
  [...host.store.schema.sql().matchAll(/CREATE (?:UNIQUE )?INDEX (?:IF NOT EXISTS )?"([^"]+)"/g)].map(
    ([, name]) => name as string,
  )
