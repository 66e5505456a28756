/**
 * The delivering side of one process: one settler, one worker with its lanes, and a flow per destination it
 * serves. Publishing hands over what was committed through `HotIntake`.
 */
import type { Delivery, Outcome } from '../model/delivery.ts'
import { LANES } from '../model/lane.ts'
import type { ResolvedDestination } from '../options.ts'
import { type OpenBreaker, within } from '../spi/index.ts'
import { DestinationFlow } from './destination-flow.ts'
import type { EngineParts } from './engine-parts.ts'
import { Expander } from './expand.ts'
import { HotClaims } from './hot-claims.ts'
import type { HotDelivery, HotIntake } from './hot-intake.ts'
import { inHandSettled } from './in-hand.ts'
import { Lanes } from './lanes.ts'
import { dutiesOf } from './maintainers/duties.ts'
import { DutyLoop } from './maintainers/duty.ts'
import { reconcilerDuty } from './maintainers/reconciler.ts'
import { Quarantine } from './quarantine.ts'
import { Routes } from './routes.ts'
import { type Settled, Settler } from './settle.ts'

export interface Tally {
  claimed: number
  done: number
  retried: number
  dead: number
}

/** After the drain, what was told to stop gets this share of the drain time to do so. */
const ABORT_SHARE = 0.2
/** For each wait on the database at the end. */
const STORE_GRACE_MS = 2_000

export class Engine implements HotIntake {
  readonly #parts: EngineParts
  readonly #settler: Settler
  readonly #hotClaims: HotClaims
  readonly #lanes: Lanes
  readonly #routes: Routes
  readonly #expander: Expander
  readonly #flows = new Map<string, DestinationFlow>()
  readonly #duties: DutyLoop[] = []
  readonly #quarantine = new Quarantine()
  readonly tally: Tally = { claimed: 0, done: 0, retried: 0, dead: 0 }
  #oldestEnded = Number.POSITIVE_INFINITY
  #accepting = false
  #stopping: Promise<{ readonly clean: boolean }> | null = null
  #unlisten: (() => Promise<void>) | null = null

