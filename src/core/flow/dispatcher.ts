/**
 * Stages 3 and 4: the queues of one destination and the workers behind them.
 *
 * Receives  deliveries from the hot path (`enqueueHot`) and from the poller (`enqueueCold`).
 * Hands on  to `deliver`, and each outcome to the settler.
 * Guarantees
 * - At most `concurrency` batches are under way; a listener that is slow makes the queues fill, nothing else.
 * - A right is checked by the monotonic clock immediately before sending; one that ran out is not used.
 * - Breaker, pause and rate limit decide when something is taken; none of them spends an attempt.
 */
import type { AttemptFailure, Delivery, Outcome } from '../model/delivery.ts'
import type { ResolvedDestination } from '../options.ts'
import { createBreaker, type Breaker } from '../policy/breaker.ts'
import type { Verdict } from '../policy/failure.ts'
import { createRateLimiter, type RateLimiter } from '../policy/rate-limit.ts'
import type { Cancel, Logger, Metrics, Runtime } from '../spi/index.ts'
import { attemptNumber, deliver, type DeliveryResult, type DeliverOptions, type Receiver } from './deliver.ts'
import { Queues, type QueueBounds } from './queues.ts'
import type { Settled, Settler } from './settle.ts'

/** What the dispatcher needs to know from, and tells to, the rest of its destination. */
export interface DispatcherEvents {
  /** The right to send it certainly holds at this moment. */
  isRightValid(delivery: Delivery): boolean
  /** A settle was confirmed or given up; the delivery may leave the in-flight set. */
  ended(delivery: Delivery, outcome: Outcome, settled: Settled): void
  /** Room in the queues, or the destination is open again: the poller may go on. */
  roomFreed(): void
  failed(delivery: Delivery, verdict: Verdict, error: unknown): void
}

export interface DispatcherOptions {
  readonly destination: ResolvedDestination
  readonly receiver: Receiver
  readonly settler: Settler
  readonly runtime: Runtime
  readonly logger: Logger
  readonly metrics: Metrics
  readonly bounds: QueueBounds
  readonly hardDeadlineMs: number
  readonly events: DispatcherEvents
}

type Failed = Exclude<DeliveryResult, { verdict: 'done' }>

const WARN_EVERY_MS = 1_000

export class Dispatcher {
  readonly queues: Queues
  readonly breaker: Breaker
  readonly #options: DispatcherOptions
  readonly #deliverOptions: DeliverOptions
  readonly #stopping = new AbortController()
  #limiter: RateLimiter | null
  #paused: boolean
  #closing = false
  #active = 0
  #timer: Cancel | null = null
  #droppedSince = 0
  #lastWarnedAt = Number.NEGATIVE_INFINITY
  #idleWaiters: (() => void)[] = []

  constructor(options: DispatcherOptions) {
    this.#options = options
    const { destination, runtime } = options
    this.queues = new Queues(options.bounds)
    this.breaker = createBreaker(destination.breaker, () => runtime.random())
    this.#limiter = createLimiter(destination.ratePerSecond)
    this.#paused = destination.paused
    this.#deliverOptions = options
  }

  get name(): string {
    return this.#options.destination.name
  }

  get paused(): boolean {
    return this.#paused
  }

