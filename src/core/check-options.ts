/**
 * What the options of `createOutbox` may be, before anything is made of them: names that exist, and values of
 * the right kind. A value of the wrong kind would otherwise work until the first failure at night.
 */
import { InvalidOptionError } from './errors.ts'
import { shown, shownWithKind } from './model/shown.ts'
import { refuseUnknown } from './model/unknown-names.ts'
import type { DestinationOptions, OutboxOptions } from './options.ts'
import { type BreakerOptions, createBreaker } from './policy/breaker.ts'

const namesOf = (names: Readonly<Record<string, true>>): ReadonlySet<string> => new Set(Object.keys(names))

/** As objects, so that the compiler misses none when an option is added. */
const OUTBOX_NAMES = namesOf({
  store: true,
  transactions: true,
  destinations: true,
  logger: true,
  metrics: true,
  tracing: true,
  runtime: true,
  migrate: true,
  validate: true,
  validateJson: true,
  validateHeaders: true,
  maxPayloadBytes: true,
  maxPayloadDepth: true,
  serve: true,
  maintain: true,
  laneLeaseMs: true,
  laneRenewMs: true,
  keyOrder: true,
  hotLeaseMs: true,
  pollerEnabled: true,
  pollIntervalMs: true,
  pollIdleMaxMs: true,
  pollBatchSize: true,
  skipRecentMs: true,
  partitionWindowMs: true,
  sweepIntervalMs: true,
  hotQueueCapacity: true,
  coldQueueCapacity: true,
  queueBytes: true,
  hardDeadlineMs: true,
  drainMs: true,
  historyLimit: true,
  retry: true,
  classify: true,
  onFailure: true,
  pendingIntervalMs: true,
  retentionDoneHours: true,
  retentionDeadHours: true,
  retentionDedupHours: true,
  cleanupIntervalMs: true,
  cleanupBatchSize: true,
  partitionAheadHours: true,
  partitionIntervalMs: true,
} satisfies Record<keyof OutboxOptions<never, never>, true>)

const DESTINATION_NAMES = namesOf({
  to: true,
  events: true,
  topic: true,
  retry: true,
  classify: true,
  concurrency: true,
  batchSize: true,
  ratePerSecond: true,
  timeoutMs: true,
  breaker: true,
  deadHead: true,
  paused: true,
} satisfies Record<keyof DestinationOptions, true>)

const BREAKER_NAMES = namesOf({
  threshold: true,
  closeAfter: true,
  chargeAfter: true,
  openMs: true,
  maxOpenMs: true,
} satisfies Record<keyof BreakerOptions, true>)

const BOOLEANS = [
  'migrate',
  'validate',
  'validateJson',
  'validateHeaders',
  'pollerEnabled',
  'maintain',
] as const
const RUNTIME_METHODS = ['wallNow', 'monotonicNow', 'random', 'randomBytes', 'schedule', 'yield']
const TRANSACTIONS_METHODS = ['run', 'executor', 'inTransaction']
const TRACING_METHODS = ['publish', 'deliver']
/** Not all: metrics written for an older version, without the newest names, go on working. */
const METRICS_METHODS = ['hotEnqueued', 'dispatchSuccess', 'dispatchFailure', 'dispatchDead']

export const refuse = (option: string, value: unknown, text: string): never => {
  throw new InvalidOptionError(`${option} ${text}`, { option, value })
}

const isAbsent = (value: unknown): value is null | undefined => value === undefined || value === null

export const requireText = (option: string, value: unknown): string =>
  typeof value === 'string' ? value : refuse(option, value, `must be text, not ${shown(value)}`)

export const optionalText = (option: string, value: unknown): string | undefined =>
  isAbsent(value) ? undefined : requireText(option, value)

export const checkBoolean = (option: string, value: unknown): void => {
  if (isAbsent(value) || typeof value === 'boolean') return
  refuse(option, value, `must be true or false, not ${shownWithKind(value)}`)
}

const checkFunction = (option: string, value: unknown): void => {
  if (isAbsent(value) || typeof value === 'function') return
  refuse(option, value, `must be a function, not ${shownWithKind(value)}`)
}

const lacking = (value: unknown, methods: readonly string[]): readonly string[] => {
  const able = (typeof value === 'object' && value !== null) || typeof value === 'function'
  if (!able) return methods
  return methods.filter((name) => typeof (value as Record<string, unknown>)[name] !== 'function')
}

/** By the methods that are called; what else the object is does not matter. */
export const checkMethods = (
  option: string,
  value: unknown,
  what: string,
  methods: readonly string[],
): void => {
  const missing = lacking(value, methods)
  if (missing.length > 0) refuse(option, value, `must be ${what}; it lacks the method ${missing.join(', ')}`)
}

const STORES = 'postgresStore(…), mysqlStore(…), sqliteStore(…)'

