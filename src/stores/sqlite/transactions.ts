/**
 * Transactions of the application on SQLite. Each waits for its turn at the file's mutex, begins with the
 * write lock (a later upgrade would fail at once, whatever the timeout), and ends with a COMMIT whose answer
 * is checked.
 */
import { ERROR_CODES, TransactionError } from '../../core/errors.ts'
import type { OpenTransaction, Transactions } from '../../core/spi/index.ts'
import type { SqlExecutor, SqlRow, SqlValue } from '../sql/sql-executor.ts'
import {
  commitRefused,
  commitUnknown,
  endScope,
  nestedStillOpen,
  notInTransaction,
  notNestable,
  runTransaction,
} from '../sql/transaction-scope.ts'
import { connectionOf, fileOf, type SqliteConnection } from './connection.ts'
import type { SqliteDatabase } from './database.ts'
import { type DriverHandle, driverOf } from './drivers.ts'
import { isBusy, sqliteCode, storeErrorOf } from './errors.ts'
import { BLOCKING_BUDGET_MS } from './open-database.ts'
import { handleOf } from './sqlite-handle.ts'
import {
  checkScope,
  guardHandle,
  isLost,
  nestedScope,
  newScope,
  type Scope,
  useScope,
} from './transaction-scope.ts'
import { LockedError } from './turns.ts'
import type { Release } from './write-mutex.ts'

type Use = (call: () => readonly SqlRow[]) => readonly SqlRow[]

/** Synchronous underneath, so both forms are the same call. `use` makes it, or refuses it. */
const executorOf = (connection: SqliteConnection, use: Use, place: string): SqlExecutor => {
  const rowsOf = (sql: string, params: readonly SqlValue[]): readonly SqlRow[] => {
    try {
      const rows = connection.rows(sql, params)
      if (rows.length === 0) return []
      const names = connection.columns(sql)
      return rows.map((row) => Object.fromEntries(names.map((name, i) => [name, row[i]])))
    } catch (error) {
      throw storeErrorOf(error, place)
    }
  }
  const runSync = (sql: string, params: readonly SqlValue[]): readonly SqlRow[] =>
    use(() => rowsOf(sql, params))
  return { runSync, run: async (sql, params) => runSync(sql, params) }
}

const notUndone = (): TransactionError =>
  new TransactionError(
    ERROR_CODES.commitRolledBack,
    'A nested transaction failed and SQLite could not undo it alone, so everything was rolled back. Finish or close iterators of your own handle before a nested transaction ends.',
  )

/** What transactions need of a database; a client has it without a store. */
export type TransactionHome = Pick<
  SqliteDatabase,
  'place' | 'isOpen' | 'application' | 'file' | 'acquire' | 'retrying'
> & { readonly options: Pick<SqliteDatabase['options'], 'source' | 'driver' | 'onStatement'> }

interface Known {
  readonly scope: Scope
  readonly depth: number
}

export class SqliteTransactions<Tx extends object> implements Transactions<Tx, SqlExecutor> {
  readonly #database: TransactionHome
  /** Our own handles; an application's raw handle is not among them. */
  readonly #known = new WeakMap<object, Known>()
  /** Wrappers of handles that the application passed in itself. */
  readonly #foreign = new WeakMap<object, SqliteConnection>()
  #open: Scope | null = null
  /** A transaction of ours is still on the connection, because its ROLLBACK was refused. */
  #isLeft = false

  constructor(database: TransactionHome) {
    this.#database = database
  }