  constructor(parts: EngineParts) {
    this.#parts = parts
    const { store, options, runtime, logger, metrics, newId } = parts
    this.#settler = new Settler(
      store,
      runtime,
      logger,
      {
        historyLimit: options.historyLimit,
        maxBuffered: 2 * (options.hotQueueCapacity + options.coldQueueCapacity),
        maxBatch: Math.max(1_000, options.pollBatchSize),
        metrics,
      },
      (destination) => this.#flows.get(destination)?.poller.sweepSoon(),
    )
    this.#hotClaims = new HotClaims(store, runtime, logger, options.hotLeaseMs, (id) => {
      for (const flow of this.#flows.values()) flow.claimLost(id)
    })
    this.#routes = new Routes(parts.declared, logger, (settings) =>
      this.#flows.get(settings.name)?.apply(settings),
    )
    this.#lanes = new Lanes(
      { store, runtime, logger, metrics, newId, watch: parts.watch },
      {
        leaseMs: options.laneLeaseMs,
        renewMs: options.laneRenewMs,
        destinations: parts.served.map(({ name }) => name),
      },
      {
        changed: (destination, { unclean }) => this.#flows.get(destination)?.lanesGained(unclean),
        fenced: (workerId) => {
          for (const flow of this.#flows.values()) flow.fenced(workerId)
        },
        isBusy: (destination, lane) => this.#flows.get(destination)?.isBusy(lane) ?? false,
        isUnderWay: (destination, lane) => this.#flows.get(destination)?.isUnderWay(lane) ?? false,
        openBreakers: () => this.#openBreakers(),
        renewed: () => void this.#routes.refreshServed(store.registry, (name) => this.#flows.has(name)),
      },
    )
    this.#expander = new Expander({
      store,
      registry: store.registry,
      routes: this.#routes,
      newId,
      workerId: () => this.#lanes.workerId,
      expanded: () => {
        for (const flow of this.#flows.values()) flow.poller.sweepSoon()
        if (!this.servesAll()) parts.tellOthers?.(null)
      },
      unheard: (type) => parts.unheard.note(type),
    })
    for (const destination of parts.served) this.#flows.set(destination.name, this.#createFlow(destination))
  }

  get workerId(): string {
    return this.#lanes.workerId
  }

  /** False: the database may have given its lanes to others by now, or will soon, because it could not be told of us. */
  get holdsLease(): boolean {
    return this.#lanes.isValid(this.#lanes.workerId)
  }

  flow(destination: string): DestinationFlow | undefined {
    return this.#flows.get(destination)
  }

  lanesOwned(destination: string): number {
    return this.#lanes.count(destination)
  }

  /** Nobody else has a lane of any destination, so nobody else has to be told of anything. */
  servesAll(): boolean {
    const heard = this.#routes.registered.filter(({ patterns }) => patterns.length > 0)
    return heard.every(({ name }) => this.#lanes.count(name) === LANES)
  }

  #openBreakers(): readonly OpenBreaker[] {
    const now = this.#parts.runtime.monotonicNow()
    return [...this.#flows].flatMap(([destination, { dispatcher }]) => {
      const openForMs = dispatcher.breaker.openForMs(now)
      return openForMs === null ? [] : [{ destination, openForMs }]
    })
  }

  // ------------------------------------------------------------------------------------- hot intake

  routes(type: string): { readonly destinations: readonly string[]; readonly version: number } | null {
    if (!this.#accepting) return null
    const destinations = this.#routes.routes(type)
    if (destinations.length === 0) this.#parts.unheard.note(type)
    return { destinations, version: this.#routes.version }
  }

  admits(destination: string): boolean {
    return this.#accepting && this.#flows.get(destination)?.dispatcher.admitsHot() === true
  }

  offer(deliveries: readonly HotDelivery[]): void {
    // Listeners must not find themselves in the transaction or the request of whoever published.
    this.#parts.detached(() => {
      for (const delivery of deliveries) this.#flows.get(delivery.destination)?.offer(delivery)
    })
  }

  /** Also what was given back since it stopped. */
  async allWritten(): Promise<void> {
    await within(this.#parts.runtime, STORE_GRACE_MS, this.#settler.idle())
  }

  expectRows(): void {
    for (const flow of this.#flows.values()) flow.poller.expectRows()
  }

  // ------------------------------------------------------------------------------------- life cycle

  /** Declares the destinations, takes lanes and starts reading. */
  start(): Promise<void> {
    return this.#parts.detached(() => this.#start())
  }

  async #start(): Promise<void> {
    await this.#declare()
    this.#accepting = true
    await this.#lanes.start()
    if (this.#parts.options.pollerEnabled) {
      for (const flow of this.#flows.values()) flow.poller.start()
      if (this.#flows.size > 0) await this.#listen()
    }
    this.#startDuties()
  }

  async #listen(): Promise<void> {
    const { store, logger } = this.#parts
    try {
      this.#unlisten = (await store.wakeup?.listen((destinations) => this.#wake(destinations))) ?? null
    } catch (error) {
      logger.log('warn', 'this process does not hear of events that others store; it finds them by polling', {
        error: String(error),
      })
    }
  }

  async #stopListening(): Promise<void> {
    try {
      await this.#unlisten?.()
    } catch (error) {
      this.#parts.logger.log('warn', 'the connection that listened could not be closed', {
        error: String(error),
      })
    }
  }

  #wake(destinations: readonly string[]): void {
    for (const [name, { poller }] of this.#flows) {
      if (destinations.length === 0 || destinations.includes(name)) poller.nudge()
    }
  }

  /** Registers and keeps its lanes, but reads only when told to: for consumers that pull. */
  startManual(): Promise<void> {
    return this.#parts.detached(async () => {
      await this.#declare()
      await this.#lanes.start()
    })
  }

  /** Like `start`, but nothing goes on by itself: for one round of `processOnce`. */
  async startOnce(): Promise<void> {
    await this.#declare()
    await this.#lanes.enter()
  }

  /**
   * Reads and delivers what is due once, and waits until it is settled. True: that was everything, as far as the lanes
   * here show. What comes meanwhile is delivered too, and not waited for.
   */
  runOnce(): Promise<boolean> {
    return this.#parts.detached(() => this.#runOnce())
  }

  async #runOnce(): Promise<boolean> {
    // What ends just now may be released; the read must come after that is written.
    await this.#settled()
    this.nudge()
    const pollers = [...this.#flows.values()].map(({ poller }) => poller)
    const read = await Promise.all(pollers.map(async (one) => (await one.pollAll()) || !one.seesAll))
    return (await this.#settled()) && read.every(Boolean)
  }

  /** Of what ended since this was last asked: when the first came due, by the monotonic clock. A retry is older than all. */
  takeOldestEnded(): number {
    const oldest = this.#oldestEnded
    this.#oldestEnded = Number.POSITIVE_INFINITY
    return oldest
  }

  /** Something was read and is not sent yet: its destination is paused, limited or cannot be reached. */
  hasWaiting(): boolean {
    return [...this.#flows.values()].some(({ dispatcher }) => dispatcher.queues.size > 0)
  }

  /** Destinations of which a read at this moment misses something. */
  partlySeen(): readonly string[] {
    return [...this.#flows].filter(([, { poller }]) => !poller.seesAll).map(([name]) => name)
  }

  nudge(): void {
    for (const flow of this.#flows.values()) flow.poller.sweepSoon()
  }

  /** Stop reading, let running deliveries end for a bounded time, release the rest, give up the lanes. */
  stop(drainMs: number): Promise<{ readonly clean: boolean }> {
    this.#stopping ??= this.#stop(drainMs)
    return this.#stopping
  }

  async #stop(drainMs: number): Promise<{ readonly clean: boolean }> {
    const { runtime } = this.#parts
    this.#accepting = false
    for (const flow of this.#flows.values()) flow.dispatcher.stopTaking()
    // A database that does not answer must not keep us, nor the lanes: what it is asked for is of no use any more.
    const loops = [...[...this.#flows.values()].map(({ poller }) => poller), ...this.#duties]
    const ends = [...loops.map((loop) => loop.close()), this.#stopListening()]
    const closed = await within(runtime, STORE_GRACE_MS, Promise.all(ends))
    const quiet = this.#allQuiet()
    let clean = await within(runtime, drainMs * (1 - ABORT_SHARE), quiet)
    if (!clean) {
      for (const flow of this.#flows.values())
        flow.dispatcher.stopping.abort(new Error('the outbox is stopping'))
      clean = await within(runtime, drainMs * ABORT_SHARE, quiet)
    }
    // A listener that ends later is not followed by the next one: what that needs may be closed by then.
    for (const flow of this.#flows.values()) flow.dispatcher.stopping.abandon()
    const settled = await within(runtime, STORE_GRACE_MS, this.#settler.idle())
    // Whatever ends from here on is settled by nobody: its rights run out.
    this.#settler.abandon()
    this.#hotClaims.close()
    clean &&= settled
    let given = false
    const giving = this.#lanes.stop(clean).then(
      () => {
        given = true
      },
      (error: unknown) => {
        this.#parts.logger.log('warn', 'lanes could not be given up; their lease runs out', {
          error: String(error),
        })
      },
    )
    await within(runtime, STORE_GRACE_MS, giving)
    return { clean: clean && closed && given }
  }

  /** An operator changed something: see what, and look at the rows. */
  operated(): Promise<void> {
    // What was queued during a pause is sent from here.
    return this.#parts.detached(async () => {
      await this.#routes.refresh(this.#parts.store.registry)
      this.nudge()
      if (!this.servesAll()) this.#parts.tellOthers?.(null)
    })
  }

  async #declare(): Promise<void> {
    const { store, declared } = this.#parts
    const destinations = declared.map(({ name, patterns, paused }) => ({ name, patterns, paused }))
    await this.#routes.learn(() => store.registry.declare(destinations))
  }

  #settled(): Promise<boolean> {
    const dispatchers = [...this.#flows.values()].map(({ dispatcher }) => dispatcher)
    return inHandSettled(dispatchers, this.#settler)
  }

  async #allQuiet(): Promise<void> {
    for (const flow of this.#flows.values()) await flow.dispatcher.quiet()
  }

  #createFlow(destination: ResolvedDestination): DestinationFlow {
    const { options, store, runtime, logger, metrics, newId, manual, failed } = this.#parts
    return new DestinationFlow({
      destination,
      options,
      listeners: this.#parts.listeners(destination.name),
      store,
      runtime,
      logger,
      metrics,
      settler: this.#settler,
      lanes: this.#lanes,
      hotClaims: this.#hotClaims,
      newId,
      manual,
      quarantine: this.#quarantine,
      expand: () => this.#expander.run(),
      tellOthers: () => this.#parts.tellOthers?.(destination.name),
      failed,
      ended: (delivery, outcome, settled) => {
        this.#count(delivery, outcome, settled)
        this.#parts.ended?.(delivery)
      },
    })
  }

  #startDuties(): void {
    const { store, options, runtime, logger, metrics, newId, served } = this.#parts
    // A process that only publishes leaves the tables alone, unless it is there for them.
    if (!(options.maintain ?? served.length > 0)) return
    const parts = { store, runtime, logger, workerId: () => this.#lanes.workerId }
    const added = (destination: string, count: number): void => {
      logger.log('info', 'deliveries that older publishers missed were added', { destination, count })
      this.#flows.get(destination)?.poller.sweepSoon()
    }
    const reconciler = reconcilerDuty(store, this.#routes, newId, added)
    const duties = dutiesOf(store, options, logger, metrics, reconciler)
    const loops = duties.map((duty) => new DutyLoop(duty, parts))
    this.#duties.push(...loops)
    for (const loop of loops) loop.start()
  }

  #count({ attempts, committedAt, dueAt }: Delivery, outcome: Outcome, settled: Settled): void {
    if (settled !== 'written' || outcome.kind === 'released') return
    const since = attempts > 0 ? undefined : (committedAt ?? dueAt)
    this.#oldestEnded = Math.min(this.#oldestEnded, since ?? Number.NEGATIVE_INFINITY)
    this.tally.claimed += 1
    if (outcome.kind === 'done') this.tally.done += 1
    else if (outcome.kind === 'retry') this.tally.retried += 1
    else this.tally.dead += 1
  }
}
