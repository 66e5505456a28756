/**
 * `posthaste/clients/pg`: publish in transactions of node-postgres, on a pool of the application's. The PostgreSQL store
 * given a pool does this by itself; this is for a store that has connections of its own, and for `outbox.via`.
 */
import { serverName } from '../core/model/index.ts'
import type { Transactions } from '../core/spi/index.ts'
import type { ClientOf, PostgresConnection, PostgresPool } from '../stores/postgres/driver.ts'
import { settingsOf } from '../stores/postgres/pools.ts'
import { PostgresTransactions } from '../stores/postgres/transactions.ts'
import type { SqlExecutor } from '../stores/sql/sql-executor.ts'
import { requireMethods } from './shared/handles.ts'

/** Transactions on clients of this pool. */
export const pgTransactions = <Pool extends PostgresPool<object>>(
  pool: Pool,
): Transactions<ClientOf<Pool>, SqlExecutor> => {
  requireMethods('a pool of pg', pool, ['connect', 'end'])
  return new PostgresTransactions<ClientOf<Pool> & object>({
    place: serverName('PostgreSQL', settingsOf({ pool })),
    options: { onStatement: null },
    transactionPool: pool as unknown as PostgresPool<PostgresConnection>,
    // Nobody knows what is between this pool and the server, and not every pooler carries names over.
    isPreparing: false,
    statementName: () => undefined,
    losesStatements: () => false,
    understandsFlush: false,
    inTime: (answer) => answer,
  })
}
