/**
 * `posthaste/clients/sequelize`: publish in transactions of Sequelize 6. It tells when a transaction has committed, so
 * events of a transaction that the application opened go the hot way too.
 */
import type { Transactions } from '../core/spi/index.ts'
import type { SqlExecutor } from '../stores/sql/sql-executor.ts'
import { type Answer, answerOf } from './shared/answers.ts'
import { clientOf } from './shared/client.ts'
import type { PgClient } from './shared/pg-client.ts'

/** A `Transaction` of Sequelize, as far as it is used here. */
export interface SequelizeTransaction {
  afterCommit(fn: (transaction: this) => void | Promise<void>): void
}

/** A `Sequelize` instance; `Tx` is the type of its transactions. */
export interface SequelizeDatabase<Tx> {
  transaction(options?: object): Promise<Tx>
}

interface Runner {
  transaction<T>(options: object, fn: (transaction: never) => Promise<T>): Promise<T>
  query(sql: string, options: object): Promise<unknown>
}

/** What is there beyond the public types above. */
interface Handle {
  readonly sequelize: Runner
  /** How it ended; undefined while it has not. */
  readonly finished?: string
  readonly connection?: PgClient
  /** Of a savepoint: the transaction around it. */
  readonly parent?: Handle | null
  afterCommit(fn: () => void): void
}

/** Sequelize wants `$1` on every database, and gives what is bound that way to the driver. */
const withDollars = (sql: string): string => {
  let n = 0
  return sql.replace(/\?/g, () => `$${++n}`)
}

/** `[rows, result]`; of an INSERT on MySQL the id and how many. */
const rowsOf = (result: unknown): Answer => {
  const [first, second] = Array.isArray(result) ? (result as unknown[]) : [result]
  return typeof second === 'number' ? [{ affectedRows: second }] : answerOf(first)
}

const inTransaction = (handle: object): boolean => {
  const { sequelize, afterCommit, finished } = handle as Partial<Handle>
  return typeof sequelize === 'object' && typeof afterCommit === 'function' && finished === undefined
}

export const sequelizeTransactions = <Tx extends SequelizeTransaction>(
  sequelize: SequelizeDatabase<Tx>,
): Transactions<Tx, SqlExecutor> => {
  const runner = sequelize as unknown as Runner
  const handleOf = (tx: Tx): Handle => tx as unknown as Handle
  return clientOf<Tx>({
    name: 'sequelize',
    run: (fn) => runner.transaction({}, fn),
    // Its own nested ones get the same name at the second level, and undoing the outer then undoes the inner alone.
    async send(tx, sql, params) {
      const options = {
        transaction: tx,
        raw: true,
        logging: false,
        ...(params.length > 0 ? { bind: params } : {}),
      }
      return rowsOf(await runner.query(withDollars(sql), options))
    },
    pgClient: (tx) => handleOf(tx).connection,
    inTransaction,
    observe(tx, ended) {
      let outermost = handleOf(tx)
      while (outermost.parent) outermost = outermost.parent
      // It says so after a COMMIT that failed too; what is not there is not sent.
      outermost.afterCommit(() => ended.committed())
      return true
    },
  })
}