  get library(): string {
    const { driver, source } = this.#database.options
    if (this.#database.isOpen) return this.#database.application.driver
    return driver ?? ('database' in source ? (driverOf(source.database) ?? 'sqlite') : 'sqlite')
  }

  /** The handle we hand out refuses savepoints, but the application still has its own. */
  get savepointsUnseen(): boolean {
    return 'database' in this.#database.options.source
  }

  run<T>(fn: (tx: Tx) => Promise<T>): Promise<T> {
    return runTransaction(this, fn)
  }

  async begin(): Promise<OpenTransaction<Tx>> {
    const database = this.#database
    const connection = database.application
    const release = await database.acquire()
    try {
      await database.retrying(() => this.#beginImmediate(connection))
    } catch (error) {
      release()
      throw error
    }
    const scope = newScope(() => connection.inTransaction)
    this.#open = scope
    const tx = this.#handle(scope, 0)
    return {
      tx,
      commit: () => this.#commit(connection, scope, release),
      rollback: () => this.#rollback(connection, scope, release),
    }
  }

  async nested<T>(tx: Tx, fn: (tx: Tx) => Promise<T>): Promise<T> {
    const known = this.#known.get(tx)
    if (known === undefined) throw notNestable()
    const { scope, depth } = known
    checkScope(scope)
    const connection = this.#database.application
    const name = `ph_${depth + 1}`
    connection.exec(`SAVEPOINT ${name}`)
    const child = nestedScope(scope)
    scope.child = child
    try {
      const result = await fn(this.#handle(child, depth + 1))
      checkScope(child)
      child.shared.iterators.close(child)
      connection.exec(`RELEASE ${name}`)
      return result
    } catch (error) {
      // When the outer one is over the transaction is somebody else's by now.
      if (!child.ended && !isLost(child)) this.#undo(connection, child, name)
      throw error
    } finally {
      child.ended = true
      scope.child = null
    }
  }

  /** Its failure must not hide what led to it; but then nothing of the transaction can be kept. */
  #undo(connection: SqliteConnection, child: Scope, name: string): void {
    child.shared.iterators.close(child)
    try {
      connection.exec(`ROLLBACK TO ${name}`)
      connection.exec(`RELEASE ${name}`)
    } catch {
      child.shared.isSpoilt = true
    }
  }

  executor(tx: Tx): SqlExecutor {
    const place = this.#database.place
    const known = this.#known.get(tx)
    if (known !== undefined) {
      checkScope(known.scope)
      return executorOf(this.#database.application, (call) => useScope(known.scope, call), place)
    }
    const connection = this.#foreignConnection(tx)
    const guard = (): void => this.#checkForeign(tx, connection)
    guard()
    const use: Use = (call) => {
      guard()
      return call()
    }
    return executorOf(connection, use, place)
  }

  inTransaction(tx: Tx): boolean | undefined {
    const known = this.#known.get(tx)
    if (known !== undefined) return !known.scope.ended && !isLost(known.scope)
    if (typeof tx !== 'object' || tx === null || driverOf(tx) === null) return false
    const connection = this.#foreignConnection(tx)
    const isOurs = this.#open !== null || this.#isLeft
    return connection.inTransaction && !(isOurs && this.#isApplication(tx))
  }

  /** The application's handle waits as long as its owner set; for our BEGIN that would stop the event loop. */
  #beginImmediate(connection: SqliteConnection): void {
    if (this.#isLeft) this.#rollBackWhatIsLeft(connection)
    if (connection.inTransaction) {
      // Somebody began by hand on the same connection. That ends, or the wait does.
      throw new LockedError('a transaction was begun by hand')
    }
    if (!('database' in this.#database.options.source)) {
      connection.exec('BEGIN IMMEDIATE')
      return
    }
    const [[timeout] = []] = connection.rows('PRAGMA busy_timeout')
    connection.exec(`PRAGMA busy_timeout = ${BLOCKING_BUDGET_MS}`)
    try {
      connection.exec('BEGIN IMMEDIATE')
    } finally {
      connection.exec(`PRAGMA busy_timeout = ${Number(timeout ?? 0)}`)
    }
  }

  #handle(scope: Scope, depth: number): Tx {
    const { source } = this.#database.options
    const inner = 'database' in source ? source.database : handleOf(this.#database.application)
    const tx = guardHandle(inner, scope) as Tx
    this.#known.set(tx, { scope, depth })
    return tx
  }

  async #commit(connection: SqliteConnection, scope: Scope, release: Release): Promise<void> {
    if (scope.ended) checkScope(scope)
    const pending = scope.child
    this.#end(scope)
    try {
      if (pending !== null) throw nestedStillOpen()
      if (scope.shared.isSpoilt) throw notUndone()
      if (isLost(scope)) {
        throw new TransactionError(
          ERROR_CODES.commitRolledBack,
          'SQLite had rolled the transaction back because of an earlier error, so nothing was committed.',
        )
      }
      scope.shared.iterators.close()
      await this.#database.retrying(() => this.#commitNow(connection))
    } catch (error) {
      try {
        this.#abandon(connection, scope)
      } catch {
        // Why it was not committed says more than why it is still there.
      }
      throw error
    } finally {
      release()
    }
  }

  #commitNow(connection: SqliteConnection): void {
    try {
      connection.exec('COMMIT')
    } catch (cause) {
      if (isBusy(cause)) throw cause
      if (sqliteCode(cause) === 'IOERR') throw commitUnknown('The disk failed', cause)
      throw commitRefused('SQLite', cause)
    }
  }

  async #rollback(connection: SqliteConnection, scope: Scope, release: Release): Promise<void> {
    if (scope.ended) return
    this.#end(scope)
    try {
      this.#abandon(connection, scope)
    } finally {
      release()
    }
  }

  /** Whatever is still open is rolled back, now or as soon as the connection lets us. */
  #abandon(connection: SqliteConnection, scope: Scope): void {
    scope.shared.iterators.close()
    // Whoever began another one meanwhile ends it too.
    if (isLost(scope)) return
    this.#isLeft = true
    connection.exec('ROLLBACK')
    this.#isLeft = false
  }

  /** What refused the ROLLBACK, an iterator on the application's own handle, ends at some time. */
  #rollBackWhatIsLeft(connection: SqliteConnection): void {
    try {
      if (connection.inTransaction) connection.exec('ROLLBACK')
    } catch {
      throw new LockedError('an earlier transaction could not be rolled back yet')
    }
    this.#isLeft = false
  }

