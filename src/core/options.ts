/**
 * Everything a user can set, with its default, unit and bound in one place. `resolveOptions` is pure and
 * runs before anything else: the stages get resolved values only.
 */
import { checkOptions } from './check-options.ts'
import { InvalidOptionError, readGiven } from './errors.ts'
import type { EventRecord, OutboxEvent } from './model/event.ts'
import { checkName } from './model/headers.ts'
import type { TunedName } from './model/settings.ts'
import { shown, shownWithKind } from './model/shown.ts'
import type { BreakerOptions } from './policy/breaker.ts'
import type { FailureClassifier } from './policy/failure.ts'
import { exponential, type RetryPolicy } from './policy/retry.ts'
import { compilePattern } from './policy/routing.ts'
import { guardedTracing } from './runtime/tracing.ts'
import type { Logger, Metrics, Publisher, Runtime, Store, Tracing, Transactions } from './spi/index.ts'

/** What a dead head of a key does to the rows behind it. */
export type DeadHeadPolicy = 'skip' | 'block' | 'park'

/**
 * `visible`: what was committed before a publish began goes before it; transactions that overlap have no order.
 * `locked`: writers of the same key take turns until commit, so that all events of a key have one.
 */
export type KeyOrder = 'visible' | 'locked'

/** Something that names an event type: a definition, the type itself, or a member of an enum-like object. */
export type EventPattern =
  | string
  | { readonly type: string }
  | { readonly name: string; readonly type?: never }

export interface DestinationOptions {
  /** Where to send. Absent: listeners registered in the process that serves it. */
  readonly to?: Publisher
  /** Definitions, types, `order.*` or `*`. */
  readonly events: readonly EventPattern[]
  /** Topic, subject or routing key; the event type by default. */
  readonly topic?: string | ((event: EventRecord) => string)
  readonly retry?: RetryPolicy
  readonly classify?: FailureClassifier
  /** Deliveries or batches under way at once. Default 4, 1 to 1,000. */
  readonly concurrency?: number
  /** Most deliveries in one `send`, also bounded by the publisher. Default 100, 1 to 10,000. */
  readonly batchSize?: number
  /** Deliveries per second; default none. Above 0. */
  readonly ratePerSecond?: number
  /** A delivery that takes longer is aborted and retried, in ms. Default 0 = none, up to 24 h. */
  readonly timeoutMs?: number
  readonly breaker?: Partial<BreakerOptions>
  /** Default `skip`. */
  readonly deadHead?: DeadHeadPolicy
  /** A destination that is declared for the first time does not send until `operator.resume`. Default false. */
  readonly paused?: boolean
}

export interface OutboxOptions<Tx, E> {
  readonly store: Store<Tx, E>
  readonly transactions?: Transactions<Tx, E>
  readonly destinations?: Readonly<Record<string, DestinationOptions>>
  readonly logger?: Logger
  readonly metrics?: Metrics
  /** Spans of distributed tracing, such as `otelTracing()` of `posthaste/otel`. Default none. */
  readonly tracing?: Tracing
  readonly runtime?: Runtime

  /** Create or update the tables at `start`. Default true for embedded stores, so that a first run just works. */
  readonly migrate?: boolean
  /** `false` turns schema validation off. Default true. */
  readonly validate?: boolean
  /** `false` skips checking the text given to `ofJson`. Default true. */
  readonly validateJson?: boolean
  /** `false` skips checking headers. Default true. */
  readonly validateHeaders?: boolean
  /** Largest payload in bytes. Default 1,048,576; 1 to 16 MiB. */
  readonly maxPayloadBytes?: number
  /** Deepest nesting of a JSON payload. Default 64, 1 to 1,000. */
  readonly maxPayloadDepth?: number

