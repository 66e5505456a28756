/**
 * Tells other processes that there is something to read, where the database can carry such a message. It goes out
 * after the commit and on another connection; polling stays the truth, so one that gets lost costs only time.
 * While one is on its way the next one fills, and they keep a distance, so their number does not grow with load.
 */
import type { Cancel, Logger, Runtime, Store } from '../spi/index.ts'

const DISTANCE_MS = 5
/** After a commit that we cannot observe: it has probably happened by then, or by then. */
const SOON_MS = [20, 300] as const

export class WakeUps {
  readonly #store: Store
  readonly #runtime: Runtime
  readonly #logger: Logger
  readonly #waiting = new Set<string>()
  readonly #timers = new Map<number, Cancel>()
  #all = false
  #sending: Promise<void> | null = null
  #closed = false

  constructor(parts: { readonly store: Store; readonly runtime: Runtime; readonly logger: Logger }) {
    this.#store = parts.store
    this.#runtime = parts.runtime
    this.#logger = parts.logger
  }

  /** Whoever serves this destination; null means all. */
  tell(destination: string | null): void {
    if (this.#store.wakeup === undefined || this.#closed) return
    if (destination === null) this.#all = true
    else this.#waiting.add(destination)
    this.#sending ??= this.#sendAll().finally(() => {
      this.#sending = null
    })
  }

  tellSoon(): void {
    if (this.#store.wakeup === undefined || this.#closed) return
    for (const delayMs of SOON_MS) {
      if (this.#timers.has(delayMs)) continue
      const fire = (): void => {
        this.#timers.delete(delayMs)
        this.tell(null)
      }
      this.#timers.set(delayMs, this.#runtime.schedule(delayMs, fire, { background: true }))
    }
  }

  async close(): Promise<void> {
    this.#closed = true
    for (const cancel of this.#timers.values()) cancel()
    this.#timers.clear()
    await this.#sending
  }

  async #sendAll(): Promise<void> {
    while (this.#all || this.#waiting.size > 0) {
      const destinations = this.#all ? [] : [...this.#waiting]
      this.#all = false
      this.#waiting.clear()
      try {
        await this.#store.wakeup?.notify(destinations)
      } catch (error) {
        this.#logger.log(
          'warn',
          'other processes could not be told of new events; they find them by polling',
          {
            error: String(error),
          },
        )
      }
      if (!this.#closed) await this.#pause()
    }
  }

  #pause(): Promise<void> {
    return new Promise((resolve) => {
      this.#runtime.schedule(DISTANCE_MS, resolve, { background: true })
    })
  }
}
