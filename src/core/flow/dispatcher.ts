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
import type { Delivery, Outcome } from '../model/delivery.ts'
import { type Breaker, type BreakerState, createBreaker } from '../policy/breaker.ts'
import { policyForType } from '../policy/retry.ts'
import type { SuspectedDelivery } from '../spi/index.ts'
import { Alarm } from './alarm.ts'
import { DeliverySettlement, decide, unexpected } from './decide.ts'
import { type DeliveryResult, deliver } from './deliver.ts'
import { DispatchReport } from './dispatch-report.ts'
import type { DispatcherOptions } from './dispatcher-options.ts'
import { Pace } from './pace.ts'
import { Outstanding, spendAttempt } from './quarantine.ts'
import { isHot, Queues } from './queues.ts'
import { Stopping } from './receive-context.ts'
import { validOf } from './rights.ts'

export class Dispatcher {
  readonly queues: Queues
  readonly breaker: Breaker
  /** Tells running handlers to stop, and that nobody waits for them any more. */
  readonly stopping = new Stopping()
  readonly #options: DispatcherOptions
  readonly #report: DispatchReport
  readonly #pace: Pace
  #paused: boolean
  #closing = false
  #active = 0
  readonly #alarm: Alarm
  #waiters: (() => void)[] = []
  readonly #outstanding = new Outstanding()

  constructor(options: DispatcherOptions) {
    this.#options = options
    const { destination, runtime } = options
    this.queues = new Queues(options.bounds)
    this.breaker = createBreaker(destination.breaker, () => runtime.random())
    this.#pace = new Pace(destination.ratePerSecond)
    this.#alarm = new Alarm(runtime, () => this.#goOn())
    this.#paused = destination.paused
    this.#report = new DispatchReport(destination.name, options)
    this.#report.paused(this.#paused)
  }

  get name(): string {
    return this.#options.destination.name
  }

