/**
 * The only place where an error becomes a decision:
 *
 * - `retry`: try again later; by default this spends an attempt;
 * - `dead`: never try again;
 * - `outage`: the place cannot be reached, which says nothing about the event, so no attempt is spent.
 *
 * Whatever was thrown, and whatever the user's classifier does, this module itself never throws.
 */
import { isOutageError, isPermanentError, isRetryAfter } from '../errors.ts'
import { firstAlongCauses, readProperty } from './error-text.ts'

export { describeError } from './error-text.ts'

export type Verdict = 'retry' | 'dead' | 'outage'

export interface FailureInfo {
  /** The attempt that failed, from 1. */
  readonly attempt: number
  readonly type: string
  readonly destination: string
}

/** The user's own rules; `undefined` leaves the decision to the built-in ones. */
export type FailureClassifier = (error: unknown, info: FailureInfo) => Verdict | undefined

export interface ClassifyOptions {
  /** Who threw: what a publisher's connection error means is known, what a listener's means is not. */
  readonly from: 'publisher' | 'listener'
  readonly custom?: FailureClassifier
  /** Hears of a classifier that threw or answered nonsense; the failure is then retried. */
  readonly onClassifierError?: (error: unknown) => void
}

export interface Judgement {
  readonly verdict: Verdict
  /** Set when the error asked for a delay; the retry policy decides otherwise. */
  readonly delayMs?: number
  /** Whether an attempt is spent. */
  readonly counted: boolean
}

const RETRY: Judgement = Object.freeze({ verdict: 'retry', counted: true })
const DEAD: Judgement = Object.freeze({ verdict: 'dead', counted: true })
const OUTAGE: Judgement = Object.freeze({ verdict: 'outage', counted: false })
const BY_VERDICT: ReadonlyMap<unknown, Judgement> = new Map([
  ['retry', RETRY],
  ['dead', DEAD],
  ['outage', OUTAGE],
])

/** Codes of Node's sockets and resolver which mean that nobody was there to judge the event. */
const UNREACHABLE: ReadonlySet<unknown> = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'EPIPE',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOTFOUND',
  'EAI_AGAIN',
])

const LONGEST_DELAY_MS = 366 * 24 * 3_600_000

/**
 * What the thrower said outright comes first (`PermanentError`, `RetryAfter`), then the user's classifier, then
 * what the error itself shows.
 */
export function classify(error: unknown, info: FailureInfo, options: ClassifyOptions): Judgement {
  if (isPermanentError(error)) return DEAD
  if (isRetryAfter(error)) return asksForTime(error)
  if (options.custom !== undefined) {
    const judgement = askClassifier(options.custom, error, info, options.onClassifierError)
    if (judgement !== undefined) return judgement
  }
  if (options.from === 'listener') return isOutageError(error) ? OUTAGE : RETRY
  return firstAlongCauses(error, showsOutage) === true ? OUTAGE : RETRY
}

const showsOutage = (error: object): true | undefined =>
  isOutageError(error) ||
  readProperty(error, 'outage') === true ||
  UNREACHABLE.has(readProperty(error, 'code')) ||
  undefined

function asksForTime(error: object): Judgement {
  const counted = readProperty(error, 'counted') !== false
  const delayMs = readProperty(error, 'delayMs')
  if (typeof delayMs !== 'number' || Number.isNaN(delayMs)) return { verdict: 'retry', counted }
  return { verdict: 'retry', delayMs: Math.min(LONGEST_DELAY_MS, Math.max(0, Math.round(delayMs))), counted }
}

function askClassifier(
  custom: FailureClassifier,
  error: unknown,
  info: FailureInfo,
  report: ((error: unknown) => void) | undefined,
): Judgement | undefined {
  try {
    const answer: unknown = custom(error, info)
    if (answer === undefined) return undefined
    const judgement = BY_VERDICT.get(answer)
    if (judgement !== undefined) return judgement
    ignoreRejection(answer)
    throw new TypeError(
      'the failure classifier must answer retry, dead, outage or undefined, and not a promise',
    )
  } catch (problem) {
    try {
      report?.(problem)
    } catch {
      // A reporter that fails has nobody left to report to.
    }
    return RETRY
  }
}

/** An asynchronous classifier is a mistake; its rejection, unhandled, would end the process. */
function ignoreRejection(answer: unknown): void {
  if (answer instanceof Promise) answer.catch(() => undefined)
}
