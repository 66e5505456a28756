/**
 * The stages as parts, for programs that want to put them together themselves instead of using `createOutbox`:
 * a dispatcher for the listeners of this process, a poller that feeds it, and a client that publishes into it.
 * They are the same stages; this file only gives them constructors that stand on their own.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import { checkMethods, checkTransactions } from './check-options.ts'
import { LOCAL } from './destinations.ts'
import { ERROR_CODES, OutboxError } from './errors.ts'
import { Engine } from './flow/engine.ts'
import type { Detached } from './flow/engine-parts.ts'
import type { HotDelivery, HotIntake } from './flow/hot-intake.ts'
import { LeaseWatch } from './flow/lease-watch.ts'
import type { Publishing } from './flow/publishing.ts'
import { createPublishing } from './flow/transactions-api.ts'
import { UnderWay } from './flow/under-way.ts'
import { UnheardTypes } from './flow/unheard-types.ts'
import { InFlightTracker } from './in-flight-tracker.ts'
import type { ListenerRegistry } from './listeners.ts'
import type { Delivery } from './model/delivery.ts'
import { refuseUnknown } from './model/unknown-names.ts'
import { createIdGenerator } from './model/uuid.ts'
import {
  boundedNumber,
  type OutboxOptions,
  type ResolvedOptions,
  resolveDestination,
  resolveOptions,
} from './options.ts'
import type { RetryPolicy } from './policy/retry.ts'
import { guardedLogger, SILENT_LOGGER } from './runtime/logger.ts'
import { guardedMetrics, NOOP_METRICS } from './runtime/metrics.ts'
import { createSystemRuntime } from './runtime/system-runtime.ts'
import { requireSchema } from './schema-api.ts'
import type { Logger, Metrics, Runtime, Store, Transactions } from './spi/index.ts'

export interface DispatcherOptions<Tx, E> {
  readonly store: Store<Tx, E>
  readonly listeners: ListenerRegistry
  /** Default: one without a time limit. */
  readonly inFlight?: InFlightTracker
  /** Default exponential, 200 ms to 60 s, 10 attempts. */
  readonly retry?: RetryPolicy
  /** Listeners at work at once. Default 4; 1 to 1,000. */
  readonly workers?: number
  /** Default 1,000; 1 to 1,000,000. */
  readonly hotQueueCapacity?: number
  /** Default 1,000; 1 to 1,000,000. */
  readonly coldQueueCapacity?: number
  readonly metrics?: Metrics
  readonly logger?: Logger
  readonly runtime?: Runtime
}

export interface PollerOptions {
  /** Leave rows to the hot path for this long, in ms. Default 1,000; 0 to 60,000. */
  readonly skipRecentMs?: number
  /** Rows per read. Default 200; 1 to 10,000. */
  readonly batchSize?: number
  /** Pause between reads, in ms. Default 5,000; 10 to 3,600,000. */
  readonly intervalMs?: number
}

const namesOf = (names: Readonly<Record<string, true>>): ReadonlySet<string> => new Set(Object.keys(names))

const DISPATCHER_NAMES = namesOf({
  store: true,
  listeners: true,
  inFlight: true,
  retry: true,
  workers: true,
  hotQueueCapacity: true,
  coldQueueCapacity: true,
  metrics: true,
  logger: true,
  runtime: true,
} satisfies Record<keyof DispatcherOptions<never, never>, true>)

const POLLER_BOUNDS = {
  skipRecentMs: [0, 60_000],
  batchSize: [1, 10_000],
  intervalMs: [10, 3_600_000],
} as const satisfies Record<keyof PollerOptions, readonly [number, number]>

const POLLER_NAMES: ReadonlySet<string> = new Set(['dispatcher', ...Object.keys(POLLER_BOUNDS)])
const CLIENT_NAMES: ReadonlySet<string> = new Set(['dispatcher', 'transactions'])

