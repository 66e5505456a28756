/**
 * The application's transactions on connections of its pool. What COMMIT answered decides what happened: a
 * transaction that failed is answered with ROLLBACK, without an error, and no answer means that nobody knows.
 */
import { ERROR_CODES, StoreError, TransactionError } from '../../core/errors.ts'
import type { OpenTransaction, Transactions } from '../../core/spi/index.ts'
import type { SqlExecutor, SqlRow, SqlValue } from '../sql/sql-executor.ts'
import {
  checkScope,
  commitRefused,
  commitUnknown,
  endScope,
  nestedStillOpen,
  newScope,
  notInTransaction,
  notNestable,
  runTransaction,
  type Scope,
} from '../sql/transaction-scope.ts'
import type { PostgresDatabase } from './database.ts'
import { type PostgresConnection, type PostgresResult, RAW_TYPES } from './driver.ts'
import { isBroken, storeErrorOf } from './errors.ts'
import { guardHandle } from './transaction-scope.ts'

interface Known {
  readonly scope: Scope
  readonly depth: number
  readonly open: Open
}

/** Statements of ours that wait for each other: a connection takes one at a time. Null: none is on its way. */
interface Line {
  last: Promise<void> | null
}

/** A connection with a transaction on it. */
interface Open {
  readonly line: Line
  readonly connection: PostgresConnection
  readonly onError: (error: Error) => void
  broken: boolean
}

const resultOf = (answer: PostgresResult | readonly PostgresResult[]): PostgresResult =>
  (Array.isArray(answer) ? answer.at(-1) : answer) as PostgresResult

const isConnection = (handle: unknown): handle is PostgresConnection => {
  const members = handle as Partial<Record<string, unknown>> | null
  return typeof members === 'object' && members !== null && typeof members.query === 'function'
}

/** A pool answers each query on whatever connection is free, so nothing on it is in a transaction. */
const isPool = (handle: object): boolean =>
  typeof (handle as Partial<Record<string, unknown>>).totalCount === 'number'

/** What transactions need of a database; a client has it without a store. */
export type TransactionHome = Pick<
  PostgresDatabase,
  'place' | 'transactionPool' | 'statementName' | 'losesStatements' | 'inTime'