  /** A keyless delivery may be born claimed for this process. */
  admitsHot(): boolean {
    return (
      !this.#closing &&
      !this.#paused &&
      this.queues.room('hot') > 0 &&
      this.breaker.allows(this.#options.runtime.monotonicNow()) === 'all'
    )
  }

  /** False: full, paused, open or closing. The caller leaves it to the poller; nothing is lost. */
  enqueueHot(delivery: Delivery): boolean {
    if (!this.admitsHot() || !this.queues.offer(delivery)) {
      this.#noteDrop()
      return false
    }
    this.#options.metrics.hotEnqueued(this.name, 1)
    this.pump()
    return true
  }

  enqueueCold(delivery: Delivery): boolean {
    if (this.#closing || !this.queues.offer(delivery)) return false
    this.#options.metrics.coldEnqueued(this.name, 1)
    this.pump()
    return true
  }

  hasColdQueueCapacity(): boolean {
    return !this.#closing && this.queues.room('cold') > 0
  }

  setPaused(paused: boolean): void {
    if (this.#paused === paused) return
    this.#paused = paused
    if (paused) this.#releaseQueuedHot()
    else {
      this.pump()
      this.#options.events.roomFreed()
    }
  }

  setRate(perSecond: number | null): void {
    if (perSecond !== null && this.#limiter !== null) this.#limiter.setRate(perSecond)
    else this.#limiter = createLimiter(perSecond)
    this.pump()
  }

  /** Resolves when nothing is queued, under way or unsettled. */
  async idle(): Promise<void> {
    while (this.#active > 0 || this.queues.size > 0) await this.#nextLull()
  }

  /** Called when an entry left the queues, so that `idle` and waiting keys move on. */
  afterForget(): void {
    this.#wakeIdle()
    this.pump()
  }

  /** Nothing is taken any more; what is queued is given back, what runs may end. */
  stopTaking(): void {
    this.#closing = true
    this.#disarm()
    this.#releaseQueuedHot()
    this.queues.drop(() => true)
    this.#wakeIdle()
  }

  /** Tells running handlers to stop. */
  abortRunning(reason: unknown): void {
    this.#stopping.abort(reason)
  }

  /** Resolves when no handler runs. */
  async quiet(): Promise<void> {
    while (this.#active > 0) await this.#nextLull()
  }

  /** Drops queued deliveries whose right is gone for good. */
  dropQueued(leaves: (delivery: Delivery) => boolean): void {
    this.queues.drop(leaves)
    this.#wakeIdle()
    this.pump()
  }

  /** Settles a delivery that is not sent at all, such as one that cannot be decoded. */
  settleUnsent(delivery: Delivery, outcome: Outcome, attempts: number): void {
    this.#settle(delivery, outcome, attempts)
  }

  pump(): void {
    const { destination, runtime } = this.#options
    while (!this.#closing && !this.#paused && this.#active < destination.concurrency) {
      const now = runtime.monotonicNow()
      const mode = this.breaker.allows(now)
      if (mode === 'none') {
        this.#arm(this.breaker.waitMs(now))
        return
      }
      if (mode === 'one' && this.#active > 0) return
      const batch = this.#take(mode === 'one' ? 1 : destination.batchSize, now)
      if (batch.length === 0) return
      this.#active += 1
      void this.#work(batch)
    }
  }

  #take(max: number, now: number): Delivery[] {
    const orderedPrefix = this.#options.destination.to?.orderedPrefix === true
    if (this.#limiter === null) return this.queues.take(max, orderedPrefix)
    const ready = this.queues.depth('hot') + this.queues.depth('cold')
    if (ready === 0) return []
    const granted = this.#limiter.take(now, Math.min(max, ready))
    if (granted === 0) {
      this.#arm(this.#limiter.waitMs(now))
      return []
    }
    const batch = this.queues.take(granted, orderedPrefix)
    if (batch.length < granted) this.#limiter.giveBack(granted - batch.length)
    return batch
  }

  /** Stage 4: take → check the right → deliver → settle. */
  async #work(batch: readonly Delivery[]): Promise<void> {
    const { settler, metrics, runtime } = this.#options
    try {
      const valid = batch.filter((delivery) => this.#keepIfValid(delivery))
      if (valid.length > 0) {
        const startedAt = runtime.monotonicNow()
        const results = await deliver(valid, this.#deliverOptions, this.#stopping.signal)
        this.#handle(valid, results)
        metrics.observeBatchDuration(this.name, runtime.monotonicNow() - startedAt)
      }
      const room = settler.room()
      if (room) await room
    } catch (error) {
      // Nothing above should throw. If it does, the deliveries stay in flight until their rights run out.
      this.#options.logger.log('error', 'a worker failed unexpectedly', { destination: this.name, error: String(error) })
    } finally {
      this.#active -= 1
      this.#wakeIdle()
      this.pump()
      this.#options.events.roomFreed()
    }
  }

  /** A right that ran out is not used: whoever has it now will send the delivery. */
  #keepIfValid(delivery: Delivery): boolean {
    if (this.#options.events.isRightValid(delivery)) return true
    this.queues.complete(delivery)
    this.#options.events.ended(delivery, { kind: 'released' }, 'lost')
    this.#options.metrics.rightsLost(this.name, 1)
    return false
  }

  #handle(batch: readonly Delivery[], results: readonly DeliveryResult[]): void {
    const stalledKeys = new Set<string>()
    let done = 0
    for (const [i, delivery] of batch.entries()) {
      const result = results[i] as DeliveryResult
      const { key } = delivery.event
      if (result.verdict === 'done') {
        done += 1
        this.breaker.onSuccess(delivery.id, this.#options.runtime.monotonicNow())
        this.queues.complete(delivery)
        this.#settle(delivery, { kind: 'done' }, attemptNumber(delivery))
      } else if (key !== null && stalledKeys.has(key)) {
        // It shared an ordered batch with one that failed before it, so it was never accepted.
        this.queues.putBack(delivery, 'front')
      } else {
        const waits = this.#fail(delivery, result)
        if (waits && key !== null) stalledKeys.add(key)
      }
    }
    if (done > 0) {
      this.#options.metrics.dispatchSuccess(this.name, done)
      this.#options.metrics.addProcessed(this.name, done)
    }
    this.#reportBreaker()
  }

  /** Returns whether what comes behind it in its key has to wait. */
  #fail(delivery: Delivery, result: Failed): boolean {
    const { metrics, events, runtime } = this.#options
    const now = runtime.monotonicNow()
    if (result.verdict === 'outage') {
      const { charge } = this.breaker.onOutage(delivery.id, now)
      if (!charge) {
        events.failed(delivery, 'outage', result.error)
        this.#afterOutage(delivery)
        return true
      }
    } else {
      this.breaker.onRefusal(delivery.id, now)
    }
    metrics.dispatchFailure(this.name, 1)
    metrics.addErrors(this.name, 1)
    const verdict = this.#verdictWithLimit(delivery, result)
    events.failed(delivery, verdict, result.error)
    return verdict === 'dead' ? this.#die(delivery, result.failure) : this.#retry(delivery, result)
  }

  #verdictWithLimit(delivery: Delivery, result: Failed): 'retry' | 'dead' {
    if (result.verdict === 'dead') return 'dead'
    const limit = this.#retryPolicy(delivery).maxAttempts
    return result.counted && attemptNumber(delivery) >= limit ? 'dead' : 'retry'
  }

  #die(delivery: Delivery, failure: AttemptFailure): boolean {
    const { metrics, logger, destination } = this.#options
    metrics.dispatchDead(this.name, 1)
    metrics.addDead(this.name, 1)
    logger.log('error', 'a delivery is dead; redrive or discard it', {
      destination: this.name,
      event: delivery.event.id,
      type: delivery.event.type,
      attempts: attemptNumber(delivery),
      error: failure.message,
    })
    const holds = destination.deadHead !== 'skip' && delivery.event.key !== null
    if (holds) this.queues.stall(delivery)
    else this.queues.complete(delivery)
    this.#settle(delivery, { kind: 'dead', failure }, attemptNumber(delivery))
    return holds
  }

  #retry(delivery: Delivery, result: Failed): boolean {
    const { metrics, runtime } = this.#options
    metrics.addRetries(this.name, 1)
    const attempts = result.counted ? attemptNumber(delivery) : delivery.attempts
    const policy = this.#retryPolicy(delivery)
    const delayMs = result.delayMs ?? policy.computeDelayMs(Math.max(1, attempts), () => runtime.random())
    this.queues.stall(delivery)
    this.#settle(
      delivery,
      { kind: 'retry', delayMs: Math.round(delayMs), counted: result.counted, failure: result.failure },
      attempts,
    )
    return true
  }

  #retryPolicy(delivery: Delivery) {
    const { retry } = this.#options.destination
    return retry.forType?.(delivery.event.type) ?? retry
  }

  /** The place cannot be reached: the delivery waits, unspent. A hot one goes back to its lane's owner. */
  #afterOutage(delivery: Delivery): void {
    if (delivery.right.kind === 'token') {
      this.queues.complete(delivery)
      this.#settle(delivery, { kind: 'released' }, delivery.attempts)
    } else {
      // At the back, so that the next probe is another delivery and an innocent one can close the breaker.
      this.queues.putBack(delivery, 'back')
    }
    if (this.breaker.allows(this.#options.runtime.monotonicNow()) !== 'all') this.#releaseQueuedHot()
  }

  #settle(delivery: Delivery, outcome: Outcome, attempts: number): void {
    const { settler, events, destination } = this.#options
    const deadHoldsKey = destination.deadHead !== 'skip' && delivery.event.key !== null
    settler.add({ delivery, outcome, attempts, deadHoldsKey }, (settled) => {
      if (outcome.kind !== 'released') this.breaker.forget(delivery.id)
      events.ended(delivery, outcome, settled)
    })
  }

  /** Hot claims that will not be used soon go back at once instead of keeping their lane's owner waiting. */
  #releaseQueuedHot(): void {
    for (const delivery of this.queues.drop(({ right }) => right.kind === 'token')) {
      this.#settle(delivery, { kind: 'released' }, delivery.attempts)
    }
  }

  #noteDrop(): void {
    const { metrics, logger, runtime } = this.#options
    metrics.hotDropped(this.name, 1)
    this.#droppedSince += 1
    const now = runtime.monotonicNow()
    if (now - this.#lastWarnedAt < WARN_EVERY_MS) return
    this.#lastWarnedAt = now
    logger.log('warn', 'hot deliveries were left to the poller', {
      destination: this.name,
      count: this.#droppedSince,
      hotQueued: this.queues.depth('hot'),
      paused: this.#paused,
      breaker: this.breaker.state(now),
    })
    this.#droppedSince = 0
  }

  #reportBreaker(): void {
    const { metrics, runtime } = this.#options
    metrics.breakerState(this.name, this.breaker.state(runtime.monotonicNow()))
    metrics.queueDepths(this.name, this.queues.depth('hot'), this.queues.depth('cold'))
  }

  #arm(delayMs: number): void {
    if (this.#timer !== null || this.#closing) return
    this.#timer = this.#options.runtime.schedule(Math.max(1, Math.ceil(delayMs)), () => {
      this.#timer = null
      this.pump()
    })
  }

  #disarm(): void {
    this.#timer?.()
    this.#timer = null
  }

  #nextLull(): Promise<void> {
    return new Promise((resolve) => this.#idleWaiters.push(resolve))
  }

  #wakeIdle(): void {
    if (this.#active > 0 && this.queues.size > 0) return
    const waiters = this.#idleWaiters
    this.#idleWaiters = []
    for (const wake of waiters) wake()
  }
}

const createLimiter = (perSecond: number | null): RateLimiter | null =>
  perSecond === null ? null : createRateLimiter({ perSecond, burst: Math.max(1, Math.ceil(perSecond / 10)) })
