/**
 * `posthaste/clients/mysql2`: publish in transactions of mysql2, on a pool of the application's. The MySQL store given a
 * pool does this by itself; this is for a store that has connections of its own, and for `outbox.via`.
 */
import { ERROR_CODES, StoreError } from '../core/errors.ts'
import type { Transactions } from '../core/spi/index.ts'
import type { MysqlConnection, MysqlPool } from '../stores/mysql/driver.ts'
import { LendingPool } from '../stores/mysql/lending-pool.ts'
import { MysqlTransactions } from '../stores/mysql/transactions.ts'
import type { SqlExecutor } from '../stores/sql/sql-executor.ts'
import { requireMethods } from './shared/handles.ts'

/** As long as a store waits for an answer by default. */
const QUERY_TIMEOUT_MS = 30_000

/** Transactions on connections of this pool, which is one of `mysql2/promise`. */
export const mysql2Transactions = <Connection extends object>(
  pool: MysqlPool<Connection>,
): Transactions<Connection, SqlExecutor> => {
  requireMethods('a pool of mysql2/promise', pool, ['getConnection', 'execute'])
  if ('promise' in pool) {
    throw new StoreError(
      ERROR_CODES.unsupported,
      'This pool of mysql2 knows no promises: pass pool.promise().',
    )
  }
  return new MysqlTransactions<Connection>({
    place: 'MySQL',
    options: { onStatement: null, queryTimeoutMs: QUERY_TIMEOUT_MS },
    application: new LendingPool(pool as unknown as MysqlPool<MysqlConnection>, { isOurs: false }),
  })
}
