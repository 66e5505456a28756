/** What the dispatcher of one destination tells metrics and logs; never with payloads. */
import type { Delivery } from '../model/delivery.ts'
import type { BreakerState } from '../policy/breaker.ts'
import { CHANNELS, tell } from '../runtime/channels.ts'
import type { Logger, Metrics, Runtime } from '../spi/index.ts'
import type { Decision } from './decide.ts'
import { type OutageLog, outageLogOf } from './outage-log.ts'
import type { Queues } from './queues.ts'

/** Under overload every event is one; the log gets one line a second. */
const WARN_EVERY_MS = 1_000

export class DispatchReport {
  readonly #name: string
  readonly #metrics: Metrics
  readonly #logger: Logger
  readonly #runtime: Runtime
  readonly #outages: OutageLog
  #droppedSince = 0
  #lastWarnedAt = Number.NEGATIVE_INFINITY
  #failedSince = 0
  #lastFailedAt = Number.NEGATIVE_INFINITY
  #breaker: BreakerState = 'closed'

  constructor(name: string, parts: { metrics: Metrics; logger: Logger; runtime: Runtime }) {
    this.#name = name
    this.#metrics = parts.metrics
    this.#logger = parts.logger
    this.#runtime = parts.runtime
    this.#outages = outageLogOf(parts.logger, name)
  }

  hotDropped(queues: Queues, paused: boolean, breaker: BreakerState): void {
    this.#metrics.hotDropped(this.#name, 1)
    this.#droppedSince += 1
    const now = this.#runtime.monotonicNow()
    if (now - this.#lastWarnedAt < WARN_EVERY_MS) return
    this.#lastWarnedAt = now
    this.#logger.log('warn', 'hot deliveries were left to the poller', {
      destination: this.#name,
      count: this.#droppedSince,
      hotQueued: queues.depth('hot'),
      paused,
      breaker,
    })
    this.#droppedSince = 0
  }

  failed(delivery: Delivery, { outcome, attempts }: Decision): void {
    const name = this.#name
    this.#metrics.dispatchFailure(name, 1)
    this.#metrics.addErrors(name, 1)
    if (outcome.kind !== 'dead') {
      this.#metrics.addRetries(name, 1)
      if (outcome.kind === 'retry') this.#retried(delivery, attempts, outcome.failure.message)
      return
    }
    this.#metrics.dispatchDead(name, 1)
    this.#metrics.addDead(name, 1)
    this.#logger.log('error', 'a delivery is dead; redrive or discard it', {
      destination: name,
      event: delivery.event.id,
      type: delivery.event.type,
      attempts,
      error: outcome.failure.message,
    })
  }

  #retried({ event }: Delivery, attempts: number, error: string): void {
    this.#failedSince += 1
    const now = this.#runtime.monotonicNow()
    if (now - this.#lastFailedAt < WARN_EVERY_MS) return
    this.#lastFailedAt = now
    const count = this.#failedSince
    this.#failedSince = 0
    const facts = { destination: this.#name, event: event.id, type: event.type, attempts, error, count }
    this.#logger.log('warn', 'attempts failed and are tried again; this is the latest', facts)
  }

  outage(): void {
    this.#metrics.addOutages(this.#name, 1)
  }

  opened(error: string): void {
    this.#outages.away(error, this.#runtime)
  }

  paused(paused: boolean): void {
    this.#metrics.setPaused(this.#name, paused)
  }

  batch(done: number, of: number, queues: Queues, breaker: BreakerState): void {
    if (done > 0) {
      this.#metrics.dispatchSuccess(this.#name, done)
      this.#metrics.addProcessed(this.#name, done)
      // The breaker that opened may have been that of an earlier round.
      if (breaker === 'closed') this.recovered()
    }
    if (this.#logger.isEnabled?.('debug') === true)
      this.#logger.log('debug', 'a batch was sent', { destination: this.#name, done, of })
    this.gauges(queues, breaker)
  }

  gauges(queues: Queues, breaker: BreakerState): void {
    this.#metrics.breakerState(this.#name, breaker)
    this.#metrics.queueDepths(this.#name, queues.depth('hot'), queues.depth('cold'))
    if (breaker === this.#breaker) return
    this.#breaker = breaker
    if (CHANNELS.breaker.hasSubscribers) tell('breaker', { destination: this.#name, state: breaker })
  }

  recovered(): void {
    this.#outages.back()
  }
}
