/**
 * `posthaste/clients/libsql`: publish in transactions of the package libsql, on a database of the application's.
 * The SQLite store given that database does this by itself; this is for a store that has connections of its own, and
 * for `outbox.via`.
 */
import type { Transactions } from '../core/spi/index.ts'
import type { SqlExecutor } from '../stores/sql/sql-executor.ts'
import { transactionsOn } from './shared/sqlite.ts'

/** A `Database` of libsql, as far as it is used here. */
export interface LibsqlDatabase {
  readonly inTransaction: boolean
  pragma(source: string): unknown
  exec(sql: string): unknown
  prepare(sql: string): unknown
}

/** Transactions on this database, one at a time; they wait for each other, and for the store of the same file. */
export const libsqlTransactions = <Database extends LibsqlDatabase>(
  database: Database,
): Transactions<Database, SqlExecutor> => transactionsOn('libsql', database)
