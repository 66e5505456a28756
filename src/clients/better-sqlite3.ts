/**
 * `posthaste/clients/better-sqlite3`: publish in transactions of better-sqlite3, on a database of the application's.
 * The SQLite store given that database does this by itself; this is for a store that has connections of its own, and
 * for `outbox.via`.
 */
import type { Transactions } from '../core/spi/index.ts'
import type { SqlExecutor } from '../stores/sql/sql-executor.ts'
import { transactionsOn } from './shared/sqlite.ts'

/** A `Database` of better-sqlite3, as far as it is used here. */
export interface BetterSqlite3Database {
  readonly inTransaction: boolean
  pragma(source: string): unknown
  exec(sql: string): unknown
  prepare(sql: string): unknown
}

/** Transactions on this database, one at a time; they wait for each other, and for the store of the same file. */
export const betterSqlite3Transactions = <Database extends BetterSqlite3Database>(
  database: Database,
): Transactions<Database, SqlExecutor> => transactionsOn('better-sqlite3', database)
