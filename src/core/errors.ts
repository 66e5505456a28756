/**
 * Every error that Posthaste throws on purpose. The `code` is stable and is what programs should look at;
 * the message says what happened, what it means and what to do. `docs/errors.md` lists them all.
 *
 * Listeners and publishers steer retries with three of them: `PermanentError`, `RetryAfter`, `OutageError`.
 * These are recognised by a registered symbol rather than by `instanceof`, because an application can load
 * the ESM and the CommonJS build of this package side by side.
 */
export const ERROR_CODES = {
  invalidOption: 'POSTHASTE_INVALID_OPTION',
  invalidConfig: 'POSTHASTE_INVALID_CONFIG',
  invalidEvent: 'POSTHASTE_INVALID_EVENT',
  noTransaction: 'POSTHASTE_NO_TRANSACTION',
  transactionEnded: 'POSTHASTE_TRANSACTION_ENDED',
  commitUnknown: 'POSTHASTE_COMMIT_UNKNOWN',
  commitRolledBack: 'POSTHASTE_COMMIT_ROLLED_BACK',
  unknownDestination: 'POSTHASTE_UNKNOWN_DESTINATION',
  closed: 'POSTHASTE_CLOSED',
  schemaBehind: 'POSTHASTE_SCHEMA_BEHIND',
  schemaAhead: 'POSTHASTE_SCHEMA_AHEAD',
  storeUnavailable: 'POSTHASTE_STORE_UNAVAILABLE',
  storeBusy: 'POSTHASTE_STORE_BUSY',
  storeReadOnly: 'POSTHASTE_STORE_READ_ONLY',
  missingPeer: 'POSTHASTE_MISSING_PEER',
  unsupported: 'POSTHASTE_UNSUPPORTED',
  notFound: 'POSTHASTE_NOT_FOUND',
  conflict: 'POSTHASTE_CONFLICT',
  noDeliveries: 'POSTHASTE_NO_DELIVERIES',
  emptyBatch: 'POSTHASTE_EMPTY_BATCH',
  noListener: 'POSTHASTE_NO_LISTENER',
  deadline: 'POSTHASTE_DEADLINE',
  undecodable: 'POSTHASTE_UNDECODABLE',
  permanent: 'POSTHASTE_PERMANENT',
  retryAfter: 'POSTHASTE_RETRY_AFTER',
  outage: 'POSTHASTE_OUTAGE',
} as const

export type ErrorCode = (typeof ERROR_CODES)[keyof typeof ERROR_CODES]

/** Facts an error carries for programs, beside its text for people. */
export type ErrorDetail = Readonly<Record<string, unknown>> & { readonly cause?: unknown }

const STACK_LINES = 30

export class OutboxError extends Error {
  readonly code: ErrorCode
  readonly detail: Readonly<Record<string, unknown>>

  constructor(code: ErrorCode, message: string, detail: ErrorDetail = {}) {
    const { cause, ...rest } = detail
    // Our own calls come first; the one of the application should be among those that are shown.
    const shown = Error.stackTraceLimit
    if (shown > 0) Error.stackTraceLimit = Math.max(shown, STACK_LINES)
    super(message, cause === undefined ? undefined : { cause })
    if (shown > 0) Error.stackTraceLimit = shown
    this.name = new.target.name
    this.code = code
    this.detail = rest
  }
}

/** An option has a value that cannot work. Thrown while things are built; later only of what a function of yours gave. */
export class InvalidOptionError extends OutboxError {
  constructor(
    message: string,
    { option, value, cause }: { readonly option: string; readonly value: unknown; readonly cause?: unknown },
  ) {
    super(ERROR_CODES.invalidOption, message, { option, value: withoutContent(option, value), cause })
  }
}

/** Options whose text may be a secret, or an address with one in it. */
const MAY_BE_SECRET = /pass|secret|token|key|auth|credential|ur[il]|dsn|connection|server|broker/i

/** Objects and addresses may carry passwords; the name of their kind says enough. */
const withoutContent = (option: string, value: unknown): unknown => {
  if (typeof value === 'function') return 'function'
  if (typeof value === 'string') return MAY_BE_SECRET.test(option) || /[@/]/.test(value) ? 'string' : value
  if (typeof value !== 'object' || value === null) return value
  try {
    return value.constructor?.name ?? 'object'
  } catch {
    // A hostile proxy or getter does not even tell that.
    return 'object'
  }
}

