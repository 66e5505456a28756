/**
 * One destination in this process: its dispatcher, poller and admission, and the rules that tie them
 * together. What happens to a delivery from the moment it may be sent until it is out of memory is here.
 */
import type { ListenerRegistry } from '../listeners.ts'
import type { Delivery, Outcome } from '../model/delivery.ts'
import type { ResolvedDestination, ResolvedOptions } from '../options.ts'
import type { Verdict } from '../policy/failure.ts'
import { NOOP_METRICS } from '../runtime/metrics.ts'
import type { ClaimedHead, Logger, Metrics, RegisteredDestination, Runtime, Store } from '../spi/index.ts'
import { Admission } from './admission.ts'
import { attemptNumber } from './deliver.ts'
import { Dispatcher } from './dispatcher.ts'
import type { HotClaims } from './hot-claims.ts'
import type { HotDelivery } from './hot-intake.ts'
import type { Lanes } from './lanes.ts'
import { AHEAD_LIMIT } from './late-rows.ts'
import { Poller } from './poller.ts'
import type { Quarantine } from './quarantine.ts'
import { isHot } from './queues.ts'
import { ReadGuard } from './read-guard.ts'
import { listenersReceiver, publisherReceiver } from './receivers.ts'
import type { Settled, Settler } from './settle.ts'
import { Tuning, usableRate } from './tuning.ts'

export interface DestinationParts {
  readonly destination: ResolvedDestination
  readonly options: ResolvedOptions
  readonly listeners: ListenerRegistry
  readonly store: Store
  readonly runtime: Runtime
  readonly logger: Logger
  readonly metrics: Metrics
  readonly settler: Settler
  readonly lanes: Lanes
  readonly hotClaims: HotClaims
  readonly newId: () => string
  /** A consumer pulls; nothing is sent by itself. */
  readonly manual: boolean
  /** Shared by all destinations of this process. */
  readonly quarantine: Quarantine
  readonly expand: () => Promise<boolean>
  /** Something was stored in a lane that another process has. */
  readonly tellOthers: () => void
  readonly failed: (delivery: Delivery, verdict: Verdict, error: unknown) => void
  readonly ended: (delivery: Delivery, outcome: Outcome, settled: Settled) => void
}

const CLAIM_BATCH = 500

export class DestinationFlow {
  readonly dispatcher: Dispatcher
  readonly poller: Poller
  readonly #parts: DestinationParts
  readonly #tuning: Tuning
  readonly #admission: Admission
  readonly #guard = new ReadGuard()
  #claimQueue: HotDelivery[] = []
  /** Lanes with a claim by id under way or waiting, or a suspect that is given back; such a lane cannot be given up. */
  readonly #pendingLanes = new Map<number, number>()
  #claiming = false
  readonly #watched = new Map<string, (settled: Settled) => void>()
  /** Keys whose head failed a moment ago, and the first read that began after that. */
  readonly #reopened = new Map<string, number>()