  #end(scope: Scope): void {
    endScope(scope)
    this.#open = null
  }

  #isApplication(tx: object): boolean {
    const { source } = this.#database.options
    return 'database' in source && source.database === tx
  }

  #foreignConnection(tx: object): SqliteConnection {
    const found = typeof tx === 'object' && tx !== null ? (this.#foreign.get(tx) ?? this.#adopt(tx)) : null
    if (found !== null) return found
    throw new TransactionError(
      ERROR_CODES.noTransaction,
      'This is not a transaction of SQLite. Pass the handle that outbox.transaction gives you, or your own database inside a transaction.',
    )
  }

  #adopt(tx: object): SqliteConnection | null {
    const driver = driverOf(tx)
    if (driver === null) return null
    const connection = connectionOf(driver, tx as DriverHandle, this.#database.options.onStatement)
    if (!this.#isApplication(tx) && (!this.#database.isOpen || !this.#isSameFile(connection))) return null
    this.#foreign.set(tx, connection)
    return connection
  }

  /** A handle of another database would store the event where nobody looks for it. */
  #isSameFile(connection: SqliteConnection): boolean {
    const file = fileOf(connection)
    return file !== '' && file === this.#database.file
  }

  /** The raw handle while our transaction is open on it would smuggle the event into somebody else's transaction. */
  #checkForeign(tx: object, connection: SqliteConnection): void {
    if (this.#open !== null && this.#isApplication(tx)) {
      throw new TransactionError(
        ERROR_CODES.noTransaction,
        'A transaction of outbox.transaction is open on this database. Pass the handle that its function got.',
      )
    }
    if (this.#isLeft && this.#isApplication(tx)) {
      throw new TransactionError(
        ERROR_CODES.noTransaction,
        'What is left of an earlier outbox.transaction could not be rolled back and may still be open on this database, so an event would go with it. End the iterators that were begun on the database itself; the next outbox.transaction rolls it back.',
      )
    }
    if (!connection.inTransaction) throw notInTransaction('The database')
  }
}
