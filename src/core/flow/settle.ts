/**
 * Stage 6: outcomes are written.
 *
 * Receives  one settlement per delivery from the workers of every destination.
 * Hands on  to the store in batches: while a flush is on its way the next one fills, so no timer is needed.
 * Guarantees
 * - An outcome is kept and tried again until the database took it, or said that the right was lost.
 * - The buffer is bounded: `room` makes the workers wait while the database does not answer.
 * - One settlement that the database refuses for its content does not hold up the others.
 */

import { isStoreOutage } from '../errors.ts'
import { plain } from '../model/plain.ts'
import { CHANNELS, tell } from '../runtime/channels.ts'
import { sleep } from '../runtime/signal.ts'
import type { Logger, Metrics, Runtime, Settlement, SettleResult, Store } from '../spi/index.ts'

export interface SettlerOptions {
  readonly historyLimit: number
  readonly maxBuffered: number
  readonly maxBatch: number
  readonly metrics: Metrics
}

/** What became of a settlement; `lost` means that the row belongs to somebody else by now. */
export type Settled = 'written' | 'lost' | 'refused'

interface Pending {
  readonly settlement: Settlement
  readonly done: (settled: Settled) => void
}

/** No literal, because there are thousands: see "Memory" in ARCHITECTURE.md. */
const Pending = plain<[settlement: Settlement, done: Pending['done']], Pending>(function (settlement, done) {
  this.settlement = settlement
  this.done = done
})

export const PROMOTE_LIMIT = 100
const RETRY_MIN_MS = 20
const RETRY_MAX_MS = 1_000

export class Settler {
  readonly #store: Store
  readonly #runtime: Runtime
  readonly #logger: Logger
  readonly #options: SettlerOptions
  readonly #onPromoted: (destination: string) => void
  #buffer: Pending[] = []
  #unwritten = 0
  /** How many ever came to the buffer, which numbers them. */
  #added = 0
  /** Flushes on their way, by the number of their first settlement. */
  readonly #flights = new Set<number>()
  #scheduled = false
  #abandoned = false
  #roomWaiters: (() => void)[] = []
  #idleWaiters: (() => void)[] = []
  #flightWaiters: (() => void)[] = []

  constructor(
    store: Store,
    runtime: Runtime,
    logger: Logger,
    options: SettlerOptions,
    onPromoted: (destination: string) => void,
  ) {
    this.#store = store
    this.#runtime = runtime
    this.#logger = logger
    this.#options = options
    this.#onPromoted = onPromoted
  }

  add(settlement: Settlement, done: (settled: Settled) => void): void {
    if (this.#abandoned) {
      void this.#writeOnce(new Pending(settlement, done))
      return
    }
    this.#buffer.push(new Pending(settlement, done))
    this.#added += 1
    this.#unwritten += 1
    this.#scheduleFlush()
  }