  constructor(parts: DestinationParts) {
    this.#parts = parts
    const { destination, options, lanes, hotClaims, store, runtime, logger, metrics } = parts
    const tuning = new Tuning(destination, options)
    this.#tuning = tuning
    this.dispatcher = new Dispatcher({
      destination,
      tuning,
      receiver: destination.to
        ? publisherReceiver(destination.to, destination)
        : listenersReceiver(parts.listeners, destination.name),
      settler: parts.settler,
      runtime,
      logger,
      metrics,
      bounds: { hot: options.hotQueueCapacity, cold: options.coldQueueCapacity, bytes: options.queueBytes },
      hardDeadlineMs: options.hardDeadlineMs,
      tracing: options.tracing,
      manual: parts.manual,
      quarantine: parts.quarantine,
      events: {
        isRightValid: ({ id, right }) =>
          right.kind === 'token' ? hotClaims.isValid(id) : lanes.isValid(right.workerId),
        ended: (delivery, outcome, settled) => this.#ended(delivery, outcome, settled),
        roomFreed: () => this.#roomFreed(),
        failed: parts.failed,
        suspect: (delivery) => this.#admission.suspect(delivery),
      },
    })
    this.#admission = new Admission({
      destination,
      tuning,
      store,
      logger,
      metrics,
      dispatcher: this.dispatcher,
      owns: (lane) => lanes.owns(destination.name, lane),
      isCurrent: (key, readId) => this.#isCurrent(key, readId),
      newToken: parts.newId,
      afterReads: (fn) => this.#guard.after(fn),
    })
    this.poller = new Poller(
      {
        destination: destination.name,
        store,
        runtime,
        logger,
        metrics,
        dispatcher: this.dispatcher,
        lanes,
        admission: this.#admission,
        guard: this.#guard,
        expand: parts.expand,
      },
      {
        tuning,
        skipRecentMs: options.skipRecentMs,
        windowMs: options.partitionWindowMs,
        sweepIntervalMs: options.sweepIntervalMs,
      },
    )
  }

  get name(): string {
    return this.#parts.destination.name
  }

  /** An operator's settings in the registry win over what the code says. A pause begins first and ends last. */
  apply({ paused, ratePerSecond, settings }: RegisteredDestination): void {
    if (paused) this.dispatcher.setPaused(true)
    if (this.#tuning.apply(settings)) {
      this.dispatcher.pump()
      this.poller.retuned()
    }
    this.dispatcher.setRate(usableRate(ratePerSecond, this.#parts.destination.ratePerSecond))
    this.dispatcher.setPaused(paused)
  }

  // ------------------------------------------------------------------------------------- hot path

  /** Stage 2 → 3 for what was committed a moment ago. */
  offer(hot: HotDelivery): void {
    if (hot.token === null) this.#claimSoon(hot)
    else this.#offerClaimed(hot, hot.token)
  }

  /** Born claimed: straight into the queue, no database work between commit and handler. */
  #offerClaimed(hot: HotDelivery, token: string): void {
    const { hotClaims, options, runtime } = this.#parts
    const delivery = toDelivery(hot, { kind: 'token', token }, null)
    hotClaims.add(hot.id, token, hot.claimedUntil)
    const isAging = hot.claimedUntil - runtime.monotonicNow() < options.hotLeaseMs / 2
    if (isAging && this.dispatcher.admitsHot()) {
      // The transaction outlived half its claims: make sure that nobody else has them before sending.
      void hotClaims.extendAging().then(() => {
        if (hotClaims.isValid(hot.id)) this.#enqueueOrRelease(delivery)
        // The database could not be asked in time. Kept, the claim would be extended for ever and never be sent.
        else if (hotClaims.has(hot.id)) this.#release(delivery)
      })
      return
    }
    this.#enqueueOrRelease(delivery)
  }

  #enqueueOrRelease(delivery: Delivery): void {
    if (!this.dispatcher.enqueueHot(delivery)) this.#release(delivery)
  }

  #release(delivery: Delivery): void {
    this.dispatcher.settleUnsent(delivery, { kind: 'released' })
  }

  /** Keyed: only if its lane is ours and everything before it in its key is in our hands; batched. */
  #claimSoon(hot: HotDelivery): void {
    const { lanes, options, metrics } = this.#parts
    if (!lanes.owns(this.name, hot.lane)) {
      this.#parts.tellOthers()
      return
    }
    if (!this.dispatcher.admitsHot() || this.#claimQueue.length >= options.hotQueueCapacity) {
      metrics.hotDropped(this.name, 1)
      this.poller.nudge()
      return
    }
    this.#claimQueue.push(hot)
    this.#laneBegins(hot.lane)
    if (this.#claiming) return
    this.#claiming = true
    // What the same commit brings along shares the statement.
    queueMicrotask(() => void this.#claimQueued())
  }

  async #claimQueued(): Promise<void> {
    const { store, lanes, logger } = this.#parts
    while (this.#claimQueue.length > 0) {
      const batch = this.#claimQueue.splice(0, CLAIM_BATCH)
      const { workerId } = lanes
      try {
        await this.#guard.during(async (readId) => {
          // While they waited we may have been fenced: under the new id these lanes can be somebody else's.
          const ours = batch.filter(({ lane }) => lanes.owns(this.name, lane))
          const ids = ours.map(({ id }) => id)
          if (ids.length === 0) return
          const heads = await store.queue.claim(workerId, ids, AHEAD_LIMIT)
          this.#takeClaimed(ours, heads, { workerId, readId })
        })
      } catch (error) {
        logger.log('warn', 'keyed events could not be claimed; the poller takes them', {
          error: String(error),
        })
        this.poller.nudge()
      }
      for (const { lane } of batch) this.#laneEnds(lane)
    }
    this.#claiming = false
  }

  #takeClaimed(
    batch: readonly HotDelivery[],
    heads: readonly ClaimedHead[],
    { workerId, readId }: { readonly workerId: string; readonly readId: number },
  ): void {
    const byId = new Map(batch.map((hot) => [hot.id, hot]))
    const inOrder = [...heads].sort((a, b) => (a.seq < b.seq ? -1 : 1))
    let left = heads.length < batch.length
    for (const { id, seq, ahead } of inOrder) {
      const hot = byId.get(id)
      if (hot === undefined) continue
      const { key } = hot.event
      const first = key === null || (ahead.length < AHEAD_LIMIT && this.#isFirst(key, ahead, readId))
      const delivery = toDelivery(hot, { kind: 'lane', workerId }, seq)
      if (!first || this.#admission.isBeingHeld(id) || !this.dispatcher.enqueueHot(delivery)) left = true
    }
    if (left) this.poller.nudge()
  }

  /** Everything before it in its key is in our hands. */
  #isFirst(key: string, ahead: readonly string[], readId: number): boolean {
    return this.#isCurrent(key, readId) && this.dispatcher.queues.coversKey(key, ahead)
  }

  #laneBegins(lane: number): void {
    this.#pendingLanes.set(lane, (this.#pendingLanes.get(lane) ?? 0) + 1)
  }

  #laneEnds(lane: number): void {
    const left = (this.#pendingLanes.get(lane) ?? 1) - 1
    if (left > 0) this.#pendingLanes.set(lane, left)
    else this.#pendingLanes.delete(lane)
  }

  // --------------------------------------------------------------------------------------- lanes

  lanesGained(unclean: readonly number[]): void {
    this.#admission.suspectLanes(unclean)
    this.poller.rewind()
  }

  /** Everything queued under this worker id belongs to others now. */
  fenced(workerId: string): void {
    this.dispatcher.dropQueued(({ right }) => right.kind === 'lane' && right.workerId === workerId)
    this.poller.rewind()
  }

  /** Its row may be here again already, by the right of its lane: a poll brought it. */
  claimLost(deliveryId: string): void {
    this.dispatcher.dropQueued((delivery) => delivery.id === deliveryId && isHot(delivery))
  }

  /** Something of this lane is claimed, in flight or unsettled. */
  isUnderWay(lane: number): boolean {
    return this.#pendingLanes.has(lane) || this.dispatcher.queues.isUnderWay(lane)
  }

  /** Something of this lane is queued, claimed, in flight or unsettled. Queued ones are let go on the spot. */
  isBusy(lane: number): boolean {
    const isOfIt = (delivery: Delivery): boolean => delivery.lane === lane && !isHot(delivery)
    if (!this.#pendingLanes.has(lane)) this.#letGoQueued(isOfIt)
    return this.#pendingLanes.has(lane) || this.dispatcher.queues.some(isOfIt)
  }

  /** The row of a suspect carries a token, which the next owner of its lane would take for a second suspicion. */
  #letGoQueued(leaves: (delivery: Delivery) => boolean): void {
    for (const delivery of this.dispatcher.dropQueued(leaves)) {
      if (!delivery.suspected) continue
      this.#laneBegins(delivery.lane)
      this.dispatcher.settleUnsent(delivery, { kind: 'released' }, () => this.#laneEnds(delivery.lane))
    }
  }

  // --------------------------------------------------------------------------------------- endings

  /** What becomes of the next settle of this delivery. */
  settled(deliveryId: string): Promise<Settled> {
    return new Promise((resolve) => this.#watched.set(deliveryId, resolve))
  }

  #ended(delivery: Delivery, outcome: Outcome, settled: Settled): void {
    const { hotClaims, metrics, logger } = this.#parts
    if (delivery.right.kind === 'token') hotClaims.remove(delivery.id)
    if (settled === 'lost') {
      metrics.rightsLost(this.name, 1)
      logger.log('warn', 'our right to a delivery had run out; whoever has it now sends it', {
        destination: this.name,
        event: delivery.event.id,
        outcome: outcome.kind,
      })
    } else if (settled === 'written' && metrics !== NOOP_METRICS) this.#measure(delivery, outcome)
    const { key } = delivery.event
    if (key !== null && this.dispatcher.queues.isStalledBy(delivery)) void this.#close(key, delivery.id)
    this.#guard.after(() => {
      this.dispatcher.queues.forget(delivery)
      this.dispatcher.afterForget()
    })
    if (outcome.kind === 'released' || settled !== 'written') this.poller.sweepSoon()
    else if (outcome.kind === 'retry') this.poller.nudge()
    this.#watched.get(delivery.id)?.(settled)
    this.#watched.delete(delivery.id)
    this.#parts.ended(delivery, outcome, settled)
  }

  #measure(delivery: Delivery, { kind }: Outcome): void {
    const { metrics, runtime } = this.#parts
    const { committedAt, dueAt, source } = delivery
    if (kind === 'done' || kind === 'dead') metrics.observeAttempts(this.name, kind, attemptNumber(delivery))
    const since = committedAt ?? dueAt
    if (kind !== 'done' || since === undefined) return
    const lagMs = Math.max(0, runtime.monotonicNow() - since)
    metrics.observeLag(this.name, source, lagMs)
    if (committedAt !== undefined) metrics.observeLatency(this.name, lagMs)
  }

  /**
   * The head of a key failed, or our right to it is gone: what waits behind it in memory leaves and is read
   * again; then the database says who is behind whom. Reads that began before this moment are of no use for
   * the key any more: they took those rows for being in our hands.
   */
  async #close(key: string, failedId: string): Promise<void> {
    const { queues } = this.dispatcher
    const behind = queues.takeStalled(key)
    await this.#hold(behind)
    for (const delivery of [...behind, ...queues.takeStalled(key)]) queues.forget(delivery)
    const { next } = this.#guard
    this.#reopened.set(key, next)
    this.#guard.after(() => {
      if (this.#reopened.get(key) === next) this.#reopened.delete(key)
    })
    queues.unstall(key, [failedId])
    this.dispatcher.afterForget()
    this.poller.sweepSoon()
  }

  /** Whether a read is young enough to say something about this key. */
  #isCurrent(key: string | null, readId: number): boolean {
    return key === null || readId >= (this.#reopened.get(key) ?? 0)
  }

  /** Spares the poller a second look at the rows; what is not held now it finds behind its head later. */
  async #hold(behind: readonly Delivery[]): Promise<void> {
    const { lanes, store, logger } = this.#parts
    const { workerId } = lanes
    const ids = behind
      .filter(({ right }) => right.kind === 'lane' && right.workerId === workerId)
      .map(({ id }) => id)
    if (ids.length === 0 || !lanes.isValid(workerId)) return
    try {
      await store.queue.hold(workerId, this.name, ids)
    } catch (error) {
      logger.log('warn', 'rows behind a failed head could not be put aside yet', { error: String(error) })
    }
  }

  #roomFreed(): void {
    this.poller.roomFreed()
  }
}

const toDelivery = (hot: HotDelivery, right: Delivery['right'], seq: bigint | null): Delivery => ({
  id: hot.id,
  event: hot.event,
  destination: hot.destination,
  run: 1,
  lane: hot.lane,
  seq,
  attempts: 0,
  attemptSpent: false,
  alone: false,
  holdsKey: false,
  right,
  source: 'hot',
  committedAt: hot.committedAt,
})