const checkDispatcherOptions = (given: DispatcherOptions<never, never>): void => {
  refuseUnknown('Dispatcher', given, DISPATCHER_NAMES)
  const { listeners, inFlight, workers } = given
  checkMethods('listeners', listeners, 'a ListenerRegistry', ['patterns'])
  if (inFlight !== undefined)
    checkMethods('inFlight', inFlight, 'an InFlightTracker', ['tryAcquire', 'release'])
  // It becomes the concurrency of a destination, which would be named otherwise.
  if (workers !== undefined) boundedNumber('workers', workers, [1, 1_000])
}

const checkDispatcher = (given: unknown): void =>
  checkMethods('dispatcher', given, 'a Dispatcher', ['configure', 'open'])

/** Hot and cold queues of destination `local` and the workers behind them. */
export class Dispatcher<Tx = unknown, E = unknown> implements HotIntake {
  readonly store: Store<Tx, E>
  readonly runtime: Runtime
  readonly logger: Logger
  readonly metrics: Metrics
  readonly inFlight: InFlightTracker
  readonly #given: DispatcherOptions<Tx, E>
  #engine: Engine
  #opening: Promise<void> | null = null
  readonly #detached = AsyncLocalStorage.snapshot() as Detached
  #options: ResolvedOptions

  constructor(given: DispatcherOptions<Tx, E>) {
    checkDispatcherOptions(given as DispatcherOptions<never, never>)
    this.#given = given
    this.#options = this.#resolve({})
    this.store = given.store
    this.runtime = given.runtime ?? createSystemRuntime()
    this.logger = guardedLogger(given.logger ?? SILENT_LOGGER)
    this.metrics = guardedMetrics(given.metrics ?? NOOP_METRICS)
    this.inFlight = given.inFlight ?? new InFlightTracker(undefined, this.runtime)
    this.#engine = this.#createEngine()
  }

  get options(): ResolvedOptions {
    return this.#options
  }

  /** What a poller for this dispatcher wants; before `open`. */
  configure(polling: PollerOptions): void {
    if (this.#opening !== null) {
      throw new OutboxError(
        ERROR_CODES.conflict,
        'this dispatcher is open already: create its Poller before open() and before the first publish',
      )
    }
    this.#options = this.#resolve(polling)
    this.#engine = this.#createEngine()
  }