> & { readonly options: Pick<PostgresDatabase['options'], 'onStatement'> }

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
    const open = await this.#connect()
    try {
      await this.#control(open, 'BEGIN')
    } catch (error) {
      this.#release(open)
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
    try {
      await this.#control(open, `SAVEPOINT ${name}`)
      const result = await fn(this.#handle(open, child, depth + 1))
      checkScope(child)
      await this.#control(open, `RELEASE SAVEPOINT ${name}`)
      return result
    } catch (error) {
      // When the outer one is over its connection is somebody else's by now.
      if (!child.ended) await this.#undo(open, name)
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
      const { connection, line } = known.open
      return this.#executorOn(connection, line, guard, known.open)
    }
    const connection = this.#foreign(tx)
    const guard = (): void => this.#checkForeign(connection)
    guard()
    // What is on its way may be a ROLLBACK, and the status is that of before.
    const isDoubtful = connection.readyForQuery === false
    return { ...this.#executorOn(connection, null, guard, null), isDoubtful }
  }

  inTransaction(tx: Tx): boolean | undefined {
    const known = this.#known.get(tx)
    if (known !== undefined) return !known.scope.ended
    if (!isConnection(tx) || isPool(tx)) return false
    const status = tx.getTransactionStatus?.()
    return status === undefined ? undefined : status === 'T' || status === 'E'
  }

  /**
   * In a transaction of ours statements go one after another, as the driver wants it, and its end waits for them. Of
   * another nobody knows when it ends, so they are sent at once, in front of whatever the application sends next.
   */
  #executorOn(
    connection: PostgresConnection,
    line: Line | null,
    guard: () => void,
    open: Open | null,
  ): SqlExecutor {
    const send = async (sql: string, params: readonly SqlValue[]): Promise<readonly SqlRow[]> => {
      guard()
      this.#database.options.onStatement?.(sql)
      // Of an application's own connection nobody knows what is between it and the server.
      const name = open === null ? undefined : this.#database.statementName(sql)
      try {
        const query = { text: sql, values: params, types: RAW_TYPES }
        const answer = connection.query(name === undefined ? query : { ...query, name })
        // On a connection of our own an answer that does not come costs the connection; another's is not ours to end.
        return resultOf(await (open === null ? answer : this.#database.inTime(answer)))
          .rows as readonly SqlRow[]
      } catch (error) {
        if (open !== null && isBroken(error)) open.broken = true
        // Too late for this transaction, but not for the next one.
        this.#database.losesStatements(error)
        throw storeErrorOf(error, this.#database.place)
      }
    }
    if (line === null) return { run: send }
    return {
      isGuarded: true,
      run: (sql, params) => {
        const sent = line.last === null ? send(sql, params) : line.last.then(() => send(sql, params))
        const over = (): void => {
          if (line.last === last) line.last = null
        }
        const last = sent.then(over, over)
        line.last = last
        return sent
      },
    }
  }

  /** If this fails the connection is broken, and the whole transaction with it. */
  async #undo(open: Open, savepoint: string): Promise<void> {
    try {
      await this.#control(open, `ROLLBACK TO SAVEPOINT ${savepoint}; RELEASE SAVEPOINT ${savepoint}`)
    } catch {
      open.broken = true
    }
  }

  async #connect(): Promise<Open> {
    const database = this.#database
    let connection: PostgresConnection
    try {
      connection = await database.transactionPool.connect()
    } catch (error) {
      throw storeErrorOf(error, database.place)
    }
    const open: Open = {
      connection,
      line: { last: null },
      broken: false,
      // Without a listener a connection that breaks between two statements would end the process.
      onError: () => {
        open.broken = true
      },
    }
    connection.on('error', open.onError)
    return open
  }

  async #control(open: Open, text: string): Promise<PostgresResult> {
    const { options, place } = this.#database
    options.onStatement?.(text)
    try {
      return resultOf(await this.#database.inTime(open.connection.query(text)))
    } catch (error) {
      if (isBroken(error)) open.broken = true
      throw storeErrorOf(error, place)
    }
  }

  #handle(open: Open, scope: Scope, depth: number): Tx {
    const tx = guardHandle(open.connection, scope) as unknown as Tx
    this.#known.set(tx, { scope, depth, open })
    return tx
  }

  async #commit(open: Open, scope: Scope): Promise<void> {
    if (scope.ended) checkScope(scope)
    const pending = scope.child
    endScope(scope)
    try {
      if (pending !== null) {
        await this.#abandon(open)
        throw nestedStillOpen()
      }
      await this.#commitNow(open)
    } finally {
      this.#release(open)
    }
  }

  async #commitNow(open: Open): Promise<void> {
    let command: string
    try {
      command = (await this.#control(open, 'COMMIT')).command
    } catch (cause) {
      if (!open.broken && cause instanceof StoreError && cause.detail.sqlState !== undefined) {
        throw commitRefused('PostgreSQL', cause)
      }
      open.broken = true
      throw commitUnknown('The connection was lost', cause)
    }
    if (command === 'COMMIT') return
    throw new TransactionError(
      ERROR_CODES.commitRolledBack,
      'PostgreSQL had given the transaction up because of an earlier error, so nothing was committed.',
    )
  }

  async #rollback(open: Open, scope: Scope): Promise<void> {
    if (scope.ended) return
    endScope(scope)
    await this.#abandon(open)
    this.#release(open)
  }

  /** If this fails the connection is thrown away, and the server rolls back what was open on it. */
  async #abandon(open: Open): Promise<void> {
    if (open.broken) return
    try {
      await this.#control(open, 'ROLLBACK')
    } catch {
      open.broken = true
    }
  }

  #release(open: Open): void {
    open.connection.removeListener('error', open.onError)
    open.connection.release?.(open.broken)
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