const checkStore = ({ store, transactions }: OutboxOptions<never, never>): void => {
  if (isAbsent(store)) refuse('store', store, `is required: ${STORES}`)
  const what = `a store, such as ${STORES}`
  checkMethods('store', store, what, ['insert'])
  if (typeof store.capabilities !== 'object' || store.capabilities === null) {
    refuse('store', store, `must be ${what}; it has no capabilities`)
  }
  if (isAbsent(transactions)) checkTransactions('store.transactions', store.transactions)
  else checkTransactions('transactions', transactions)
}

export const checkTransactions = (option: string, value: unknown): void =>
  checkMethods(
    option,
    value,
    'the transactions of a data-access library, made by a client of posthaste/clients/… (kyselyTransactions(db), …)',
    TRANSACTIONS_METHODS,
  )

const checkRetry = (option: string, value: unknown): void => {
  if (isAbsent(value)) return
  checkMethods(option, value, 'a retry policy, such as exponential() or fixed({ delayMs })', [
    'computeDelayMs',
  ])
  const { maxAttempts } = value as { readonly maxAttempts?: unknown }
  if (typeof maxAttempts === 'number' && maxAttempts >= 1) return
  refuse(
    `${option}.maxAttempts`,
    maxAttempts,
    `must be a number of 1 or more, not ${shownWithKind(maxAttempts)}`,
  )
}

const checkPublisher = (option: string, value: unknown): void => {
  if (isAbsent(value)) return
  checkMethods(option, value, 'a publisher; leave it out for listeners of this process', ['send'])
  const { maxBatch } = value as { readonly maxBatch?: unknown }
  if (maxBatch === undefined || (typeof maxBatch === 'number' && maxBatch >= 1)) return
  refuse(`${option}.maxBatch`, maxBatch, `must be a number of 1 or more, not ${shownWithKind(maxBatch)}`)
}

const checkEvents = (option: string, value: unknown): void => {
  if (!Array.isArray(value)) {
    refuse(option, value, `must be a list of definitions, types, "order.*" or "*"; not ${shown(value)}`)
  } else if (value.length === 0) {
    refuse(option, value, 'is empty, so nothing would ever be sent there: name events, or "*" for all')
  }
}

const checkBreaker = (option: string, value: unknown): void => {
  if (isAbsent(value)) return
  refuseUnknown(option, value, BREAKER_NAMES)
  // Built and thrown away: the breaker knows its own bounds.
  createBreaker(value as Partial<BreakerOptions>, () => 0)
}

const checkDestination = (name: string, given: DestinationOptions): void => {
  const at = `destinations.${name}`
  refuseUnknown(at, given, DESTINATION_NAMES)
  checkEvents(`${at}.events`, given.events)
  checkPublisher(`${at}.to`, given.to)
  const { topic } = given
  if (!isAbsent(topic) && typeof topic !== 'string' && typeof topic !== 'function') {
    refuse(`${at}.topic`, topic, `must be text or a function of the event, not ${shown(topic)}`)
  }
  checkRetry(`${at}.retry`, given.retry)
  checkFunction(`${at}.classify`, given.classify)
  checkBreaker(`${at}.breaker`, given.breaker)
  checkBoolean(`${at}.paused`, given.paused)
}

const checkDestinations = (given: unknown): void => {
  if (isAbsent(given)) return
  if (typeof given !== 'object' || Array.isArray(given)) {
    refuse('destinations', given, `must be an object of destinations by their names, not ${shown(given)}`)
  }
  for (const [name, destination] of Object.entries(given)) checkDestination(name, destination)
}

/** Throws InvalidOptionError for the first name or value that cannot work; numbers are checked where used. */
export const checkOptions = <Tx, E>(options: OutboxOptions<Tx, E>): void => {
  if (typeof options !== 'object' || options === null || Array.isArray(options)) {
    const got = shownWithKind(options)
    refuse('createOutbox', options, `takes an object, such as { store: … }; it got ${got}`)
  }
  refuseUnknown('createOutbox', options, OUTBOX_NAMES)
  const given = options as OutboxOptions<never, never>
  checkStore(given)
  const { logger, metrics, tracing, runtime, serve } = given
  if (!isAbsent(logger)) checkMethods('logger', logger, 'a logger, such as createConsoleLogger()', ['log'])
  if (!isAbsent(metrics)) checkMethods('metrics', metrics, 'an implementation of Metrics', METRICS_METHODS)
  if (!isAbsent(tracing)) checkMethods('tracing', tracing, 'an implementation of Tracing', TRACING_METHODS)
  if (!isAbsent(runtime)) checkMethods('runtime', runtime, 'an implementation of Runtime', RUNTIME_METHODS)
  for (const name of BOOLEANS) checkBoolean(name, given[name])
  checkRetry('retry', given.retry)
  checkFunction('classify', given.classify)
  checkFunction('onFailure', given.onFailure)
  if (!isAbsent(serve) && !Array.isArray(serve)) {
    refuse('serve', serve, `must be a list of destinations, such as ["local"]; not ${shown(serve)}`)
  }
  checkDestinations(given.destinations)
}
