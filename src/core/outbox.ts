/**
 * `createOutbox`: builds the stages and wires them. No logic of its own beyond the life cycle, and no I/O
 * before `start`, the first transaction or the first question.
 *
 *   created ──► (open) ──► started ⇄ stopped ──► closed
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import { optionalText } from './check-options.ts'
import { closePublishers } from './close-publishers.ts'
import { Destinations, type LOCAL } from './destinations.ts'
import { ERROR_CODES, OutboxError } from './errors.ts'
import { Engine } from './flow/engine.ts'
import type { Detached, EngineParts } from './flow/engine-parts.ts'
import { failureReporter } from './flow/failure-reporter.ts'
import type { HotIntake } from './flow/hot-intake.ts'
import { LeaseWatch } from './flow/lease-watch.ts'
import type { Batch } from './flow/pull.ts'
import { createPublishing } from './flow/transactions-api.ts'
import { closedError, UnderWay } from './flow/under-way.ts'
import { UnheardTypes } from './flow/unheard-types.ts'
import { WakeUps } from './flow/wake-ups.ts'
import { attachHost, type SettingsFromOutside, Sinks, withSettings } from './host.ts'
import { createInspect } from './inspection.ts'
import type { Listener } from './listeners.ts'
import { refuseUnknown } from './model/unknown-names.ts'
import { createIdGenerator } from './model/uuid.ts'
import { createOperator } from './operator.ts'
import {
  boundedNumber,
  type DestinationOptions,
  type OutboxOptions,
  type ResolvedDestination,
  type ResolvedOptions,
  resolveOptions,
} from './options.ts'
import type { Outbox } from './outbox-api.ts'
import { Pullers } from './pullers.ts'
import { Rounds } from './rounds.ts'
import { createSystemRuntime } from './runtime/system-runtime.ts'
import { createSchemaApi, requireSchema } from './schema-api.ts'
import type { Logger, Metrics, Runtime, Store, Transactions } from './spi/index.ts'

const STOP_NAMES: ReadonlySet<string> = new Set(['drainMs'])
const FLUSH_NAMES: ReadonlySet<string> = new Set(['timeoutMs'])
const FETCH_NAMES: ReadonlySet<string> = new Set(['destination', 'limit'])

/** With `transactions`, their handles are what `publish` takes; whatever the store's own driver has does not matter. */
export function createOutbox<
  Tx,
  E,
  const D extends Readonly<Record<string, DestinationOptions>> = Record<never, DestinationOptions>,
>(
  given: Omit<OutboxOptions<Tx, E>, 'store'> & {
    readonly store: Omit<Store<unknown, E>, 'transactions'>
    readonly transactions: Transactions<Tx, E>
    readonly destinations?: D
  },
): Outbox<Tx, E, (keyof D & string) | typeof LOCAL>
export function createOutbox<
  Tx,
  E,
  const D extends Readonly<Record<string, DestinationOptions>> = Record<never, DestinationOptions>,
>(
  given: OutboxOptions<Tx, E> & { readonly destinations?: D },
): Outbox<Tx, E, (keyof D & string) | typeof LOCAL>
export function createOutbox<Tx, E>(given: unknown): Outbox<Tx, E> {
  return new OutboxCore<Tx, E>(given as OutboxOptions<Tx, E>).api
}

class OutboxCore<Tx, E> implements HotIntake {
  readonly #store: Store<Tx, E>
  readonly #given: OutboxOptions<Tx, E>
  /** One object for good, which `configure` changes in place: what is built later finds what holds then. */
  readonly #options: ResolvedOptions
  readonly #runtime: Runtime
  readonly #sinks: Sinks
  readonly #logger: Logger
  readonly #metrics: Metrics
  readonly #newId: () => string
  readonly #destinations: Destinations
  readonly #pullers: Pullers
  readonly #rounds: Rounds
  readonly #failed: EngineParts['failed']
  readonly #unheard: UnheardTypes
  readonly #wakeUps: WakeUps
  readonly #underWay = new UnderWay()
  #engine: Engine | null = null
  /** Gives back what was claimed for it and is committed only now. */
  #stopped: Engine | null = null
  #opening: Promise<void> | null = null
  #isOpen = false
  #lifeCycle: Promise<unknown> = Promise.resolve()
  #closing: Promise<void> | null = null
  #notedNotStarted = false
  /** Runs things outside of whatever transaction or request somebody is in who publishes. */
  readonly #detached = AsyncLocalStorage.snapshot() as Detached
  #connected = false
  #mustExist = false
  #closed = false
  readonly api: Outbox<Tx, E>