  /** Which destinations this process delivers to. Default: all declared ones. `[]` publishes only. */
  readonly serve?: readonly string[]
  /**
   * Look after the tables: cleanup, partitions, statistics, reconciling. Default: if it serves a destination. One process
   * at a time does each of them, for all destinations.
   */
  readonly maintain?: boolean
  /** Lease of this process's lanes, in ms. Default 15,000; 1,000 to 300,000. */
  readonly laneLeaseMs?: number
  /** How often the lease is renewed, in ms. Default a third of the lease; at most half of it. */
  readonly laneRenewMs?: number
  /** How the order of a key comes about. Default `visible`. */
  readonly keyOrder?: KeyOrder
  /** Claim of a hot delivery, in ms. Default 30,000; 1,000 to 3,600,000. */
  readonly hotLeaseMs?: number
  /** Read cold deliveries at all. Default true. */
  readonly pollerEnabled?: boolean
  /** Pause between reads when nothing is due, in ms. Default 1,000; 10 to 3,600,000. */
  readonly pollIntervalMs?: number
  /** The pause grows up to this while nothing happens, in ms. Default 5,000. */
  readonly pollIdleMaxMs?: number
  /** Rows per read. Default 500; 1 to 10,000. */
  readonly pollBatchSize?: number
  /** Leave rows to the hot path for this long after they were stored, in ms. Default 0, up to 60,000. */
  readonly skipRecentMs?: number
  /** Look first at rows stored within this time, in ms; older ones are still swept. Default 0 = off. */
  readonly partitionWindowMs?: number
  /** How often the rows behind the cursor are listed, in ms. Default 100; 10 to 60,000. */
  readonly sweepIntervalMs?: number
  /** Hot deliveries waiting per destination. Default 1,000; 1 to 1,000,000. */
  readonly hotQueueCapacity?: number
  /** Cold deliveries waiting per destination. Default 1,000; 1 to 1,000,000. */
  readonly coldQueueCapacity?: number
  /** Payload bytes waiting per destination. Default 64 MiB; 1 MiB to 4 GiB. */
  readonly queueBytes?: number
  /** A delivery, or pulled batch, that has not ended by then is given up, whatever the handler does, in ms. Default 300,000. */
  readonly hardDeadlineMs?: number
  /** Time for running deliveries at `stop`, in ms. Default 10,000; 0 to 600,000. */
  readonly drainMs?: number
  /** Failed attempts kept per delivery. Default 20; 1 to 1,000. */
  readonly historyLimit?: number
  /** Default retry policy: exponential, 200 ms to 60 s, 10 attempts. */
  readonly retry?: RetryPolicy
  readonly classify?: FailureClassifier
  /** Called for every failed attempt, after it was classified. */
  readonly onFailure?: (failure: FailureReport) => void
  /** Count pending deliveries this often, in ms. Default 0 = off. */
  readonly pendingIntervalMs?: number
  /** Keep finished deliveries, in hours. Default 168. */
  readonly retentionDoneHours?: number
  /** Keep dead deliveries, in hours; null for ever. Default 720. */
  readonly retentionDeadHours?: number | null
  /** Keep idempotency keys, in hours. Default 168. */
  readonly retentionDedupHours?: number
  /** How often the cleanup looks, in ms. Default 3,600,000; 0 turns it off. */
  readonly cleanupIntervalMs?: number
  /** Rows per step of cleaning. Default 1,000; 1 to 10,000. */
  readonly cleanupBatchSize?: number
  /** How far ahead partitions are made, in hours, where the tables have any. Default 720; 1 to 100,000. */
  readonly partitionAheadHours?: number
  /** How often partitions are looked after, in ms. Default 3,600,000; 0 turns it off. */
  readonly partitionIntervalMs?: number
}

export interface FailureReport {
  readonly event: OutboxEvent
  readonly destination: string
  readonly attempt: number
  readonly verdict: 'retry' | 'dead' | 'outage'
  readonly error: unknown
}

export const DEFAULTS = {
  validate: true,
  validateJson: true,
  validateHeaders: true,
  maxPayloadBytes: 1_048_576,
  maxPayloadDepth: 64,
  keyOrder: 'visible',
  laneLeaseMs: 15_000,
  hotLeaseMs: 30_000,
  pollerEnabled: true,
  pollIntervalMs: 1_000,
  pollIdleMaxMs: 5_000,
  pollBatchSize: 500,
  skipRecentMs: 0,
  partitionWindowMs: 0,
  sweepIntervalMs: 100,
  hotQueueCapacity: 1_000,
  coldQueueCapacity: 1_000,
  queueBytes: 64 * 1_048_576,
  hardDeadlineMs: 300_000,
  drainMs: 10_000,
  historyLimit: 20,
  pendingIntervalMs: 0,
  retentionDoneHours: 168,
  retentionDeadHours: 720,
  retentionDedupHours: 168,
  cleanupIntervalMs: 3_600_000,
  cleanupBatchSize: 1_000,
  partitionAheadHours: 720,
  partitionIntervalMs: 3_600_000,
  concurrency: 4,
  batchSize: 100,
  timeoutMs: 0,
} as const

const HOUR_MS = 3_600_000

