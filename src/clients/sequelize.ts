/**
 * `posthaste/clients/sequelize`: publish in transactions of Sequelize 6. It tells when a transaction has committed, so
 * events of a transaction that the application opened go the hot way too.
 */
import type { Transactions } from '../core/spi/index.ts'
import type { SqlExecutor } from '../stores/sql/sql-executor.ts'
import { type Answer, answerOf } from './shared/answers.ts'
import { clientOf } from './shared/client.ts'
import { Doubts } from './shared/doubts.ts'
import { requireMethods } from './shared/handles.ts'
import { refuseOptions } from './shared/options.ts'
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
  addHook(
    name: 'beforeQuery',
    fn: (options: { readonly transaction?: Handle }, query: Query) => void,
  ): unknown
}

/** One statement, about to be sent. */
interface Query {
  run(sql: string, ...more: readonly unknown[]): Promise<unknown>
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

const outermostOf = (tx: Handle): Handle => {
  let found = tx
  while (found.parent) found = found.parent
  return found
}

/** A savepoint does not notice the end of what is around it. */
const inTransaction = (handle: object): boolean => {
  const { sequelize, afterCommit, finished, parent } = handle as Partial<Handle>
  if (typeof sequelize !== 'object' || typeof afterCommit !== 'function' || finished !== undefined)
    return false
  return parent ? inTransaction(parent) : true
}

const saysEnded = (error: unknown): boolean =>
  error instanceof Error && /^(?:commit|rollback) has been called on this transaction/.test(error.message)

/** Of all clients: a transaction is that of one instance. */
const doubts = new Doubts()
const committed = new WeakSet<Handle>()

const watched = new WeakSet<Runner>()

/** Follows the statements of transactions, once per instance: a hook without a name cannot be taken back. */
const watch = (runner: Runner): void => {
  if (watched.has(runner)) return
  watched.add(runner)
  runner.addHook('beforeQuery', ({ transaction }, query) => {
    if (!transaction) return
    const whole = outermostOf(transaction)
    const run = query.run.bind(query)
    query.run = async (sql, ...more) => {
      const answer = run(sql, ...more)
      doubts.follow(whole, answer)
      const result = await answer
      if (sql.startsWith('COMMIT')) committed.add(whole)
      return result
    }
  })
}

export const sequelizeTransactions = <Tx extends SequelizeTransaction>(
  sequelize: SequelizeDatabase<Tx>,
  options?: undefined,
): Transactions<Tx, SqlExecutor> => {
  requireMethods('an instance of Sequelize', sequelize, ['transaction', 'query', 'addHook'])
  refuseOptions('sequelizeTransactions', options, 'events of models are published with outbox.track(model)')
  const runner = sequelize as unknown as Runner
  const handleOf = (tx: Tx): Handle => tx as unknown as Handle
  watch(runner)
  return clientOf<Tx>({
    name: 'sequelize',
    doubts,
    saysEnded,
    subjectOf: (tx) => outermostOf(handleOf(tx)),
    run: (fn) => runner.transaction({}, fn),
    hasCommitted: (tx) => committed.has(handleOf(tx)),
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
      // It says so after a COMMIT that failed too; what is not there is not sent.
      outermostOf(handleOf(tx)).afterCommit(() => ended.committed())
      return true
    },
  })
}
