/**
 * `posthaste/clients/node-sqlite`: publish in transactions of node:sqlite, of Node 22.16 or later, on a database of the application's.
 * The SQLite store given that database does this by itself; this is for a store that has connections of its own, and
 * for `outbox.via`.
 */
import type { Transactions } from '../core/spi/index.ts'
import type { SqlExecutor } from '../stores/sql/sql-executor.ts'
import { transactionsOn } from './shared/sqlite.ts'

/** A `DatabaseSync` of node:sqlite, as far as it is used here. */
export interface NodeSqliteDatabase {
  readonly isTransaction: boolean
  exec(sql: string): unknown
  prepare(sql: string): unknown
}

/** Transactions on this database, one at a time; they wait for each other, and for the store of the same file. */
export const nodeSqliteTransactions = <Database extends NodeSqliteDatabase>(
  database: Database,
): Transactions<Database, SqlExecutor> => transactionsOn('node:sqlite', database)
