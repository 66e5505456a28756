/**
 * The application's transactions on connections of its pool. A COMMIT without a transaction succeeds on MySQL, so
 * its answer alone does not tell what happened: the scope remembers whether the server had ended the transaction
 * before. No answer means that nobody knows.
 */
import { ERROR_CODES, TransactionError } from '../../core/errors.ts'
import type { OpenTransaction, Transactions } from '../../core/spi/index.ts'
import type { SqlExecutor, SqlRow } from '../sql/sql-executor.ts'
import {
  commitRefused,
  commitUnknown,
  endScope,
  nestedStillOpen,
  notInTransaction,
  notNestable,
  runTransaction,
} from '../sql/transaction-scope.ts'
import type { MysqlDatabase } from './database.ts'
import { carriesUnicode, isHeader, type MysqlConnection, saysInTransaction } from './driver.ts'
import { refusesCommit, storeErrorOf } from './errors.ts'
import { portableLiteral, textOf } from './script.ts'
import {
  checkScope,
  goneError,
  guardHandle,
  newScope,
  type Open,
  type Scope,
  watched,
} from './transaction-scope.ts'

interface Known {
  readonly scope: Scope
  readonly depth: number
}

const isConnection = (handle: unknown): handle is MysqlConnection => {
  const members = handle as Partial<Record<string, unknown>> | null
  return (
    typeof members === 'object' &&
    members !== null &&
    typeof members.query === 'function' &&
    typeof members.beginTransaction === 'function'
  )
}

/** Rows by name; of a statement without rows, how many it wrote. */
const rowsOf = (result: unknown): readonly SqlRow[] =>
  isHeader(result) ? [{ affectedRows: result.affectedRows }] : (result as readonly SqlRow[])

/** What transactions need of a database; a client has it without a store. */
export type TransactionHome = Pick<MysqlDatabase, 'place' | 'application'> & {
  readonly options: Pick<MysqlDatabase['options'], 'onStatement' | 'queryTimeoutMs'>
}

export class MysqlTransactions<Tx extends object> implements Transactions<Tx, SqlExecutor> {
  readonly library = 'mysql2'
  readonly #database: TransactionHome
  /** Our own handles; an application's connection is not among them. */
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
      await this.#control(open, 'START TRANSACTION')
    } catch (error) {
      this.#release(open)
      throw storeErrorOf(error, this.#database.place)
    }
    const scope = newScope(open)
    return {
      tx: this.#handle(scope, 0),
      commit: () => this.#commit(scope),
      rollback: () => this.#rollback(scope),
    }
  }

  async nested<T>(tx: Tx, fn: (tx: Tx) => Promise<T>): Promise<T> {
    const known = this.#known.get(tx)
    if (known === undefined) throw notNestable()
    const { scope, depth } = known
    const { open } = scope
    checkScope(scope)
    const child = newScope(open)
    scope.child = child
    const name = `posthaste_${depth + 1}`
    try {
      await this.#control(open, `SAVEPOINT ${name}`)
      try {
        const result = await fn(this.#handle(child, depth + 1))
        checkScope(child)
        await this.#control(open, `RELEASE SAVEPOINT ${name}`)
        return result
      } catch (error) {
        // When the outer one is over its connection is somebody else's by now.
        const isOpen = !child.ended && !open.broken && open.gone === null
        // What is sent from here on would be behind the savepoint, and part of the outer one.
        child.ended = true
        if (isOpen) await this.#undo(open, name)
        throw error
      }
    } catch (error) {
      throw storeErrorOf(error, this.#database.place)
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
      const { queryTimeoutMs } = this.#database.options
      return { isGuarded: true, ...this.#executorOn(known.scope.open, guard, queryTimeoutMs) }
    }
    if (!isConnection(tx)) {
      throw new TransactionError(
        ERROR_CODES.noTransaction,
        'This is not a connection of mysql2/promise in a transaction. Pass the handle that outbox.transaction gives you, or your own connection after beginTransaction; a pool is neither.',
      )
    }
    // Whether it is in a transaction is known with the first answer, and then not in one means never in one.
    const open: Open = { connection: tx, pool: null, broken: false, gone: null }
    return this.#executorOn(open, () => undefined, null)
  }

  inTransaction(tx: Tx): boolean | undefined {
    const known = this.#known.get(tx)
    if (known !== undefined) return !known.scope.ended && known.scope.open.gone === null
    return isConnection(tx) ? undefined : false
  }

  /**
   * On a connection of our own an answer that does not come within `timeout` costs the connection; another's is
   * not ours to end.
   */
  #executorOn(open: Open, guard: () => void, timeout: number | null): SqlExecutor {
    const { place, options } = this.#database
    const write = portableLiteral(carriesUnicode(open.connection))
    return {
      run: async (sql, params) => {
        guard()
        options.onStatement?.(sql)
        try {
          const [result] = await watched(
            open,
            open.connection.query({
              sql: textOf({ sql, params }, write),
              rowsAsArray: false,
              ...(timeout === null ? {} : { timeout }),
            }),
          )
          if (isHeader(result) && !saysInTransaction(result)) throw notInTransaction('The connection')
          return rowsOf(result)
        } catch (error) {
          throw storeErrorOf(error, place)
        }
      },
    }
  }

  /** Its failure must not hide what led to it; but then nothing of the transaction can be kept. */
  async #undo(open: Open, savepoint: string): Promise<void> {
    try {
      await this.#control(open, `ROLLBACK TO SAVEPOINT ${savepoint}`)
    } catch {
      open.gone ??= 'rolledBack'
    }
  }

  async #connect(): Promise<Open> {
    const database = this.#database
    try {
      const pool = database.application
      return { connection: await pool.borrow(), pool, broken: false, gone: null }
    } catch (error) {
      throw storeErrorOf(error, database.place)
    }
  }

  async #control(open: Open, sql: string): Promise<void> {
    const { options } = this.#database
    options.onStatement?.(sql)
    const sent = open.connection.query({ sql, timeout: options.queryTimeoutMs })
    await watched(open, sql === 'COMMIT' || sql === 'ROLLBACK' ? sent.then(() => null) : sent)
  }

  #handle(scope: Scope, depth: number): Tx {
    const tx = guardHandle(scope.open.connection, scope) as unknown as Tx
    this.#known.set(tx, { scope, depth })
    return tx
  }

  async #commit(scope: Scope): Promise<void> {
    if (scope.ended) checkScope(scope)
    const { open, child } = scope
    endScope(scope)
    try {
      const gone = goneError(open)
      if (gone !== null || child !== null) {
        await this.#abandon(open)
        throw gone ?? nestedStillOpen()
      }
      await this.#commitNow(open)
    } finally {
      this.#release(open)
    }
  }

  async #commitNow(open: Open): Promise<void> {
    try {
      await this.#control(open, 'COMMIT')
    } catch (cause) {
      open.broken = true
      if (refusesCommit(cause)) throw commitRefused('The server', cause)
      throw commitUnknown('The connection was lost', cause)
    }
  }

  async #rollback(scope: Scope): Promise<void> {
    if (scope.ended) return
    endScope(scope)
    await this.#abandon(scope.open)
    this.#release(scope.open)
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

  #release({ connection, pool, broken }: Open): void {
    pool?.giveBack(connection, { isBroken: broken })
  }
}