  /** Null when there is room; otherwise resolves when there is. */
  room(): Promise<void> | null {
    if (this.#unwritten < this.#options.maxBuffered || this.#abandoned) return null
    return new Promise((resolve) => this.#roomWaiters.push(resolve))
  }

  /** Resolves when everything that was added is written, lost or refused. */
  idle(): Promise<void> {
    if (this.#unwritten === 0) return Promise.resolve()
    return new Promise((resolve) => this.#idleWaiters.push(resolve))
  }

  /** Resolves when what was added until now is written, lost or refused, whatever is added meanwhile. */
  async written(): Promise<void> {
    const until = this.#added
    while (Math.min(this.#firstBuffered, ...this.#flights) < until)
      await new Promise<void>((resolve) => this.#flightWaiters.push(resolve))
  }

  get #firstBuffered(): number {
    return this.#added - this.#buffer.length
  }

  /** Stops trying: what is not written stays as it is in the database, and its rights run out. */
  abandon(): void {
    this.#abandoned = true
    const left = this.#buffer
    this.#buffer = []
    this.#finish(left, 'refused')
  }

  /** After the end. A claim that is given back would otherwise keep its row from everybody for the whole lease. */
  async #writeOnce(pending: Pending): Promise<void> {
    const isReleased = pending.settlement.outcome.kind === 'released'
    this.#unwritten += 1
    const written =
      isReleased &&
      (await this.#settle([pending])
        .then(() => true)
        .catch(() => false))
    this.#finish([pending], written ? 'written' : 'refused')
  }

  #scheduleFlush(): void {
    if (this.#scheduled || this.#flights.size >= this.#store.capabilities.parallelSettles) return
    if (this.#buffer.length === 0) return
    this.#scheduled = true
    // One turn of the event loop lets the other deliveries that end right now share the flush.
    void this.#runtime.yield().then(() => {
      this.#scheduled = false
      void this.#flush()
    })
  }

  async #flush(): Promise<void> {
    if (this.#buffer.length === 0) return
    const first = this.#firstBuffered
    const batch = this.#buffer.splice(0, this.#options.maxBatch)
    this.#flights.add(first)
    this.#scheduleFlush()
    try {
      await this.#write(batch)
    } finally {
      this.#flights.delete(first)
      this.#wakeWaiters()
      this.#scheduleFlush()
    }
  }

  async #write(batch: readonly Pending[]): Promise<void> {
    let delayMs = RETRY_MIN_MS
    while (!this.#abandoned) {
      try {
        const startedAt = this.#runtime.monotonicNow()
        const result = await this.#settle(batch)
        this.#measure(batch.length, result, this.#runtime.monotonicNow() - startedAt)
        this.#report(batch, result)
        return
      } catch (error) {
        this.#options.metrics.settleFailed(1)
        const isOutage = isStoreOutage(error)
        if (!isOutage && batch.length > 1) {
          const middle = batch.length >> 1
          await this.#write(batch.slice(0, middle))
          await this.#write(batch.slice(middle))
          return
        }
        if (!isOutage && delayMs >= RETRY_MAX_MS) {
          this.#logger.log(
            'error',
            'a settlement was refused by the database; its delivery will be sent again',
            {
              delivery: batch[0]?.settlement.delivery.id,
              error: String(error),
            },
          )
          this.#finish(batch, 'refused')
          return
        }
        this.#logger.log('warn', 'settling failed and is tried again', {
          deliveries: batch.length,
          delayMs,
          error: String(error),
        })
        await sleep(this.#runtime, delayMs * (0.5 + this.#runtime.random()))
        delayMs = Math.min(RETRY_MAX_MS, delayMs * 2)
      }
    }
    this.#finish(batch, 'refused')
  }

  #settle(batch: readonly Pending[]): Promise<SettleResult> {
    return this.#store.queue.settle({
      settlements: batch.map((pending) => pending.settlement),
      historyLimit: this.#options.historyLimit,
      promoteLimit: PROMOTE_LIMIT,
      workerName: this.#runtime.processName,
    })
  }

  #measure(count: number, { lost }: SettleResult, durationMs: number): void {
    this.#options.metrics.observeSettle(count, durationMs)
    if (CHANNELS.settle.hasSubscribers) tell('settle', { count, lost: lost.length, durationMs })
  }

  #report(batch: readonly Pending[], result: SettleResult): void {
    const lost = new Set(result.lost)
    this.#unwritten -= batch.length
    for (const { settlement, done } of batch) done(lost.has(settlement.delivery.id) ? 'lost' : 'written')
    for (const destination of result.promoted) this.#onPromoted(destination)
    this.#wakeWaiters()
  }

  #finish(batch: readonly Pending[], settled: Settled): void {
    this.#unwritten -= batch.length
    for (const { done } of batch) done(settled)
    this.#wakeWaiters()
  }

  #wakeWaiters(): void {
    for (const wake of this.#flightWaiters.splice(0)) wake()
    if (this.#unwritten < this.#options.maxBuffered) {
      const waiters = this.#roomWaiters
      this.#roomWaiters = []
      for (const wake of waiters) wake()
    }
    if (this.#unwritten === 0) {
      const waiters = this.#idleWaiters
      this.#idleWaiters = []
      for (const wake of waiters) wake()
    }
  }
}
