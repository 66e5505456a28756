/** What transactions need of a database, made of the application's handle alone. */
import { ERROR_CODES, StoreError } from '../../core/errors.ts'
import type { Runtime } from '../../core/spi/index.ts'
import { connectionOf, fileOf, type SqliteConnection } from './connection.ts'
import { checkAge, type DriverHandle, driverOf, type SqliteDriver } from './drivers.ts'
import { realPath } from './open-database.ts'
import type { TransactionHome } from './transactions.ts'
import { Turns } from './turns.ts'
import { mutexOfHandle, mutexOfPath, type Release } from './write-mutex.ts'

/** As long as a store waits for a lock by default. */
const BUSY_TIMEOUT_MS = 5_000

export class HandleHome implements TransactionHome {
  readonly place = 'The database'
  readonly isOpen = true
  readonly options: TransactionHome['options']
  readonly application: SqliteConnection
  readonly #turns: Turns
  /** Null: not asked yet. */
  #file: string | null = null

  constructor(driver: SqliteDriver, database: object, runtime: Runtime) {
    if (typeof database !== 'object' || database === null || driverOf(database) !== driver) {
      throw new StoreError(ERROR_CODES.unsupported, `This is not an open database of ${driver}.`)
    }
    const handle = database as DriverHandle
    checkAge(driver, handle)
    this.options = { source: { database }, driver, onStatement: null }
    this.application = connectionOf(driver, handle, null)
    this.#turns = new Turns({ place: this.place, busyTimeoutMs: BUSY_TIMEOUT_MS, runtime })
  }

  get file(): string {
    this.#file ??= fileOf(this.application)
    return this.#file
  }

  /** At the same door as the store of this file. Nobody closes a client, so it has no place there in between. */
  async acquire(): Promise<Release> {
    if (this.file === '') return await this.#turns.acquire(mutexOfHandle(this.application.handle))
    const { mutex, dispose } = mutexOfPath(realPath(this.file))
    try {
      const release = await this.#turns.acquire(mutex)
      return () => {
        release()
        dispose()
      }
    } catch (error) {
      dispose()
      throw error
    }
  }

  retrying<T>(attempt: () => T): Promise<T> {
    return this.#turns.retrying(attempt)
  }
}
