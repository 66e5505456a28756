/**
 * What programs that run an outbox they did not write see of it: the command line and the worker. They find it behind
 * a registered symbol, because the application may have loaded the other build of this package.
 */
import type { OutboxOptions, ResolvedDestination, ResolvedOptions } from './options.ts'
import { guardedLogger, SILENT_LOGGER } from './runtime/logger.ts'
import { guardedMetrics, NOOP_METRICS } from './runtime/metrics.ts'
import type { Logger, Metrics, RegistryState, Store } from './spi/index.ts'

/** Settings of a destination that may come from outside of the code. */
export interface DestinationSettingsFromOutside {
  readonly concurrency?: number
  readonly batchSize?: number
  readonly ratePerSecond?: number
  readonly timeoutMs?: number
}

/** Instead of what the code says. What is not named stays as it is there. */
export type SettingsFromOutside = Partial<
  Omit<OutboxOptions<unknown, unknown>, 'store' | 'transactions' | 'runtime' | 'destinations'>
> & {
  /** By the names of destinations; `*` is for those that are not named. */
  readonly destinations?: Readonly<Record<string, DestinationSettingsFromOutside>>
  /** For the store, when it is opened. */
  readonly mustExist?: boolean
}

export interface OutboxHost {
  readonly store: Store
  /** What the code gave to `createOutbox`. */
  readonly given: Readonly<OutboxOptions<unknown, unknown>>
  /** What holds now. */
  readonly options: ResolvedOptions
  declared(): readonly ResolvedDestination[]
  served(): readonly ResolvedDestination[]
  /** Names of those that are declared with neither a publisher nor a listener here. */
  unheard(): readonly string[]
  /** Destinations as the database knows them: routes, pauses, rates. */
  registered(): Promise<RegistryState>
  /** Started, and certain of its right to deliver. */
  holdsLease(): boolean
  /** Replaces what an earlier call set. Refused while the outbox is started. */
  configure(settings: SettingsFromOutside): void
}

const HOST = Symbol.for('posthaste.host')

export const attachHost = (outbox: object, host: OutboxHost): void => {
  Object.defineProperty(outbox, HOST, { value: host })
}

/** Null when it is no outbox. */
export const hostOf = (outbox: unknown): OutboxHost | null => {
  if (typeof outbox !== 'object' || outbox === null) return null
  return ((outbox as Record<symbol, unknown>)[HOST] as OutboxHost | undefined) ?? null
}

/** The options that hold with these settings. A policy from outside is for all: no destination can be given one there. */
export const withSettings = <Tx, E>(
  given: OutboxOptions<Tx, E>,
  { destinations: each = {}, mustExist: _, ...settings }: SettingsFromOutside,
): OutboxOptions<Tx, E> => ({
  ...given,
  ...settings,
  destinations: Object.fromEntries(
    Object.entries(given.destinations ?? {}).map(([name, destination]) => [
      name,
      {
        ...destination,
        ...(settings.retry === undefined ? {} : { retry: settings.retry }),
        ...each['*'],
        ...each[name],
      },
    ]),
  ),
})

type SinkOptions = Pick<OutboxOptions<unknown, unknown>, 'logger' | 'metrics'>

/** A logger and metrics for good, which write to those that hold now. */
export class Sinks {
  readonly logger: Logger = guardedLogger({
    isEnabled: (level) => this.#logger.isEnabled?.(level) ?? level !== 'debug',
    log: (level, message, fields) => this.#logger.log(level, message, fields),
  })
  /** For what lives as long as the outbox. */
  readonly metrics: Metrics = metricsBehind(() => this.#metrics)
  #logger: Logger = SILENT_LOGGER
  #metrics: Metrics = NOOP_METRICS

  constructor(given: SinkOptions) {
    this.use(given)
  }

  use({ logger, metrics }: SinkOptions): void {
    this.#logger = logger ?? SILENT_LOGGER
    this.#metrics = guardedMetrics(metrics ?? NOOP_METRICS)
  }

  /** For what begins and ends while nothing can be replaced: directly, and without any work where nobody measures. */
  get currentMetrics(): Metrics {
    return this.#metrics
  }
}

/** Asks anew at every call where to count. */
const metricsBehind = (current: () => Metrics): Metrics => {
  const methods = Object.keys(NOOP_METRICS).map((name) => [
    name,
    (a: unknown, b: unknown, c: unknown): unknown =>
      (current() as unknown as Record<string, (a: unknown, b: unknown, c: unknown) => unknown>)[name]?.(
        a,
        b,
        c,
      ),
  ])
  return Object.fromEntries(methods) as unknown as Metrics
}
