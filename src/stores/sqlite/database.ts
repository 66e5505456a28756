/**
 * The store's access to the database: how its own reads and writes wait their turn.
 *
 * Every call into SQLite is synchronous and stops the event loop. So the store's connection hardly waits for
 * locks itself: it is told "busy" at once, and the wait happens here, asynchronously.
 */
import { ERROR_CODES, StoreError } from '../../core/errors.ts'
import type { StoreContext } from '../../core/spi/index.ts'
import type { SqlStatement } from '../sql/sql-executor.ts'
import type { SqliteConnection } from './connection.ts'
import { isBusy, storeErrorOf } from './errors.ts'
import { type OpenDatabase, openDatabase } from './open-database.ts'
import type { ResolvedSqliteOptions } from './options.ts'
import { LockedError, Turns } from './turns.ts'
import type { Release } from './write-mutex.ts'

interface OpenState extends OpenDatabase {
  readonly turns: Turns
}

export class SqliteDatabase {
  readonly options: ResolvedSqliteOptions
  /** For messages: never more than the path. */
  readonly place: string
  #state: OpenState | null = null
  #opening: Promise<void> | null = null

  constructor(options: ResolvedSqliteOptions) {
    this.options = options
    this.place = 'file' in options.source ? `The database ${options.source.file}` : 'The database'
  }

  get isOpen(): boolean {
    return this.#state !== null
  }

  get context(): StoreContext {
    return this.#opened().context
  }

  /** What the application's transactions run on. */
  get application(): SqliteConnection {
    return this.#opened().application
  }

  /** Path of the file, empty for memory. */
  get file(): string {
    return this.#opened().file
  }

  open(context: StoreContext): Promise<void> {
    if (this.#state !== null) return Promise.resolve()
    this.#opening ??= this.#open(context).finally(() => {
      this.#opening = null
    })
    return this.#opening
  }

  async close(): Promise<void> {
    await this.#opening?.catch(() => undefined)
    const state = this.#state
    if (state === null) return
    // A write or a transaction under way has the mutex and finishes first, or is cut off after the timeout.
    const release = await state.mutex.acquire(this.options.busyTimeoutMs, state.context.runtime)
    if (this.#state === state) {
      this.#state = null
      state.close()
    }
    release?.()
  }

  /** One snapshot for everything that `work` reads. */
  async read<T>(work: (connection: SqliteConnection) => T): Promise<T> {
    const { memory } = this.#opened()
    const reading = (): Promise<T> => this.retrying(() => this.#inTransaction('BEGIN', work))
    return memory ? this.#underMutex(reading) : reading()
  }

  /**
   * Whether others see what a client has written: then there was no transaction around it. Nobody is waited for: where the file
   * is locked somebody has a transaction.
   */
  isCommitted({ sql, params }: SqlStatement): boolean {
    // Closed meanwhile: nobody can tell.
    if (this.#state === null) return false
    const { own, memory } = this.#state
    try {
      // In memory there may be one connection for all, and what it sees may be in the transaction that is open on it.
      return own.rows(sql, params).length > 0 && !(memory && own.inTransaction)
    } catch (error) {
      if (isBusy(error)) return false
      throw storeErrorOf(error, this.place)
    }
  }

  /** All of `work` or nothing. It may run again after it met a lock, and is rolled back before that. */
  async write<T>(work: (connection: SqliteConnection) => T): Promise<T> {
    return this.#underMutex(() => this.retrying(() => this.#inTransaction('BEGIN IMMEDIATE', work)))
  }

  /** The turn to write; `write` and the application's transactions share it. */
  async acquire(): Promise<Release> {
    const { mutex, turns } = this.#opened()
    return await turns.acquire(mutex)
  }

  async retrying<T>(attempt: () => T): Promise<T> {
    return await this.#opened().turns.retrying(attempt)
  }

  async #underMutex<T>(work: () => Promise<T>): Promise<T> {
    const release = await this.acquire()
    try {
      return await work()
    } finally {
      release()
    }
  }

  /** Begins, works and ends without an await, so nothing else can come in between on this connection. */
  #inTransaction<T>(begin: string, work: (connection: SqliteConnection) => T): T {
    const { own, memory } = this.#opened()
    // In memory the application may have begun by hand on the same connection. Our rows must not vanish with
    // its rollback, so that counts as a lock that somebody else holds.
    if (memory && own.inTransaction) throw new LockedError('a transaction was begun by hand')
    own.exec(begin)
    try {
      const result = work(own)
      own.exec('COMMIT')
      return result
    } catch (error) {
      if (own.inTransaction) own.exec('ROLLBACK')
      throw error
    }
  }

  #opened(): OpenState {
    if (this.#state !== null) return this.#state
    throw new StoreError(ERROR_CODES.closed, 'The SQLite store is not open; start the outbox first.')
  }

  async #open(context: StoreContext): Promise<void> {
    try {
      const { busyTimeoutMs } = this.options
      const turns = new Turns({ place: this.place, busyTimeoutMs, runtime: context.runtime })
      this.#state = { ...(await openDatabase(context, this.options)), turns }
    } catch (error) {
      throw storeErrorOf(error, this.place)
    }
  }
}
