/**
 * A background job on the tables. Any process may do it, one at a time does: the right to it is a lane of its
 * own, so it ends with the worker's lease.
 */
import type { Cancel, Logger, Runtime, Store } from '../../spi/index.ts'

export interface Duty {
  readonly name: string
  readonly intervalMs: number
  /** Also soon after the start; otherwise the first run waits for the interval. */
  readonly firstAfterMs: number
  /** Does a bounded step; true when there is more to do at once. */
  step(): Promise<boolean>
}

export interface DutyParts {
  readonly store: Store
  readonly runtime: Runtime
  readonly logger: Logger
  readonly workerId: () => string
}

/** Steps of one run before others get a chance; the rest waits for the next interval. */
const MAX_STEPS = 1_000

export class DutyLoop {
  readonly #duty: Duty
  readonly #parts: DutyParts
  #timer: Cancel | null = null
  #running: Promise<void> | null = null
  #closed = false

  constructor(duty: Duty, parts: DutyParts) {
    this.#duty = duty
    this.#parts = parts
  }

  start(): void {
    this.#arm(this.#duty.firstAfterMs)
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#timer?.()
    this.#timer = null
    await this.#running
  }

  #arm(delayMs: number): void {
    if (this.#closed) return
    // Spread over processes that were started together.
    const spread = delayMs * (0.9 + 0.2 * this.#parts.runtime.random())
    this.#timer = this.#parts.runtime.schedule(
      spread,
      () => {
        this.#running = this.#run().finally(() => this.#arm(this.#duty.intervalMs))
      },
      { background: true },
    )
  }

  async #run(): Promise<void> {
    const { store, logger, runtime } = this.#parts
    const workerId = this.#parts.workerId()
    const { name } = this.#duty
    try {
      if (!(await store.maintenance.takeDuty(name, workerId))) return
      for (let i = 0; i < MAX_STEPS && !this.#closed; i += 1) {
        if (!(await this.#duty.step())) break
        await runtime.yield()
      }
      await store.maintenance.finishDuty(name, workerId)
    } catch (error) {
      logger.log('error', 'a maintainer failed; it tries again at its next interval', {
        duty: name,
        error: String(error),
      })
    }
  }
}