  constructor(given: OutboxOptions<Tx, E>) {
    this.#given = given
    this.#options = { ...resolveOptions(given) }
    this.#destinations = new Destinations(this.#options)
    this.#store = given.store
    this.#runtime = given.runtime ?? createSystemRuntime()
    this.#sinks = new Sinks(given)
    this.#logger = this.#sinks.logger
    this.#metrics = this.#sinks.metrics
    this.#newId = createIdGenerator(this.#runtime)
    this.#failed = failureReporter(this.#options.onFailure, this.#logger)
    this.#unheard = new UnheardTypes(this.#logger)
    this.#wakeUps = new WakeUps({ store: this.#store as Store, runtime: this.#runtime, logger: this.#logger })
    this.#pullers = new Pullers(
      { runtime: this.#runtime, logger: this.#logger, options: this.#options, detached: this.#detached },
      (destination) => this.#createEngine([destination], true),
    )
    this.#rounds = new Rounds({
      store: this.#store as Store,
      runtime: this.#runtime,
      drainMs: () => this.#options.drainMs,
      ready: () => this.#openToDeliver(),
      running: () => this.#engine,
      create: (watch) => this.#createEngine(this.#destinations.served(), false, watch),
    })
    this.api = this.#createApi(given.transactions ?? given.store.transactions)
    attachHost(this.api, {
      store: this.#store as Store,
      given: given as OutboxOptions<unknown, unknown>,
      options: this.#options,
      declared: () => this.#destinations.declared(),
      served: () => this.#destinations.served(),
      unheard: () => this.#destinations.unheard(),
      registered: () => this.#open().then(() => this.#store.registry.load()),
      holdsLease: () => this.#engine?.holdsLease === true,
      configure: (settings) => this.#configure(settings),
    })
  }

  #configure(settings: SettingsFromOutside): void {
    if (this.#engine !== null) {
      throw new OutboxError(ERROR_CODES.conflict, 'settings cannot change while the outbox is started')
    }
    const given = withSettings(this.#given, settings)
    this.#mustExist = settings.mustExist ?? this.#mustExist
    Object.assign(this.#options, resolveOptions(given), { outside: settings.destinations ?? {} })
    this.#sinks.use(given)
  }

  // ---------------------------------------------------------------------------------------- hot intake

  routes(type: string): ReturnType<HotIntake['routes']> {
    if (this.#engine === null) this.#noteNotStarted()
    return this.#engine?.routes(type) ?? null
  }

  /** Forgetting `start` looks like a listener that does not work. */
  #noteNotStarted(): void {
    if (this.#notedNotStarted || this.#closing !== null || this.#destinations.served().length === 0) return
    this.#notedNotStarted = true
    this.#logger.log('warn', 'published while not started: delivered once a process calls start()')
  }

  admits(destination: string): boolean {
    return this.#engine?.admits(destination) ?? false
  }

  get workerId(): string {
    return this.#engine?.workerId ?? ''
  }

  offer(deliveries: Parameters<HotIntake['offer']>[0]): void {
    ;(this.#engine ?? this.#stopped)?.offer(deliveries)
  }

  expectRows(commit: 'confirmed' | 'unseen'): void {
    this.#engine?.expectRows()
    if (this.#engine?.servesAll() === true) return
    if (commit === 'confirmed') this.#wakeUps.tell(null)
    else this.#wakeUps.tellSoon()
  }

  // --------------------------------------------------------------------------------------- life cycle

  /** Opens the store once; a failure may be tried again. */
  #open(): Promise<void> {
    this.#requireNotClosed()
    this.#opening ??= this.#openStore().then(
      () => {
        this.#isOpen = true
      },
      (error: unknown) => {
        this.#opening = null
        throw error
      },
    )
    return this.#opening
  }

  /** While it closes nothing may begin that nobody would end. */
  async #openToDeliver(): Promise<void> {
    if (this.#closing === null) await this.#open()
    if (this.#closing !== null) throw closedError()
  }

  async #connect(): Promise<void> {
    this.#requireNotClosed()
    this.#connected = true
    await this.#store.open({ runtime: this.#runtime, logger: this.#logger, mustExist: this.#mustExist })
  }

  async #openStore(): Promise<void> {
    await this.#connect()
    await requireSchema(this.#options, this.#store)
  }

  /** Starting, stopping and closing take turns, so that none of them finds another one half done. */
  #inTurn<T>(step: () => Promise<T>): Promise<T> {
    const turn = this.#lifeCycle.then(step)
    this.#lifeCycle = turn.catch(() => undefined)
    // A promise of its own: on `turn` the failure counts as handled, and nobody would hear of it without an await.
    return turn.then((value) => value)
  }

  async #start(): Promise<void> {
    if (this.#engine !== null) return
    await this.#open()
    const served = this.#destinations.served()
    this.#reportUnserved(served)
    const names = served.map(({ name }) => name)
    // Whoever pulled from them so far would keep half of their lanes.
    await this.#pullers.stop(this.#options.drainMs, names)
    const engine = this.#createEngine(served, false)
    this.#engine = engine
    try {
      // Those that came meanwhile; from here on fetch() refuses.
      await this.#pullers.stop(this.#options.drainMs, names)
      await engine.start()
    } catch (error) {
      // What was published meanwhile is committed later, and still to be released.
      this.#stopped = engine
      this.#engine = null
      await engine.stop(0)
      throw error
    }
  }

  #reportUnserved(served: readonly ResolvedDestination[]): void {
    if (this.#options.serve !== null) return
    for (const { name } of this.#destinations.declared()) {
      if (served.some((other) => other.name === name)) continue
      this.#logger.log('info', 'nobody listens at this destination here; it waits for a process that does', {
        destination: name,
      })
    }
  }

  async #stop(drainMs: number): Promise<{ readonly clean: boolean }> {
    // Still the intake while it stops, so that what is committed meanwhile is released at once.
    const engines = [...(this.#engine === null ? [] : [this.#engine]), ...this.#rounds.engines]
    const ended = await Promise.all([
      ...engines.map((engine) => engine.stop(drainMs)),
      this.#pullers.stop(drainMs, null),
    ])
    this.#rounds.stopped()
    this.#stopped = this.#engine ?? this.#stopped
    this.#engine = null
    return { clean: ended.every(({ clean }) => clean) }
  }

  async #close(): Promise<void> {
    const { drainMs } = this.#options
    const since = this.#runtime.monotonicNow()
    await this.#stop(drainMs)
    // Transactions under way may publish and commit: what they run on is closed after them.
    if (!(await this.#underWay.close(this.#runtime, since, drainMs)))
      this.#logger.log('warn', 'closed while transactions are under way: they may fail')
    await this.#stopped?.allWritten()
    this.#closed = true
    await closePublishers(this.#options.destinations.values(), this.#runtime, this.#logger)
    await this.#wakeUps.close()
    if (this.#connected) await this.#store.close()
  }

  async #operated(): Promise<void> {
    await Promise.all([
      this.#engine?.operated(),
      ...this.#rounds.engines.map((engine) => engine.operated()),
      this.#pullers.operated(),
    ])
  }

  // ----------------------------------------------------------------------------------------- delivering

  #createEngine(served: readonly ResolvedDestination[], manual: boolean, watch = new LeaseWatch()): Engine {
    return new Engine({
      store: this.#store as Store,
      options: this.#options,
      runtime: this.#runtime,
      logger: this.#logger,
      metrics: this.#sinks.currentMetrics,
      newId: this.#newId,
      declared: this.#destinations.declared(),
      served,
      listeners: (name) => this.#destinations.registry(name),
      manual,
      watch,
      unheard: this.#unheard,
      detached: this.#detached,
      tellOthers: (destination) => this.#wakeUps.tell(destination),
      failed: this.#failed,
    })
  }

  // --------------------------------------------------------------------------------------------- fetch

  async #fetch(named: string | null, limit: number): Promise<Batch> {
    await this.#openToDeliver()
    const resolved = named === null ? this.#destinations.only() : this.#destinations.require(named)
    const destination = resolved.name
    if (this.#engine?.flow(destination) !== undefined) {
      throw new OutboxError(
        ERROR_CODES.conflict,
        `this process delivers to "${destination}" by itself since start(); leave it out of serve to pull from it`,
        { destination },
      )
    }
    return await this.#pullers.fetch(resolved, limit)
  }

  #on(args: readonly unknown[]): () => void {
    this.#requireNotClosed()
    return this.#destinations.on(args, this.#engine !== null)
  }

  #requireNotClosed(): void {
    if (this.#closed) throw closedError()
  }

  // ------------------------------------------------------------------------------------------- the api

  #createApi(transactions: Transactions<Tx, E>): Outbox<Tx, E> {
    const store = this.#store
    const options = this.#options
    const open = (): Promise<void> => this.#open()
    const publishing = createPublishing<Tx, E>({
      store,
      transactions,
      options,
      runtime: this.#runtime,
      logger: this.#logger,
      metrics: this.#metrics,
      intake: this,
      isClosed: () => this.#closed,
      underWay: this.#underWay,
      ready: () => (this.#isOpen ? undefined : open()),
    })
    const close = (): Promise<void> => {
      this.#closing ??= this.#inTurn(() => this.#close())
      return this.#closing
    }
    const api = Object.assign(publishing, {
      on: (...args: readonly unknown[]) => this.#on(args),
      onAny: (listener: Listener) => this.#on(['*', listener]),
      start: () => this.#inTurn(() => this.#start()),
      stop: async (given: { readonly drainMs?: number } = {}) => {
        refuseUnknown('stop', given, STOP_NAMES)
        const drainMs = boundedNumber('drainMs', given.drainMs ?? options.drainMs, [0, 600_000])
        return await this.#inTurn(() => this.#stop(drainMs))
      },
      close,
      [Symbol.asyncDispose]: close,
      processOnce: () => this.#rounds.processOnce(),
      flush: async (given: { readonly timeoutMs?: number } = {}) => {
        refuseUnknown('flush', given, FLUSH_NAMES)
        const timeoutMs = boundedNumber('timeoutMs', given.timeoutMs ?? 10_000, [1, 3_600_000])
        return await this.#rounds.flush(timeoutMs)
      },
      fetch: async (given: { readonly destination?: string; readonly limit?: number } = {}) => {
        refuseUnknown('fetch', given, FETCH_NAMES)
        const destination = optionalText('destination', given.destination) ?? null
        const limit = boundedNumber('limit', given.limit ?? 100, [1, 10_000])
        return await this.#fetch(destination, limit)
      },
      inspect: createInspect(store.inspection, store.registry, open),
      schema: createSchemaApi(store.schema, () => this.#connect()),
      operator: createOperator({
        store: store as Store,
        options,
        runtime: this.#runtime,
        newId: this.#newId,
        ready: open,
        changed: () => this.#operated(),
      }),
    })
    Object.defineProperty(api, 'isStarted', { get: () => this.#engine !== null })
    return api as unknown as Outbox<Tx, E>
  }
}
