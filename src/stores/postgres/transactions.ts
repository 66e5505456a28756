/** The application's transactions on connections of its pool, and those that it has begun itself. */
import { ERROR_CODES, TransactionError } from '../../core/errors.ts'
import type { OpenTransaction, Transactions } from '../../core/spi/index.ts'
import type { SqlExecutor } from '../sql/sql-executor.ts'
import {
  checkScope,
  endScope,
  nestedStillOpen,
  newScope,
  notInTransaction,
  notNestable,
  runTransaction,
  type Scope,
} from '../sql/transaction-scope.ts'
import { type PostgresConnection, RAW_TYPES } from './driver.ts'
import { storeErrorOf } from './errors.ts'
import { OpenConnection, rowsOf, type TransactionHome } from './open-connection.ts'
import { guardHandle } from './transaction-scope.ts'

interface Known {
  readonly scope: Scope
  readonly depth: number
  readonly open: OpenConnection
}

const isConnection = (handle: unknown): handle is PostgresConnection => {
  const members = handle as Partial<Record<string, unknown>> | null
  return typeof members === 'object' && members !== null && typeof members.query === 'function'
}

/** A pool answers each query on whatever connection is free, so nothing on it is in a transaction. */
const isPool = (handle: object): boolean =>
  typeof (handle as Partial<Record<string, unknown>>).totalCount === 'number'

export class PostgresTransactions<Tx extends object> implements Transactions<Tx, SqlExecutor> {
  readonly library = 'pg'
  readonly #database: TransactionHome
  /** Our own handles; an application's client is not among them. */
  readonly #known = new WeakMap<object, Known>()

  constructor(database: TransactionHome) {
    this.#database = database
  }

  run<T>(fn: (tx: Tx) => Promise<T>): Promise<T> {
    return runTransaction(this, fn)
  }

  async begin(): Promise<OpenTransaction<Tx>> {
    const open = await OpenConnection.of(this.#database)
    try {
      await open.begin()
    } catch (error) {
      open.release()
      throw error
    }
    const scope = newScope()
    return {
      tx: this.#handle(open, scope, 0),
      commit: () => this.#commit(open, scope),
      rollback: () => this.#rollback(open, scope),
    }
  }

  async nested<T>(tx: Tx, fn: (tx: Tx) => Promise<T>): Promise<T> {
    const known = this.#known.get(tx)
    if (known === undefined) throw notNestable()
    const { scope, depth, open } = known
    checkScope(scope)
    const child = newScope()
    scope.child = child
    const name = `posthaste_${depth + 1}`
    let isBegun = false
    try {
      // What was published before is not to be undone with the savepoint.
      const settled = open.settled()
      if (settled !== null) await settled
      checkScope(child)
      await open.control(`SAVEPOINT ${name}`)
      isBegun = true
      const result = await fn(this.#handle(open, child, depth + 1))
      await open.settled()
      checkScope(child)
      await open.control(`RELEASE SAVEPOINT ${name}`)
      return result
    } catch (error) {
      // When the outer one is over its connection is somebody else's by now.
      const isOpen = isBegun && !child.ended
      // What is sent from here on would be behind the savepoint, and part of the outer one.
      child.ended = true
      if (isOpen) await open.undo(name)
      throw error
    } finally {
      child.ended = true
      scope.child = null
    }
  }

  executor(tx: Tx): SqlExecutor {
    const known = this.#known.get(tx)
    if (known !== undefined) {
      const guard = (): void => checkScope(known.scope)
      guard()
      return known.open.executor(guard)
    }
    return this.#foreignExecutor(this.#foreign(tx))
  }

  inTransaction(tx: Tx): boolean | undefined {
    const known = this.#known.get(tx)
    if (known !== undefined) return !known.scope.ended
    if (!isConnection(tx) || isPool(tx)) return false
    const status = tx.getTransactionStatus?.()
    return status === undefined ? undefined : status === 'T' || status === 'E'
  }

  /** Of another's transaction nobody knows when it ends, so statements are sent at once, in front of whatever comes next. */
  #foreignExecutor(connection: PostgresConnection): SqlExecutor {
    const guard = (): void => this.#checkForeign(connection)
    guard()
    // What is on its way may be a ROLLBACK, and the status is that of before.
    const isDoubtful = connection.readyForQuery === false
    const run: SqlExecutor['run'] = async (sql, params) => {
      guard()
      this.#database.options.onStatement?.(sql)
      try {
        // Nobody knows what is between the application's own connection and the server, so nothing is prepared.
        return rowsOf(await connection.query({ text: sql, values: params, types: RAW_TYPES }))
      } catch (error) {
        this.#database.losesStatements(error)
        throw storeErrorOf(error, this.#database.place)
      }
    }
    return { run, isDoubtful }
  }

  #handle(open: OpenConnection, scope: Scope, depth: number): Tx {
    const tx = guardHandle(open.connection, scope, open) as unknown as Tx
    this.#known.set(tx, { scope, depth, open })
    return tx
  }

  async #commit(open: OpenConnection, scope: Scope): Promise<void> {
    if (scope.ended) checkScope(scope)
    const isNestedOpen = scope.child !== null
    endScope(scope)
    try {
      if (isNestedOpen) {
        await open.rollback()
        throw nestedStillOpen()
      }
      await open.commit()
    } finally {
      open.release()
    }
  }

  async #rollback(open: OpenConnection, scope: Scope): Promise<void> {
    if (scope.ended) return
    endScope(scope)
    await open.rollback()
    open.release()
  }

  #foreign(tx: object): PostgresConnection {
    if (isConnection(tx) && !isPool(tx)) return tx
    throw new TransactionError(
      ERROR_CODES.noTransaction,
      'This is not a connection of pg in a transaction. Pass the handle that outbox.transaction gives you, or your own client between BEGIN and COMMIT; a pool is neither.',
    )
  }

  #checkForeign(connection: PostgresConnection): void {
    const status = connection.getTransactionStatus?.()
    if (status === undefined || status === 'T') return
    if (status !== 'E') throw notInTransaction('This client')
    throw new TransactionError(
      ERROR_CODES.noTransaction,
      'The transaction of this client has failed because of an earlier error; roll it back.',
    )
  }
}
