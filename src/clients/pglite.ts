/**
 * `posthaste/clients/pglite`: publish in transactions of PGlite. It has one session, so transactions wait for each other
 * and for the store. A COMMIT that PostgreSQL answers with ROLLBACK is an error of PGlite's own.
 */
import type { Transactions } from '../core/spi/index.ts'
import { AS_TEXT, type PgliteTransaction } from '../stores/postgres/pglite.ts'
import type { SqlExecutor } from '../stores/sql/sql-executor.ts'
import { answerOf } from './shared/answers.ts'
import { clientOf } from './shared/client.ts'
import { requireMethods } from './shared/handles.ts'

export type { PgliteTransaction }

/** A `PGlite`; `Tx` is the type of its transactions. */
export interface PgliteDatabase<Tx> {
  transaction<T>(callback: (tx: Tx) => Promise<T>): Promise<T>
}

/** PGlite itself can be closed as well, but not rolled back. */
const inTransaction = (handle: object): boolean => {
  const { query, rollback, closed } = handle as Partial<PgliteTransaction>
  return typeof query === 'function' && typeof rollback === 'function' && closed === false
}

const saysEnded = (error: unknown): boolean =>
  error instanceof Error && error.message === 'Transaction is closed'

export const pgliteTransactions = <Tx extends PgliteTransaction>(
  db: PgliteDatabase<Tx>,
): Transactions<Tx, SqlExecutor> => {
  requireMethods('a PGlite', db, ['transaction', 'query'])
  return clientOf<Tx>({
    name: 'pglite',
    saysEnded,
    run: (fn) => db.transaction(fn),
    send: async (tx, sql, params) =>
      answerOf((await tx.query(sql, [...params], { serializers: AS_TEXT })).rows),
    inTransaction,
  })
}
