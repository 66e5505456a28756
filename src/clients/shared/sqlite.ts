/** The transactions of the SQLite store, on a database that the application opened itself. */
import { createSystemRuntime } from '../../core/runtime/system-runtime.ts'
import type { Transactions } from '../../core/spi/index.ts'
import type { SqlExecutor } from '../../stores/sql/sql-executor.ts'
import type { SqliteDriver } from '../../stores/sqlite/drivers.ts'
import { HandleHome } from '../../stores/sqlite/handle-home.ts'
import { SqliteTransactions } from '../../stores/sqlite/transactions.ts'

export const transactionsOn = <Database extends object>(
  driver: SqliteDriver,
  database: Database,
): Transactions<Database, SqlExecutor> =>
  new SqliteTransactions<Database>(new HandleHome(driver, database, createSystemRuntime()))
