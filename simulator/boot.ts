/**
 * One life of a process: from its start to its crash or stop. Whatever it does to the outside goes through the
 * simulated runtime, network and sinks, which all ask whether it is still alive.
 */

import type { DestinationOptions, OutboxOptions } from '../src/core/options.ts'
import { createOutbox } from '../src/core/outbox.ts'
import type { Outbox } from '../src/core/outbox-api.ts'
import { exponential } from '../src/core/policy/retry.ts'
import { NOOP_METRICS } from '../src/core/runtime/metrics.ts'
import type { Metrics, Runtime } from '../src/core/spi/index.ts'
import { type MemoryStore, type MemoryTransaction, memoryStore } from '../src/stores/memory/index.ts'
import { intercept } from './intercept.ts'
import type { Ledger } from './ledger.ts'
import { networkLayer } from './network.ts'
import { Observer } from './observer.ts'
import { type DestinationPlan, mostAtOnce, type ProcessPlan } from './plan.ts'
import type { Random } from './random.ts'
import type { Owner } from './scheduler.ts'
import type { Sinks } from './sinks.ts'
import { SimulatedTransactions } from './transactions.ts'
import { simulatedWakeup } from './wake-ups.ts'
import { EPOCH_MS, type World } from './world.ts'

export type SimulatedOutbox = Outbox<MemoryTransaction, MemoryTransaction>

/** Timers are late by up to this, as they are everywhere. */
const TIMER_SLACK_MS = 1.5

export class Boot implements Owner {
  readonly name: string
  readonly plan: ProcessPlan
  readonly observer: Observer
  readonly transactions: SimulatedTransactions
  readonly outbox: SimulatedOutbox
  /** Deliveries that were sent and not answered. */
  readonly inFlight = new Set<string>()
  /** Deliveries that were under way when it stood still: it may have given them up before they arrive. */
  readonly doubtful = new Set<string>()
  readonly newVersion: boolean
  /** When it learned that a destination is paused. */
  readonly knowsPaused = new Map<string, number>()
  alive = true
  pausedUntil = 0
  /** Up: started, or a writer that never starts. */
  ready = false
  stopping = false
  readonly #world: World
  readonly #store: MemoryStore
  readonly #random: Random

  constructor(
    world: World,
    ledger: Ledger,
    sinks: Sinks,
    plan: ProcessPlan,
    life: number,
    newVersion: boolean,
  ) {
    this.name = `${plan.name}#${life}`
    this.plan = plan
    this.newVersion = newVersion
    this.#world = world
    this.#random = world.stream(this.name)
    if (plan.skewMs !== 0) world.count('skew')
    this.#store = memoryStore({ database: world.database })
    this.observer = new Observer(world, ledger, this.name)
    this.transactions = new SimulatedTransactions(world, this, this.#store.transactions)
    const { defect } = world
    const stored = defect?.database ? intercept(this.#store, defect.database(world, this)) : this.#store
    const store = intercept(intercept(stored, this.observer.layer), networkLayer(world, this))
    const doomed: typeof store.insert = (tx, request) =>
      store.insert(tx, request).catch((error: unknown) => {
        // A statement that failed took its connection with it, and the server rolls back what it left open.
        if (!tx.log.over) tx.log.rollback()
        throw error
      })
    const { wakes } = world.plan
    const runtime = this.#createRuntime()
    const options = this.#options(sinks)
    this.outbox = createOutbox({
      ...(defect?.options?.(options) ?? options),
      store: { ...store, insert: doomed, ...(wakes ? { wakeup: simulatedWakeup(world, this) } : {}) },
      transactions: this.transactions,
      runtime,
      metrics: this.#createMetrics(),
      logger: { log: (level, message) => world.note(this.name, `${level}: ${message}`) },
    }) as SimulatedOutbox
    if (plan.role === 'worker') this.#listen(sinks)
  }

  /** Comes up, however often the database has to be asked. */
  async start(): Promise<void> {
    if (this.plan.role === 'writer') {
      this.ready = true
      return
    }
    for (;;) {
      try {
        await this.outbox.start()
        break
      } catch (error) {
        this.#world.note(this.name, `start failed: ${String(error)}`)
        await this.#world.scheduler.sleep(200, this)
      }
    }
    this.ready = true
    this.#world.note(this.name, '*is up')
  }

  /** Graceful: drains, gives up its lanes, goes. */
  async stop(): Promise<void> {
    this.stopping = true
    this.#world.note(this.name, '*begins to stop')
    const { clean } = await this.outbox.stop()
    await this.outbox.close()
    this.#world.note(this.name, `*has stopped${clean ? '' : ', with something still under way'}`)
    this.#world.count(clean ? 'stoppedClean' : 'stoppedUnclean')
    this.alive = false
    // Who leaves in order has written down everything that it sent.
    if (!clean) this.#leaveUnsettled()
  }

  /** From this moment nothing of it happens any more. */
  crash(why: string): void {
    if (!this.alive) return
    this.#world.note(this.name, `*crashes: ${why}`)
    this.alive = false
    this.#leaveUnsettled()
    // The server notices after a while and rolls back what was open.
    this.#world.scheduler.after(this.#world.network.between(0, 300), () => void this.#store.close())
  }

  pause(durationMs: number): void {
    this.#world.note(this.name, `*stands still for ${Math.round(durationMs)} ms`)
    this.pausedUntil = this.#world.now + durationMs
    // An answer that comes while it sleeps may be too late when it wakes.
    for (const id of this.inFlight) {
      this.doubtful.add(id)
      this.#world.truth.answersFor(id).failures += 1
    }
    for (const { receipts } of this.#world.truth.journeys.values()) {
      for (const receipt of receipts) {
        if (receipt.boot === this.name && this.inFlight.has(receipt.deliveryId)) receipt.replyFailed = true
      }
    }
  }

  /** An answer about the registry has come. */
  learnRegistry(answer: object): void {
    const { truth, now } = this.#world
    const readAt = truth.registryReadAt.get(answer) ?? 0
    for (const [destination, since] of truth.pausedSince) {
      if (since < readAt && !this.knowsPaused.has(destination)) this.knowsPaused.set(destination, now)
    }
    for (const destination of this.knowsPaused.keys()) {
      if (!truth.pausedSince.has(destination)) this.knowsPaused.delete(destination)
    }
  }

  #leaveUnsettled(): void {
    for (const { receipts } of this.#world.truth.journeys.values()) {
      for (const receipt of receipts)
        if (receipt.boot === this.name && !receipt.settled) receipt.senderGone = true
    }
  }

  #createRuntime(): Runtime {
    const { scheduler } = this.#world
    const random = this.#random
    const bootedAt = random.between(0, 1e6)
    return {
      wallNow: () => EPOCH_MS + scheduler.now + this.plan.skewMs,
      monotonicNow: () => scheduler.now + bootedAt,
      random: () => random.next(),
      randomBytes: (size) => random.bytes(size),
      schedule: (delayMs, fn) => {
        if (!this.alive) return () => undefined
        return scheduler.after(Math.max(0, delayMs) + random.between(0, TIMER_SLACK_MS), fn, this)
      },
      yield: () => scheduler.sleep(0, this),
      processName: this.name,
    }
  }

