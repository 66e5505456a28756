/**
 * The store's access to the database: which connections there are, and how its own reads and writes wait
 * their turn.
 *
 *   file                 the store's connection on it, and one for the application's transactions
 *   application's handle the store's connection on the same file; transactions run on the handle
 *   memory               a single connection for everything, always under the mutex
 *
 * Every call into SQLite is synchronous and stops the event loop. So the store's connection hardly waits for
 * locks itself: it is told "busy" at once, and the wait happens here, asynchronously.
 */
import { existsSync, realpathSync } from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import { ERROR_CODES, StoreError } from '../../core/errors.ts'
import type { StoreContext } from '../../core/spi/index.ts'
import { connectionOf, fileOf, type SqliteConnection } from './connection.ts'
import {
  type DriverConstructor,
  type DriverHandle,
  driverOf,
  loadDriver,
  type SqliteDriver,
} from './drivers.ts'
import { isBusy, storeErrorOf } from './errors.ts'
import type { ResolvedSqliteOptions } from './options.ts'
import { mutexOfHandle, mutexOfPath, type Release, type WriteMutex } from './write-mutex.ts'

/** How long one call may stop the event loop while it waits for a lock. */
const BLOCKING_BUDGET_MS = 2
const LONGEST_PAUSE_MS = 40

interface OpenState {
  readonly context: StoreContext
  /** The store's own; in memory the only one. */
  readonly own: SqliteConnection
  /** What the application's transactions run on. */
  readonly application: SqliteConnection
  readonly mutex: WriteMutex
  readonly memory: boolean
  readonly close: () => void
}

const isMemory = (file: string): boolean =>
  file === ':memory:' || /^file:.*[?&]mode=memory/.test(file) || file === ''

/** Two spellings of one file must share a mutex. The file may not exist yet, its folder does. */
const realPath = (file: string): string => {
  const full = resolve(
    file.startsWith('file:') ? decodeURIComponent(file.slice(5).split('?')[0] ?? '') : file,
  )
  return existsSync(full) ? realpathSync(full) : join(realpathSync(dirname(full)), basename(full))
}

export class SqliteDatabase {
  readonly #options: ResolvedSqliteOptions
  #state: OpenState | null = null
  #opening: Promise<void> | null = null
  /** For messages: never more than the path. */
  readonly place: string

  constructor(options: ResolvedSqliteOptions) {
    this.#options = options
    this.place = 'file' in options.source ? `The database ${options.source.file}` : 'The database'
  }

  get options(): ResolvedSqliteOptions {
    return this.#options
  }

  get isOpen(): boolean {
    return this.#state !== null
  }

  get context(): StoreContext {
    return this.#opened().context
  }

  get application(): SqliteConnection {
    return this.#opened().application
  }

  /** Path of the file, empty for memory. */
  get file(): string {
    const { application, memory } = this.#opened()
    return memory ? '' : fileOf(application)
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
    // A write or transaction under way has the mutex and finishes first.
    const release = await state.mutex.acquire(this.#options.busyTimeoutMs, state.context.runtime)
    this.#state = null
    try {
      state.close()
    } finally {
      release?.()
    }
  }

  /** One snapshot for everything that `work` reads. */
  async read<T>(work: (connection: SqliteConnection) => T): Promise<T> {
    const state = this.#opened()
    if (!state.memory) return this.#retrying(() => this.#inTransaction(state.own, 'BEGIN', work))
    return this.#underMutex(() => this.#retrying(() => this.#inTransaction(state.own, 'BEGIN', work)))
  }

  /** All of `work` or nothing. It may run again after it met a lock, and is rolled back before that. */
  async write<T>(work: (connection: SqliteConnection) => T): Promise<T> {
    const { own } = this.#opened()
    return this.#underMutex(() => this.#retrying(() => this.#inTransaction(own, 'BEGIN IMMEDIATE', work)))
  }

  /** The turn to write, for a transaction of the application. */
  async acquire(): Promise<Release> {
    const { mutex, context } = this.#opened()
    const release = await mutex.acquire(this.#options.busyTimeoutMs, context.runtime)
    if (release !== null) return release
    throw new StoreError(
      ERROR_CODES.storeBusy,
      `${this.place} was busy with another transaction of this process for ${this.#options.busyTimeoutMs} ms. ` +
        'Keep transactions short, and do not wait inside one for a second one.',
      { transient: true },
    )
  }

  /** Tries again while somebody has the lock, with growing pauses that leave the event loop free. */
  async retrying<T>(attempt: () => T): Promise<T> {
    return this.#retrying(attempt)
  }

  async #retrying<T>(attempt: () => T): Promise<T> {
    const { runtime } = this.#opened().context
    const startedAt = runtime.monotonicNow()
    for (let pauseMs = 1; ; pauseMs = Math.min(LONGEST_PAUSE_MS, pauseMs * 2)) {
      try {
        return attempt()
      } catch (error) {
        const left = this.#options.busyTimeoutMs - (runtime.monotonicNow() - startedAt)
        if (!isBusy(error) || left <= 0) throw storeErrorOf(error, this.place)
        const jittered = pauseMs * (0.5 + runtime.random())
        await new Promise<void>((wake) => runtime.schedule(Math.min(left, jittered), wake))
      }
    }
  }

  async #underMutex<T>(work: () => Promise<T>): Promise<T> {
    const release = await this.acquire()
    try {
      return await work()
    } finally {
      release()
    }
  }