/** Bounds of every number; [lowest, highest]. */
const BOUNDS = {
  maxPayloadBytes: [1, 16 * 1_048_576],
  maxPayloadDepth: [1, 1_000],
  laneLeaseMs: [1_000, 300_000],
  hotLeaseMs: [1_000, HOUR_MS],
  pollIntervalMs: [10, HOUR_MS],
  pollIdleMaxMs: [10, HOUR_MS],
  pollBatchSize: [1, 10_000],
  skipRecentMs: [0, 60_000],
  partitionWindowMs: [0, 365 * 24 * HOUR_MS],
  sweepIntervalMs: [10, 60_000],
  hotQueueCapacity: [1, 1_000_000],
  coldQueueCapacity: [1, 1_000_000],
  queueBytes: [1_048_576, 4 * 1_073_741_824],
  hardDeadlineMs: [1, 24 * HOUR_MS],
  drainMs: [0, 600_000],
  historyLimit: [1, 1_000],
  pendingIntervalMs: [0, 24 * HOUR_MS],
  retentionDoneHours: [0, 100_000],
  retentionDedupHours: [0, 100_000],
  cleanupIntervalMs: [0, 7 * 24 * HOUR_MS],
  cleanupBatchSize: [1, 10_000],
  partitionAheadHours: [1, 100_000],
  partitionIntervalMs: [0, 7 * 24 * HOUR_MS],
} as const satisfies Partial<Record<keyof typeof DEFAULTS, readonly [number, number]>>

/** Of what each destination has for itself. */
export const DESTINATION_BOUNDS = {
  concurrency: [1, 1_000],
  batchSize: [1, 10_000],
  ratePerSecond: [0.001, 10_000_000],
  timeoutMs: [0, 24 * HOUR_MS],
} as const satisfies Partial<Record<keyof DestinationOptions, readonly [number, number]>>

/** What an operator may set while it runs; the same bounds as those of the options. */
export const TUNED_BOUNDS: Readonly<Record<TunedName, readonly [number, number]>> = {
  concurrency: DESTINATION_BOUNDS.concurrency,
  batchSize: DESTINATION_BOUNDS.batchSize,
  pollBatchSize: BOUNDS.pollBatchSize,
  pollIntervalMs: BOUNDS.pollIntervalMs,
}

export type NumericOption = keyof typeof BOUNDS

export interface ResolvedDestination {
  readonly name: string
  readonly to: Publisher | null
  readonly patterns: readonly string[]
  readonly topic: (event: EventRecord) => string
  readonly retry: RetryPolicy
  readonly classify: FailureClassifier | null
  readonly concurrency: number
  readonly batchSize: number
  readonly ratePerSecond: number | null
  readonly timeoutMs: number
  readonly breaker: Partial<BreakerOptions>
  readonly deadHead: DeadHeadPolicy
  readonly paused: boolean
}

export interface ResolvedOptions extends Readonly<Record<NumericOption, number>> {
  readonly validate: boolean
  readonly validateJson: boolean
  readonly validateHeaders: boolean
  readonly migrate: boolean
  readonly keyOrder: KeyOrder
  readonly pollerEnabled: boolean
  readonly laneRenewMs: number
  readonly retentionDeadHours: number | null
  readonly retry: RetryPolicy
  readonly classify: FailureClassifier | null
  readonly onFailure: ((failure: FailureReport) => void) | null
  /** Guarded: it never throws. */
  readonly tracing: Tracing | null
  readonly destinations: ReadonlyMap<string, ResolvedDestination>
  /** Settings of destinations from outside of the code, for `local`, which is declared only at start. */
  readonly outside: Readonly<Record<string, Partial<DestinationOptions>>>
  /** Null: all declared ones. */
  readonly serve: readonly string[] | null
  /** Null: if it serves a destination. */
  readonly maintain: boolean | null
}

export const boundedNumber = (
  option: string,
  value: unknown,
  [lowest, highest]: readonly [number, number],
  integer = true,
): number => {
  const ok = typeof value === 'number' && Number.isFinite(value) && value >= lowest && value <= highest
  if (!ok || (integer && !Number.isInteger(value))) {
    const kind = integer ? 'a whole number' : 'a number'
    throw new InvalidOptionError(
      `${option} must be ${kind} from ${lowest} to ${highest}, not ${shownWithKind(value)}`,
      {
        option,
        value,
      },
    )
  }
  return value
}

export const oneOf = <T extends string>(option: string, value: unknown, allowed: readonly T[]): T => {
  if (!allowed.includes(value as T)) {
    throw new InvalidOptionError(`${option} must be one of ${allowed.join(', ')}, not ${shown(value)}`, {
      option,
      value,
    })
  }
  return value as T
}

export const patternText = (pattern: EventPattern): string =>
  typeof pattern === 'string' ? pattern : (pattern?.type ?? (pattern as { readonly name: string })?.name)

