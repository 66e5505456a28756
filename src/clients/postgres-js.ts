/**
 * `posthaste/clients/postgres-js`: publish in transactions of postgres.js. It rolls back by itself when a statement
 * failed, swallowed or not, so nobody has to ask.
 */
import type { Transactions } from '../core/spi/index.ts'
import { sqlState } from '../stores/postgres/errors.ts'
import type { SqlExecutor, SqlRow } from '../stores/sql/sql-executor.ts'
import { clientOf } from './shared/client.ts'
import { requireMethods } from './shared/handles.ts'

/** A `TransactionSql` of postgres.js, as far as it is used here. */
export interface PostgresJsTransaction {
  // biome-ignore lint/suspicious/noExplicitAny: what postgres.js makes of results is nobody's business here
  savepoint(cb: (sql: any) => any): Promise<any>
}

/** A `Sql` of postgres.js; `Tx` is the type of its transactions. */
export interface PostgresJsDatabase<Tx> {
  begin<T>(cb: (sql: Tx) => T | Promise<T>): Promise<unknown>
  begin<T>(options: string, cb: (sql: Tx) => T | Promise<T>): Promise<unknown>
}

/** What is there beyond the public types above. */
interface Handle {
  unsafe(sql: string, params: readonly unknown[], options: object): PromiseLike<readonly SqlRow[]>
  savepoint<T>(cb: (sql: never) => Promise<T>): Promise<T>
}

/** Whether the transaction is still open postgres.js does not say. */
const inTransaction = (handle: object): false | undefined => {
  const { unsafe, savepoint } = handle as Partial<Handle>
  return typeof unsafe === 'function' && typeof savepoint === 'function' ? undefined : false
}

/** Beside what PostgreSQL says there are its own errors, of which those of the connection alone have an address. */
const isOfConnection = (error: unknown): boolean => {
  const { address, syscall } = (error ?? {}) as { readonly address?: unknown; readonly syscall?: unknown }
  return address !== undefined || syscall !== undefined
}

export const postgresJsTransactions = <Tx extends PostgresJsTransaction>(
  sql: PostgresJsDatabase<Tx>,
): Transactions<Tx, SqlExecutor> => {
  requireMethods('a connection of postgres.js', sql, ['begin', 'unsafe'])
  const handleOf = (tx: Tx): Handle => tx as unknown as Handle
  return clientOf<Tx>({
    name: 'postgres.js',
    run: <T>(fn: (tx: Tx) => Promise<T>) => sql.begin(fn) as Promise<T>,
    nested: (tx, fn) => handleOf(tx).savepoint(fn),
    // Prepared, unless the application turned that off: otherwise it asks for the types every time.
    send: async (tx, text, params) => [...(await handleOf(tx).unsafe(text, params, { prepare: true }))],
    // Anything else that comes instead of a commit is what made it roll back, such as a value that it cannot send.
    refusesCommit: (error) => sqlState(error) === null && !isOfConnection(error),
    inTransaction,
  })
}