  get isClosing(): boolean {
    return this.#closing
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
      this.#report.hotDropped(this.queues, this.#paused, this.#breakerState())
      return false
    }
    this.#options.metrics.hotEnqueued(this.name, 1)
    this.pump()
    return true
  }

  enqueueCold(delivery: Delivery): boolean {
    if (this.#closing || !this.queues.offer(delivery)) return false
    this.#options.metrics.coldEnqueued(this.name, 1)
    // Rows come by the thousand, and leave in batches; the next ones should be on their way before these are looked at.
    this.#alarm.later()
    return true
  }

  hasColdQueueCapacity(): boolean {
    return !this.#closing && this.queues.room('cold') > 0
  }

  setPaused(paused: boolean): void {
    if (this.#paused === paused) return
    this.#paused = paused
    if (paused) this.#releaseQueued(isHot)
    else this.#goOn()
    this.#report.paused(paused)
  }

  setRate(perSecond: number | null): void {
    if (this.#pace.change(perSecond)) this.pump()
  }

  /** Called when an entry left the queues, so that `quiet` and waiting keys move on. */
  afterForget(): void {
    this.#wakeWaiters()
    this.#alarm.soon()
  }

  /** Nothing is taken any more; what is queued is given back, what runs may end. */
  stopTaking(): void {
    this.#closing = true
    this.#alarm.cancel()
    this.#releaseQueued(() => true)
    this.#wakeWaiters()
  }

  /** Resolves when no handler runs, and no consumer has something in hand; or before, when the caller has seen enough. */
  async quiet(isEnough: () => boolean = () => false): Promise<void> {
    // Who waits does not wait for company.
    this.pump()
    const busy = (): boolean => this.#active > 0 || (this.#options.manual && this.queues.running > 0)
    while (busy() && !isEnough()) await new Promise<void>((resolve) => this.#waiters.push(resolve))
  }

  /** Drops queued deliveries whose right is gone for good. */
  dropQueued(leaves: (delivery: Delivery) => boolean): readonly Delivery[] {
    const dropped = this.queues.drop(leaves)
    this.#wakeWaiters()
    this.pump()
    return dropped
  }

  /** Settles a delivery that is not sent at all, such as one that cannot be decoded. */
  settleUnsent(delivery: Delivery, outcome: Outcome, ended?: () => void): void {
    this.#settle(delivery, outcome, delivery.attempts, ended)
  }

  /** Manual mode: deliveries that a consumer may handle now. */
  async take(max: number): Promise<Delivery[]> {
    const taken = this.#paused ? [] : this.#take(max).filter((delivery) => this.#keepIfValid(delivery))
    if (taken[0]?.alone !== true) return taken
    const spent = await this.#spend(taken[0])
    return spent === null || this.#waits(spent) ? [] : [spent]
  }

  /** Manual mode: what the consumer says of a delivery it took; null gives it back. */
  conclude(delivery: Delivery, result: DeliveryResult | null): void {
    if (result === null) this.#putBack(delivery, 'front')
    else this.#handle([delivery], [result])
    this.#wakeWaiters()
  }

  pump(): void {
    const { tuning, runtime, manual } = this.#options
    while (!manual && !this.#closing && !this.#paused && this.#active < tuning.concurrency) {
      const now = runtime.monotonicNow()
      const mode = this.breaker.allows(now)
      if (mode === 'none') {
        this.#pumpAfter(this.breaker.waitMs(now))
        return
      }
      if (mode === 'one' && this.queues.running > 0) return
      if (mode === 'one') this.queues.postpone((id) => this.breaker.isSuspect(id))
      const batch = this.#take(mode === 'one' ? 1 : tuning.batchSize, now)
      const [first] = batch
      if (first === undefined) return
      // Half-open: this one delivery decides, and nothing else is sent until it has.
      if (mode === 'one') this.breaker.admit(first.id, now)
      this.#active += 1
      void this.#work(batch)
    }
  }

  #take(max: number, now = this.#options.runtime.monotonicNow()): Delivery[] {
    const orderedPrefix = !this.#options.manual && this.#options.destination.to?.orderedPrefix === true
    const ready = this.queues.depth('hot') + this.queues.depth('cold')
    if (ready === 0) return []
    const granted = this.#pace.grant(now, Math.min(max, ready))
    if (granted === 0) {
      this.#pumpAfter(this.#pace.waitMs(now))
      return []
    }
    const batch = this.queues.take(granted, orderedPrefix, (id) => this.breaker.isNearCharge(id))
    this.#pace.giveBack(granted - batch.length)
    return batch
  }

  /** Stage 4: take → check the right → deliver → settle. */
  async #work(batch: readonly Delivery[]): Promise<void> {
    const { settler, metrics, runtime } = this.#options
    try {
      const valid = validOf(batch, (delivery) => this.#keepIfValid(delivery))
      if (valid[0]?.alone === true) await this.#workAlone(valid[0])
      else if (valid.length > 0) {
        const startedAt = runtime.monotonicNow()
        const results = await deliver(valid, this.#options, this.stopping)
        this.#handle(valid, results)
        metrics.observeBatchDuration(this.name, runtime.monotonicNow() - startedAt)
      }
      await settler.room()
    } catch (error) {
      this.#rescue(batch, error)
    } finally {
      this.#active -= 1
      this.#wakeWaiters()
      this.#goOn()
    }
  }

  /** Nothing above should throw. If it does nobody knows what became of these: as any failure, it is tried again. */
  #rescue(batch: readonly Delivery[], error: unknown): void {
    const { logger } = this.#options
    const context = { destination: this.name, error: String(error) }
    logger.log('error', 'a worker failed unexpectedly; its deliveries are tried again', context)
    for (const { id } of batch) {
      const delivery = this.queues.runningOne(id)
      if (delivery === null) continue
      this.breaker.forget(id)
      this.#decide(delivery, unexpected(delivery, error))
    }
  }

  #goOn(): void {
    this.pump()
    this.#options.events.roomFreed()
  }

  /** A suspect: what others did is written before it is tried, and what becomes of it before the next one is. */
  #workAlone(delivery: Delivery): Promise<void> {
    return this.#options.quarantine.run(async () => {
      await this.#outstanding.none()
      if (this.#waits(delivery)) return
      const spent = await this.#spend(delivery)
      if (spent === null || this.#waits(spent)) return
      this.#handle([spent], await deliver([spent], this.#options, this.stopping))
      await this.#outstanding.none()
    })
  }

  /** True: its destination was paused before its turn came. It keeps its place, and an attempt that is written down. */
  #waits(delivery: Delivery): boolean {
    if (!this.#paused) return false
    this.breaker.forget(delivery.id)
    this.#putBack(delivery, 'front')
    return true
  }

  #putBack(delivery: Delivery, where: 'front' | 'back'): void {
    this.queues.putBack(delivery, where)
    if (this.#closing) this.#releaseQueued(() => true)
  }

  /** Null: it is not to be sent, and that is taken care of. */
  async #spend(delivery: Delivery): Promise<Delivery | null> {
    const { events, destination, logger } = this.#options
    const suspect = async (): Promise<SuspectedDelivery | null> =>
      this.#closing ? null : await events.suspect(delivery)
    const { maxAttempts } = policyForType(destination.retry, delivery.event.type)
    const turn = await spendAttempt(delivery, suspect, maxAttempts, logger)
    if (turn.kind === 'gone') {
      this.#letGo(delivery)
      return null
    }
    this.queues.replace(delivery, turn.delivery)
    if (!this.#keepIfValid(turn.delivery)) return null
    if (turn.kind === 'send') return turn.delivery
    this.breaker.forget(delivery.id)
    const { failure } = turn
    const error = new Error(failure.message)
    this.#decide(turn.delivery, { verdict: 'dead', error, failure, delayMs: null, counted: true })
    return null
  }

  /** A right that ran out is not used: whoever has it now will send the delivery. */
  #keepIfValid(delivery: Delivery): boolean {
    if (this.#options.events.isRightValid(delivery)) return true
    this.#letGo(delivery)
    return false
  }

  #letGo(delivery: Delivery): void {
    // Its key is closed with it: what waits behind it would otherwise overtake it once the right is back.
    this.queues.stall(delivery)
    this.breaker.forget(delivery.id)
    this.#options.events.ended(delivery, { kind: 'released' }, 'lost')
  }

  #handle(batch: readonly Delivery[], results: readonly DeliveryResult[]): void {
    const failedKeys = new Set<string>()
    const now = this.#options.runtime.monotonicNow()
    let done = 0
    for (let i = 0; i < batch.length; i += 1) {
      const delivery = batch[i] as Delivery
      const result = results[i] as DeliveryResult
      const { key } = delivery.event
      if (result.verdict !== 'done' && key !== null && failedKeys.has(key)) {
        // It shared an ordered batch with one that failed before it, so it was never accepted.
        this.#putBack(delivery, 'front')
        continue
      }
      if (result.verdict === 'done') done += 1
      if (result.verdict !== 'done' && key !== null) failedKeys.add(key)
      this.#conclude(delivery, result, now)
    }
    this.#report.batch(done, batch.length, this.queues, this.#breakerState())
  }

  #conclude(delivery: Delivery, result: DeliveryResult, now: number): void {
    if (result.verdict === 'outage') {
      const { charge, opened } = this.breaker.onOutage(delivery.id, now)
      if (opened) this.#report.opened(result.failure.message)
      if (!charge) {
        this.#afterOutage(delivery, result.error)
        return
      }
    } else this.#answered(delivery, result.verdict === 'done', now)
    // Charged: others passed while this one broke the connection again and again, so it is about the event.
    const judged: DeliveryResult =
      result.verdict === 'outage' ? { ...result, verdict: 'retry', counted: true } : result
    this.#decide(delivery, judged)
  }

  #decide(delivery: Delivery, judged: DeliveryResult): void {
    const { destination, events, runtime } = this.#options
    const decision = decide(delivery, judged, destination, () => runtime.random())
    if (judged.verdict !== 'done') {
      this.#report.failed(delivery, decision)
      events.failed(delivery, decision.outcome.kind === 'dead' ? 'dead' : 'retry', judged.error)
    }
    if (decision.holdsKey) this.queues.stall(delivery)
    else this.queues.complete(delivery)
    this.#settle(delivery, decision.outcome, decision.attempts)
  }

  #answered(delivery: Delivery, accepted: boolean, now: number): void {
    const { breaker } = this
    const { recovered } = accepted ? breaker.onSuccess(delivery.id, now) : breaker.onRefusal(delivery.id, now)
    if (!recovered) return
    this.#pace.slowStart(now)
    this.#report.recovered()
  }

  /** The place cannot be reached: the delivery waits, unspent. A hot one goes back to its lane's owner. */
  #afterOutage(delivery: Delivery, error: unknown): void {
    this.#options.events.failed(delivery, 'outage', error)
    this.#report.outage()
    if (isHot(delivery)) {
      this.queues.complete(delivery)
      this.settleUnsent(delivery, { kind: 'released' })
    } else {
      // At the back, so that the next probe is another delivery and an innocent one can close the breaker.
      this.#putBack(delivery, 'back')
    }
    if (this.breaker.allows(this.#options.runtime.monotonicNow()) !== 'all') this.#releaseQueued(isHot)
  }

  #settle(delivery: Delivery, outcome: Outcome, attempts: number, ended?: () => void): void {
    const { settler, events, destination } = this.#options
    this.#outstanding.begin()
    settler.add(new DeliverySettlement(delivery, outcome, attempts, destination), (settled) => {
      // A retry comes back; what the breaker knows of it must not be forgotten.
      if (outcome.kind === 'done' || outcome.kind === 'dead') this.breaker.forget(delivery.id)
      events.ended(delivery, outcome, settled)
      ended?.()
      this.#outstanding.end()
    })
  }

  /** Hot claims that will not be used soon go back at once instead of keeping their lane's owner waiting. */
  #releaseQueued(leaves: (delivery: Delivery) => boolean): void {
    for (const delivery of this.queues.drop(leaves)) {
      // The row of a suspect carries a token too, which the next owner would take for a second suspicion.
      if (isHot(delivery) || delivery.suspected) this.settleUnsent(delivery, { kind: 'released' })
    }
    this.#report.gauges(this.queues, this.#breakerState())
  }

  #pumpAfter(delayMs: number): void {
    if (!this.#closing && !this.#options.manual) this.#alarm.after(delayMs)
  }

  #breakerState(): BreakerState {
    return this.breaker.state(this.#options.runtime.monotonicNow())
  }

  #wakeWaiters(): void {
    if (this.#waiters.length === 0) return
    const waiters = this.#waiters
    this.#waiters = []
    for (const wake of waiters) wake()
  }
}