/** How many of a batch go into one `send`; listeners hear one event at a time. */
export const sendable = (to: Publisher | null | undefined, batchSize: number): number =>
  Math.min(batchSize, to ? (to.maxBatch ?? 1) : 1)

export const resolveDestination = (
  name: string,
  given: DestinationOptions,
  fallback: { readonly retry: RetryPolicy; readonly classify: FailureClassifier | null },
): ResolvedDestination => {
  checkName('destination', name, 64)
  const at = `destinations.${name}`
  const patterns = given.events.map(patternText)
  for (const pattern of patterns) compilePattern(pattern)
  const { topic } = given
  const bounded = (option: keyof typeof DESTINATION_BOUNDS, value: unknown, integer = true): number =>
    boundedNumber(`${at}.${option}`, value, DESTINATION_BOUNDS[option], integer)
  return Object.freeze({
    name,
    to: given.to ?? null,
    patterns: Object.freeze(patterns),
    topic:
      typeof topic === 'function'
        ? topic
        : typeof topic === 'string'
          ? () => topic
          : (event: EventRecord) => event.type,
    retry: given.retry ?? fallback.retry,
    classify: given.classify ?? fallback.classify,
    concurrency: bounded('concurrency', given.concurrency ?? DEFAULTS.concurrency),
    batchSize: sendable(given.to, bounded('batchSize', given.batchSize ?? DEFAULTS.batchSize)),
    ratePerSecond:
      given.ratePerSecond === undefined ? null : bounded('ratePerSecond', given.ratePerSecond, false),
    timeoutMs: bounded('timeoutMs', given.timeoutMs ?? DEFAULTS.timeoutMs),
    breaker: given.breaker ?? {},
    deadHead: oneOf(`${at}.deadHead`, given.deadHead ?? 'skip', ['skip', 'block', 'park']),
    paused: given.paused ?? false,
  })
}

export const resolveOptions = <Tx, E>(given: OutboxOptions<Tx, E>): ResolvedOptions =>
  readGiven('createOutbox', () => resolve(given))

const resolve = <Tx, E>(given: OutboxOptions<Tx, E>): ResolvedOptions => {
  checkOptions(given)
  const numbers = {} as Record<NumericOption, number>
  for (const [name, bounds] of Object.entries(BOUNDS) as [NumericOption, readonly [number, number]][]) {
    numbers[name] = boundedNumber(name, given[name] ?? DEFAULTS[name], bounds)
  }
  const renewCeiling = Math.floor(numbers.laneLeaseMs / 2)
  const laneRenewMs = boundedNumber('laneRenewMs', given.laneRenewMs ?? Math.floor(numbers.laneLeaseMs / 3), [
    1,
    renewCeiling,
  ])
  const dead = given.retentionDeadHours === undefined ? DEFAULTS.retentionDeadHours : given.retentionDeadHours
  const fallback = { retry: given.retry ?? exponential(), classify: given.classify ?? null }
  const destinations = new Map<string, ResolvedDestination>()
  for (const [name, destination] of Object.entries(given.destinations ?? {})) {
    destinations.set(name, resolveDestination(name, destination, fallback))
  }
  for (const name of given.serve ?? []) {
    if (!destinations.has(name) && name !== 'local') {
      throw new InvalidOptionError(`serve names "${shown(name)}", which is not declared in destinations`, {
        option: 'serve',
        value: name,
      })
    }
  }
  return Object.freeze({
    ...numbers,
    pollIdleMaxMs: Math.max(numbers.pollIdleMaxMs, numbers.pollIntervalMs),
    validate: given.validate ?? DEFAULTS.validate,
    validateJson: given.validateJson ?? DEFAULTS.validateJson,
    validateHeaders: given.validateHeaders ?? DEFAULTS.validateHeaders,
    migrate: given.migrate ?? given.store.capabilities.embedded,
    keyOrder: oneOf('keyOrder', given.keyOrder ?? DEFAULTS.keyOrder, ['visible', 'locked']),
    pollerEnabled: given.pollerEnabled ?? DEFAULTS.pollerEnabled,
    laneRenewMs,
    retentionDeadHours: dead === null ? null : boundedNumber('retentionDeadHours', dead, [0, 100_000]),
    retry: fallback.retry,
    classify: fallback.classify,
    onFailure: given.onFailure ?? null,
    tracing: given.tracing === undefined ? null : guardedTracing(given.tracing),
    destinations,
    outside: {},
    serve: given.serve ?? null,
    maintain: given.maintain ?? null,
  })
}