/** Reads options that an application gave. What a getter or a proxy in them throws is a mistake in them, and said as one. */
export const readGiven = <T>(at: string, read: () => T): T => {
  try {
    return read()
  } catch (cause) {
    if (cause instanceof OutboxError) throw cause
    throw new InvalidOptionError(`${at} was given options that throw when they are read`, {
      option: at,
      value: undefined,
      cause,
    })
  }
}

/** An event was refused before any SQL, so the transaction it was published in is still good. */
export class InvalidEventError extends OutboxError {
  readonly path: string
  constructor(
    message: string,
    detail: { readonly path: string; readonly reason: string; readonly cause?: unknown },
  ) {
    super(ERROR_CODES.invalidEvent, message, detail)
    this.path = detail.path
  }
}

/** `publish` was called without a transaction, or with the handle of one that is over. */
export class TransactionError extends OutboxError {}

/** The database said no, or could not be asked. */
export class StoreError extends OutboxError {
  /** True when the same call may succeed later without anybody's help. */
  readonly transient: boolean
  constructor(code: ErrorCode, message: string, detail: ErrorDetail & { readonly transient?: boolean } = {}) {
    super(code, message, detail)
    this.transient = detail.transient ?? false
  }
}

/** Somebody has to mend these: a password, a right, the tables. Every statement fares alike until then. */
const OUTAGES: ReadonlySet<unknown> = new Set([
  ERROR_CODES.schemaAhead,
  ERROR_CODES.schemaBehind,
  ERROR_CODES.storeReadOnly,
  ERROR_CODES.storeUnavailable,
])

/** It says nothing about what was to be written: the database takes nothing now, whatever it is. */
export const isStoreOutage = (error: unknown): boolean => {
  if (!(error instanceof Error)) return false
  // It may come from the other build of this package, so codes are looked at.
  const { code, transient, detail } = error as Partial<StoreError>
  if (error instanceof StoreError && transient === true) return true
  return OUTAGES.has(code) && detail?.mayBeContent !== true
}

/** An outage that does not end by itself. */
export const isToBeMended = (error: unknown): boolean =>
  isStoreOutage(error) && (error as Partial<StoreError>).transient !== true

const PERMANENT = Symbol.for('posthaste.permanent')
const RETRY_AFTER = Symbol.for('posthaste.retry-after')
const OUTAGE = Symbol.for('posthaste.outage')

/** Thrown by a listener or publisher: this event will never be accepted, do not try again. */
export class PermanentError extends OutboxError {
  readonly [PERMANENT] = true
  constructor(message: string, detail: ErrorDetail = {}) {
    super(ERROR_CODES.permanent, message, detail)
  }
}

/** Thrown by a listener or publisher: try again after `delayMs`; `counted: false` spends no attempt. */
export class RetryAfter extends OutboxError {
  readonly [RETRY_AFTER] = true
  readonly delayMs: number
  readonly counted: boolean
  constructor(
    delayMs: number,
    detail: ErrorDetail & { readonly message?: string; readonly counted?: boolean } = {},
  ) {
    const { message, counted, ...rest } = detail
    super(ERROR_CODES.retryAfter, message ?? `asked to try again after ${delayMs} ms`, rest)
    this.delayMs = delayMs
    this.counted = counted ?? true
  }
}

/** Thrown by a listener or publisher: the place cannot be reached; this says nothing about the event. */
export class OutageError extends OutboxError {
  readonly [OUTAGE] = true
  constructor(message: string, detail: ErrorDetail = {}) {
    super(ERROR_CODES.outage, message, detail)
  }
}

const hasBrand = (error: unknown, brand: symbol): boolean => {
  try {
    return typeof error === 'object' && error !== null && (error as Record<symbol, unknown>)[brand] === true
  } catch {
    // A hostile proxy or getter is not one of ours.
    return false
  }
}

export const isPermanentError = (error: unknown): error is PermanentError => hasBrand(error, PERMANENT)
export const isRetryAfter = (error: unknown): error is RetryAfter => hasBrand(error, RETRY_AFTER)
export const isOutageError = (error: unknown): error is OutageError => hasBrand(error, OUTAGE)
