/**
 * `posthaste/clients/knex`: publish in transactions of Knex, on PostgreSQL, MySQL, MariaDB and SQLite. Knex says when a
 * transaction ends, so events of a transaction that the application opened go the hot way too.
 */
import type { Transactions } from '../core/spi/index.ts'
import type { SqlExecutor } from '../stores/sql/sql-executor.ts'
import { notInTransaction } from '../stores/sql/transaction-scope.ts'
import { type Answer, answerOf, withQuestionMarks } from './shared/answers.ts'
import { clientOf } from './shared/client.ts'
import { Doubts } from './shared/doubts.ts'
import { requireMethods } from './shared/handles.ts'
import type { PgClient } from './shared/pg-client.ts'

/** A `Knex.Transaction`, as far as it is used here. */
export interface KnexTransaction {
  readonly executionPromise: Promise<unknown>
  isCompleted(): boolean
}

/** A `Knex` instance; `Tx` is the type of its transactions. */
export interface KnexDatabase<Tx> {
  transaction<T>(container: (trx: Tx) => Promise<T>): Promise<T>
}

/** What is there beyond the public types above. */
interface Handle extends KnexTransaction, KnexDatabase<Handle> {
  readonly isTransaction?: boolean
  /** Of a savepoint: the transaction around it. */
  readonly parentTransaction?: Handle
  /** That of a transaction has one connection, and gives it at once. */
  readonly client: { acquireConnection(): Promise<PgClient> }
  raw(sql: string, bindings: readonly unknown[]): PromiseLike<unknown>
  on(event: 'query' | 'query-error', listener: (query: { readonly sql?: unknown }) => void): unknown
}

const isHandle = (handle: object): handle is Handle => {
  const members = handle as Partial<Handle>
  return typeof members.raw === 'function' && typeof members.transaction === 'function'
}

/** `{ rows }` of PostgreSQL, `[rows, fields]` or `[header, fields]` of MySQL, rows of SQLite. */
const rowsOf = (result: unknown): Answer => {
  const { rows } = (result ?? {}) as { readonly rows?: unknown }
  if (rows !== undefined) return answerOf(rows)
  const isPair =
    Array.isArray(result) && result.length === 2 && (Array.isArray(result[1]) || result[1] === undefined)
  return answerOf(isPair ? result[0] : result)
}

const saysEnded = (error: unknown): boolean =>
  error instanceof Error && /Transaction query already complete/.test(error.message)

/** Transactions that were rolled back: without a reason that resolves as a commit does. */
const undone = new WeakSet<Handle>()

/** Each has one listener, however many of its savepoints are watched. */
const outermost = new WeakSet<Handle>()

const outermostOf = (tx: Handle): Handle => {
  let found = tx
  while (found.parentTransaction !== undefined) found = found.parentTransaction
  return found
}

const watchedOutermostOf = (tx: Handle): Handle => {
  const found = outermostOf(tx)
  if (outermost.has(found)) return found
  outermost.add(found)
  found.on('query', ({ sql }) => {
    if (/^ROLLBACK;?$/i.test(String(sql))) undone.add(found)
  })
  return found
}

export const knexTransactions = <Tx extends KnexTransaction>(
  knex: KnexDatabase<Tx>,
): Transactions<Tx, SqlExecutor> => {
  requireMethods('an instance of Knex', knex, ['transaction', 'raw'])
  const doubts = new Doubts()
  const connections = new WeakMap<Tx, PgClient>()
  const handleOf = (tx: Tx): Handle => tx as unknown as Handle
  const join = async (tx: Tx): Promise<void> => {
    if (!connections.has(tx)) connections.set(tx, await handleOf(tx).client.acquireConnection())
  }
  const watched =
    <T>(fn: (tx: Tx) => Promise<T>): ((tx: Tx) => Promise<T>) =>
    async (tx) => {
      // Knex calls the function although BEGIN failed; what it rejects with is BEGIN's error all the same.
      if (handleOf(tx).isCompleted()) throw notInTransaction('This handle of knex')
      await join(tx)
      handleOf(tx).on('query-error', () => doubts.raise(outermostOf(handleOf(tx))))
      return await fn(tx)
    }
  return clientOf<Tx>({
    name: 'knex',
    doubts,
    saysEnded,
    // What fails on the handle of a savepoint concerns the whole transaction, and so does the reverse.
    subjectOf: (tx) => outermostOf(handleOf(tx)),
    isUnseen: (tx) => !connections.has(tx),
    join,
    run: (fn) => knex.transaction(watched(fn)),
    nested: async (tx, fn) => handleOf(tx).transaction((inner) => watched(fn)(inner as unknown as Tx)),
    async send(tx, sql, params) {
      const text = withQuestionMarks(sql, params)
      const answer = rowsOf(await handleOf(tx).raw(text.sql, text.params))
      await join(tx)
      return answer
    },
    pgClient: (tx) => connections.get(tx),
    inTransaction: (handle) => isHandle(handle) && handle.isTransaction === true && !handle.isCompleted(),
    observe(tx, ended) {
      const whole = watchedOutermostOf(handleOf(tx))
      whole.executionPromise.then(
        () => (undone.has(whole) ? ended.rolledBack() : ended.committed()),
        () => ended.rolledBack(),
      )
      return true
    },
  })
}