  #inTransaction<T>(
    connection: SqliteConnection,
    begin: string,
    work: (connection: SqliteConnection) => T,
  ): T {
    // In memory the application may have opened a transaction on the same connection by itself. Our rows must
    // not vanish with its rollback, so that counts as a lock that somebody else holds.
    if (this.#opened().memory && connection.inTransaction)
      throw Object.assign(new Error('locked'), { errcode: 5 })
    connection.exec(begin)
    try {
      const result = work(connection)
      connection.exec('COMMIT')
      return result
    } catch (error) {
      if (connection.inTransaction) connection.exec('ROLLBACK')
      throw error
    }
  }

  #opened(): OpenState {
    if (this.#state !== null) return this.#state
    throw new StoreError(ERROR_CODES.closed, 'The SQLite store is not open; start the outbox first.')
  }

  async #open(context: StoreContext): Promise<void> {
    try {
      const { source } = this.#options
      this.#state =
        'file' in source
          ? await this.#openFile(context, source.file)
          : await this.#openBeside(context, source.database as DriverHandle)
    } catch (error) {
      throw storeErrorOf(error, this.place)
    }
  }

  async #openFile(context: StoreContext, file: string): Promise<OpenState> {
    const { driver, open } = await loadDriver(this.#options.driver)
    if (isMemory(file)) {
      const only = connectionOf(driver, new open(':memory:'), this.#options.onStatement)
      const mutex = mutexOfHandle(only.handle)
      return { context, own: only, application: only, mutex, memory: true, close: () => only.close() }
    }
    const path = this.#checkedPath(file)
    const { mutex, dispose } = mutexOfPath(path)
    const opened: SqliteConnection[] = []
    const close = (): void => {
      for (const connection of opened) connection.close()
      dispose()
    }
    try {
      const own = await this.#connect(context, driver, open, file)
      opened.push(own)
      const application = await this.#connect(context, driver, open, file)
      opened.push(application)
      return { context, own, application, mutex, memory: false, close }
    } catch (error) {
      close()
      throw error
    }
  }

  async #openBeside(context: StoreContext, handle: DriverHandle): Promise<OpenState> {
    const driver = this.#options.driver ?? driverOf(handle)
    if (driver === null) {
      throw new StoreError(
        ERROR_CODES.unsupported,
        'The option database is not an open database of better-sqlite3, libsql or node:sqlite.',
      )
    }
    const application = connectionOf(driver, handle, this.#options.onStatement)
    const file = fileOf(application)
    if (file === '') {
      const mutex = mutexOfHandle(handle)
      return { context, own: application, application, mutex, memory: true, close: () => undefined }
    }
    this.#warnAboutDurability(context, application)
    const { mutex, dispose } = mutexOfPath(this.#checkedPath(file))
    try {
      // The class that made the handle is certainly there and certainly the right one.
      const open = handle.constructor as DriverConstructor
      const own = await this.#connect(context, driver, open, file)
      const close = (): void => {
        own.close()
        dispose()
      }
      return { context, own, application, mutex, memory: false, close }
    } catch (error) {
      dispose()
      throw error
    }
  }

  #checkedPath(file: string): string {
    const folder = dirname(resolve(file.startsWith('file:') ? (file.slice(5).split('?')[0] ?? '') : file))
    if (existsSync(folder)) return realPath(file)
    throw new StoreError(
      ERROR_CODES.storeUnavailable,
      `${this.place} cannot be opened: the folder ${folder} does not exist. Create it first.`,
    )
  }

  async #connect(
    context: StoreContext,
    driver: SqliteDriver,
    open: DriverConstructor,
    file: string,
  ): Promise<SqliteConnection> {
    const connection = connectionOf(driver, new open(file), this.#options.onStatement)
    try {
      connection.exec(`PRAGMA busy_timeout = ${BLOCKING_BUDGET_MS}`)
      // FULL also in WAL mode: with NORMAL a power cut takes back commits that were already dispatched.
      connection.exec('PRAGMA synchronous = FULL')
      connection.exec('PRAGMA foreign_keys = OFF')
      await this.#enterWal(context, connection)
      return connection
    } catch (error) {
      connection.close()
      throw error
    }
  }

  /** Changing the mode needs the file alone for a moment; another process may be doing the same. */
  async #enterWal(context: StoreContext, connection: SqliteConnection): Promise<void> {
    const { runtime } = context
    const startedAt = runtime.monotonicNow()
    for (;;) {
      try {
        const [[mode] = []] = connection.rows('PRAGMA journal_mode')
        if (mode !== 'wal') connection.rows('PRAGMA journal_mode = WAL')
        return
      } catch (error) {
        if (!isBusy(error) || runtime.monotonicNow() - startedAt >= this.#options.busyTimeoutMs) {
          // A file that cannot be written works for reading; the first write will say so.
          if (storeErrorOf(error, '') instanceof StoreError && !isBusy(error) && isReadOnly(error)) return
          throw error
        }
        await new Promise<void>((wake) => runtime.schedule(5 + 10 * runtime.random(), wake))
      }
    }
  }

  #warnAboutDurability({ logger }: StoreContext, application: SqliteConnection): void {
    const [[level] = []] = application.rows('PRAGMA synchronous')
    if (Number(level) >= 2) return
    logger.log(
      'warn',
      'your database runs with PRAGMA synchronous below FULL: a power cut can take back a commit whose events were already sent',
      { synchronous: Number(level) },
    )
  }
}

const isReadOnly = (error: unknown): boolean => {
  const translated = storeErrorOf(error, '')
  return translated instanceof StoreError && translated.code === ERROR_CODES.storeReadOnly
}