  #createMetrics(): Metrics {
    const world = this.#world
    const { settings } = world.plan
    const breakers = new Map<string, string>()
    return {
      ...NOOP_METRICS,
      hotDropped: () => world.count('hotOverflow'),
      breakerState: (destination, state) => {
        const before = breakers.get(destination) ?? 'closed'
        breakers.set(destination, state)
        if (before === 'closed' && state !== 'closed') world.count('breakerOpened')
        if (before !== 'closed' && state === 'closed') world.count('breakerClosed')
      },
      queueDepths: (destination, hot, cold) => {
        // What was under way and could not be sent is put back, whether or not there is room.
        const { concurrency = 1, maxBatch = 1 } =
          this.#destinations.find(({ name }) => name === destination) ?? {}
        const back = mostAtOnce(world.plan, { concurrency }) * maxBatch
        if (hot <= settings.hotQueueCapacity + back && cold <= settings.coldQueueCapacity + back) return
        world.violate(
          '8 bounds',
          `${this.name} has ${hot} hot and ${cold} cold deliveries queued for ${destination}`,
        )
      },
    }
  }

  get #destinations(): readonly DestinationPlan[] {
    return this.#world.plan.destinations.filter(({ late }) => !late || this.newVersion)
  }

  #patternsOf({ patterns, laterPatterns }: DestinationPlan): readonly string[] {
    return this.newVersion ? [...patterns, ...laterPatterns] : patterns
  }

  #options(sinks: Sinks): Omit<OutboxOptions<MemoryTransaction, MemoryTransaction>, 'store'> {
    const { settings } = this.#world.plan
    const { retryBaseMs, retryMaxMs, breakerMaxMs, ...rest } = settings
    const destinations: Record<string, DestinationOptions> = {}
    for (const plan of this.#destinations) {
      const { name, concurrency, maxAttempts, deadHead, timeoutMs, maxBatch, ratePerSecond, kind } = plan
      destinations[name] = {
        events: this.#patternsOf(plan),
        concurrency,
        batchSize: maxBatch,
        deadHead,
        timeoutMs,
        ...(ratePerSecond === null ? {} : { ratePerSecond }),
        retry: exponential({ baseMs: retryBaseMs, maxMs: retryMaxMs, maxAttempts }),
        breaker: { openMs: 100, maxOpenMs: breakerMaxMs },
        ...(kind === 'listener' ? {} : { to: sinks.publisher(this, plan) }),
      }
    }
    const known = new Set(Object.keys(destinations))
    const serve = this.plan.serve?.filter((name) => known.has(name))
    return {
      ...rest,
      destinations,
      cleanupIntervalMs: 0,
      queueBytes: 1_048_576,
      ...(serve === undefined ? {} : { serve }),
    }
  }

  #listen(sinks: Sinks): void {
    for (const plan of this.#destinations) {
      if (plan.kind !== 'listener') continue
      for (const pattern of this.#patternsOf(plan))
        this.outbox.on(plan.name, pattern, sinks.listener(this, plan))
    }
  }
}