  /** Opens the store, declares `local` and takes its lanes; publishing and polling do this by themselves. */
  open(): Promise<void> {
    this.#opening ??= this.#open().catch((error: unknown) => {
      this.#opening = null
      throw error
    })
    return this.#opening
  }

  /** False: full, or already in flight; the poller finds it later. */
  enqueueHot(delivery: HotDelivery): boolean {
    const fits = this.admits(delivery.destination)
    // Without a token it is looked up first, and left alone when it belongs to the lane of another process.
    if (fits && delivery.token !== null && !this.inFlight.tryAcquire(delivery.id)) return false
    // A claim that does not fit is released, so that the poller finds it now and not when it runs out.
    this.#engine.offer([delivery])
    return fits
  }

  /** Something that was read from the store; false when there is no room or it is already in flight. */
  enqueueCold(delivery: Delivery): boolean {
    if (!this.inFlight.tryAcquire(delivery.id)) return false
    const taken = this.#engine.flow(LOCAL)?.dispatcher.enqueueCold(delivery) ?? false
    if (!taken) this.inFlight.release(delivery.id)
    return taken
  }

  hasColdQueueCapacity(): boolean {
    return this.#engine.flow(LOCAL)?.dispatcher.hasColdQueueCapacity() ?? false
  }

  /** Lets running listeners end for a bounded time, gives the rest back. */
  async close(): Promise<void> {
    await this.#opening?.catch(() => undefined)
    await this.#engine.stop(this.#options.drainMs)
  }

  routes(type: string): ReturnType<HotIntake['routes']> {
    return this.#engine.routes(type)
  }

  admits(destination: string): boolean {
    return this.#engine.admits(destination)
  }

  get workerId(): string {
    return this.#engine.workerId
  }

  offer(deliveries: readonly HotDelivery[]): void {
    for (const delivery of deliveries) this.enqueueHot(delivery)
  }

  expectRows(): void {
    this.#engine.expectRows()
  }

  async #open(): Promise<void> {
    await this.store.open({ runtime: this.runtime, logger: this.logger })
    await requireSchema(this.#options, this.store)
    await this.#engine.start()
  }

  #resolve(polling: PollerOptions): ResolvedOptions {
    const { store, retry, hotQueueCapacity, coldQueueCapacity, logger, metrics, runtime } = this.#given
    const given: OutboxOptions<Tx, E> = {
      store,
      pollerEnabled: false,
      skipRecentMs: polling.skipRecentMs ?? 1_000,
      pollBatchSize: polling.batchSize ?? 200,
      pollIntervalMs: polling.intervalMs ?? 5_000,
      ...(retry === undefined ? {} : { retry }),
      ...(logger === undefined ? {} : { logger }),
      ...(metrics === undefined ? {} : { metrics }),
      ...(runtime === undefined ? {} : { runtime }),
      ...(hotQueueCapacity === undefined ? {} : { hotQueueCapacity }),
      ...(coldQueueCapacity === undefined ? {} : { coldQueueCapacity }),
    }
    return resolveOptions(given)
  }

  #createEngine(): Engine {
    const { listeners, workers } = this.#given
    const concurrency = workers === undefined ? {} : { concurrency: workers }
    const local = resolveDestination(LOCAL, { events: listeners.patterns(), ...concurrency }, this.#options)
    return new Engine({
      store: this.store as Store,
      options: this.#options,
      runtime: this.runtime,
      logger: this.logger,
      metrics: this.metrics,
      newId: createIdGenerator(this.runtime),
      declared: [local],
      served: [local],
      listeners: () => listeners,
      manual: false,
      watch: new LeaseWatch(),
      unheard: new UnheardTypes(this.logger),
      detached: this.#detached,
      failed: () => undefined,
      ended: ({ id }) => this.inFlight.release(id),
    })
  }

  /** For the poller. */
  get flow(): ReturnType<Engine['flow']> {
    return this.#engine.flow(LOCAL)
  }
}

type PolledDispatcher = Pick<Dispatcher, 'configure' | 'open' | 'flow'>

/** Reads what the hot path did not deliver and puts it into the dispatcher's cold queue. */
export class Poller {
  readonly #dispatcher: PolledDispatcher

  constructor(given: { readonly dispatcher: PolledDispatcher } & PollerOptions) {
    refuseUnknown('Poller', given, POLLER_NAMES)
    const { dispatcher, ...options } = given
    checkDispatcher(dispatcher)
    for (const name of Object.keys(POLLER_BOUNDS) as (keyof PollerOptions)[])
      if (options[name] !== undefined) boundedNumber(name, options[name], POLLER_BOUNDS[name])
    this.#dispatcher = dispatcher
    dispatcher.configure(options)
  }

  /** Polls at its interval from now on. */
  async start(): Promise<void> {
    await this.#dispatcher.open()
    this.#dispatcher.flow?.poller.start()
  }

  /** One cycle. */
  async poll(): Promise<void> {
    await this.#dispatcher.open()
    await this.#dispatcher.flow?.poller.poll()
  }

  async close(): Promise<void> {
    await this.#dispatcher.flow?.poller.close()
  }
}

/** Publishing for parts that were put together by hand: what is committed goes to the dispatcher's hot queue. */
export const createClient = <Tx, E>(given: {
  readonly dispatcher: Dispatcher<Tx, E>
  readonly transactions?: Transactions<Tx, E>
}): Publishing<Tx, E> => {
  refuseUnknown('createClient', given, CLIENT_NAMES)
  const { dispatcher, transactions } = given
  checkDispatcher(dispatcher)
  if (transactions !== undefined) checkTransactions('transactions', transactions)
  const { store, runtime, logger, metrics, options } = dispatcher
  return createPublishing({
    store,
    transactions: transactions ?? store.transactions,
    options,
    runtime,
    logger,
    metrics,
    intake: dispatcher,
    isClosed: () => false,
    underWay: new UnderWay(),
    ready: () => dispatcher.open(),
  })
}
