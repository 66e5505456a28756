/**
 * The store's access to the database: how its own reads and writes wait their turn.
 *
 * Every call into SQLite is synchronous and stops the event loop. So the store's connection hardly waits for
 * locks itself: it is told "busy" at once, and the wait happens here, asynchronously.
 */
import { ERROR_CODES, StoreError } from '../../core/errors.ts'
import type { Runtime, StoreContext } from '../../core/spi/index.ts'
import type { SqliteConnection } from './connection.ts'
import { isBusy, storeErrorOf } from './errors.ts'
import { type OpenDatabase, openDatabase } from './open-database.ts'
import type { ResolvedSqliteOptions } from './options.ts'
import type { Release } from './write-mutex.ts'

const LONGEST_PAUSE_MS = 40

/** How long one turn of the event loop may go from write to write before everything else gets a turn. */
const TURN_BUDGET_MS = 10

/** What waiting for a lock looks like to `retrying`, for locks that SQLite itself does not see. */
export class LockedError extends Error {
  readonly errcode = 5
}

export class SqliteDatabase {
  readonly options: ResolvedSqliteOptions
  /** For messages: never more than the path. */
  readonly place: string
  #state: OpenDatabase | null = null
  #opening: Promise<void> | null = null
  /** The turn of the event loop in which writes were granted; null as soon as it is over. */
  #turn: { readonly startedAt: number; readonly over: Promise<void> } | null = null

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

  /** All of `work` or nothing. It may run again after it met a lock, and is rolled back before that. */
  async write<T>(work: (connection: SqliteConnection) => T): Promise<T> {
    return this.#underMutex(() => this.retrying(() => this.#inTransaction('BEGIN IMMEDIATE', work)))
  }

  /** The turn to write; `write` and the application's transactions share it. */
  async acquire(): Promise<Release> {
    const { mutex, context } = this.#opened()
    const { busyTimeoutMs } = this.options
    const release = await mutex.acquire(busyTimeoutMs, context.runtime)
    if (release !== null) {
      await this.#leaveRoom(context.runtime)
      return release
    }
    throw new StoreError(
      ERROR_CODES.storeBusy,
      `${this.place} was busy with another transaction of this process for ${busyTimeoutMs} ms. ` +
        'Keep transactions short, and do not wait inside one for a second one.',
      { transient: true },
    )
  }

  /** Tries again while somebody has the lock, with growing pauses that leave the event loop free. */
  async retrying<T>(attempt: () => T): Promise<T> {
    const { runtime } = this.#opened().context
    const startedAt = runtime.monotonicNow()
    for (let pauseMs = 1; ; pauseMs = Math.min(LONGEST_PAUSE_MS, pauseMs * 2)) {
      try {
        return attempt()
      } catch (error) {
        const left = this.options.busyTimeoutMs - (runtime.monotonicNow() - startedAt)
        if (!isBusy(error) || left <= 0) throw storeErrorOf(error, this.place)
        const jittered = pauseMs * (0.5 + runtime.random())
        await new Promise<void>((wake) => runtime.schedule(Math.min(left, jittered), wake))
      }
    }
  }

  /**
   * A synchronous driver finishes everything in microtasks, so a loop of transactions would keep timers, and with
   * them the renewal of lanes, from ever running.
   */
  #leaveRoom(runtime: Runtime): Promise<void> | undefined {
    const now = runtime.monotonicNow()
    if (this.#turn !== null) return now - this.#turn.startedAt > TURN_BUDGET_MS ? this.#turn.over : undefined
    const over = runtime.yield().then(() => {
      this.#turn = null
    })
    this.#turn = { startedAt: now, over }
    return undefined
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

  #opened(): OpenDatabase {
    if (this.#state !== null) return this.#state
    throw new StoreError(ERROR_CODES.closed, 'The SQLite store is not open; start the outbox first.')
  }

  async #open(context: StoreContext): Promise<void> {
    try {
      this.#state = await openDatabase(context, this.options)
    } catch (error) {
      throw storeErrorOf(error, this.place)
    }
  }
}
