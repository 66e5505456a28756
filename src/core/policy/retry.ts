/**
 * How long a failed delivery waits before it is tried again, and how often. Policies are pure: chance comes in as
 * a parameter, and every delay is a whole number of milliseconds, never negative.
 *
 * Delays go to the database, not to a timer, so they may be longer than a timer can wait. Without being asked for
 * more, no policy goes beyond 2^31−1 ms (24.8 days).
 */

import { InvalidOptionError, readGiven } from '../errors.ts'
import { shown } from '../model/shown.ts'
import { refuseUnknown } from '../model/unknown-names.ts'
import { compilePattern, matches, specificity } from './routing.ts'

export interface RetryPolicy {
  /** Failed attempts after which a delivery is dead. Infinity never gives up. */
  readonly maxAttempts: number
  /**
   * @param attempts failed attempts so far, the one just made included: 1 or more
   * @param random uniform in [0, 1)
   */
  computeDelayMs(attempts: number, random: () => number): number
  /** The policy for one event type, where types differ; absent when all are treated alike. */
  forType?(type: string): RetryPolicy
}

interface AttemptLimit {
  /** Default 10; a whole number of 1 or more, or Infinity. */
  readonly maxAttempts?: number
}

export interface ExponentialOptions extends AttemptLimit {
  /** Delay after the first failure, in ms. Default 200; 0 to 366 days. */
  readonly baseMs?: number
  /** Cap of the delay before jitter, in ms. Default 60,000; 0 to 366 days. */
  readonly maxMs?: number
  /** Growth per attempt. Default 2; 1 to 100. */
  readonly multiplier?: number
  /** `half` multiplies by U(0.5, 1.5); a number from 0 to 1 by U(1 − it, 1 + it). Default `half`. */
  readonly jitter?: 'half' | 'none' | number
}

export interface LinearOptions extends AttemptLimit {
  /** Growth per attempt, in ms. Default 60,000; 0 to 366 days. */
  readonly stepMs?: number
  /** Cap of the delay, in ms. Default none; 0 to 366 days. */
  readonly maxMs?: number
}

export interface FixedOptions extends AttemptLimit {
  /** The same delay each time, in ms; 0 to 366 days. */
  readonly delayMs: number
}

export interface StepsOptions {
  /** Delay after the first, second, … failure, in ms; the last one repeats. 1 to 1,000 of 0 to 366 days. */
  readonly delaysMs: readonly number[]
  /** Default: one more than there are steps. A whole number of 1 or more, or Infinity. */
  readonly maxAttempts?: number
}

const TIMER_MAX_MS = 2 ** 31 - 1
const LONGEST_MS = 366 * 24 * 3_600_000
const DEFAULT_MAX_ATTEMPTS = 10

export const EXPONENTIAL_DEFAULTS: Readonly<Required<ExponentialOptions>> = Object.freeze({
  maxAttempts: DEFAULT_MAX_ATTEMPTS,
  baseMs: 200,
  maxMs: 60_000,
  multiplier: 2,
  jitter: 'half',
})

const EXPONENTIAL_NAMES = new Set(['baseMs', 'maxMs', 'multiplier', 'jitter', 'maxAttempts'])
const LINEAR_NAMES = new Set(['stepMs', 'maxMs', 'maxAttempts'])
const FIXED_NAMES = new Set(['delayMs', 'maxAttempts'])
const STEPS_NAMES = new Set(['delaysMs', 'maxAttempts'])

/** min(maxMs, baseMs · multiplier^(attempts − 1)), then jitter on the capped delay. */
export function exponential(options: ExponentialOptions = {}): RetryPolicy {
  return readGiven('exponential', () => createExponential(options))
}

function createExponential(options: ExponentialOptions): RetryPolicy {
  refuseUnknown('exponential', options, EXPONENTIAL_NAMES)
  const baseMs = checkMs('baseMs', options.baseMs ?? EXPONENTIAL_DEFAULTS.baseMs)
  const maxMs = checkMs('maxMs', options.maxMs ?? EXPONENTIAL_DEFAULTS.maxMs)
  const multiplier = checkNumber('multiplier', options.multiplier ?? EXPONENTIAL_DEFAULTS.multiplier, 1, 100)
  const spread = checkJitter(options.jitter ?? EXPONENTIAL_DEFAULTS.jitter)
  const askedMs = maxMs * (1 + spread)
  return createPolicy(options.maxAttempts, askedMs, (attempts, random) => {
    // 0 × Infinity is NaN, and a very high attempt count does make the power infinite.
    const delayMs = baseMs === 0 ? 0 : Math.min(maxMs, baseMs * multiplier ** (attempts - 1))
    return spread === 0 ? delayMs : delayMs * (1 - spread + 2 * spread * drawUniform(random))
  })
}

/**
 * stepMs · (n + 1), where n counts the failures before this one: 60 s after the first failure, 120 s after the
 * second, and so on.
 */
export function linear(options: LinearOptions = {}): RetryPolicy {
  return readGiven('linear', () => createLinear(options))
}

function createLinear(options: LinearOptions): RetryPolicy {
  refuseUnknown('linear', options, LINEAR_NAMES)
  const stepMs = checkMs('stepMs', options.stepMs ?? 60_000)
  const { maxMs } = options
  const capMs =
    maxMs === undefined || maxMs === Number.POSITIVE_INFINITY ? TIMER_MAX_MS : checkMs('maxMs', maxMs)
  return createPolicy(options.maxAttempts, Math.max(capMs, stepMs), (attempts) =>
    // As above: a step of 0 stays 0 however many attempts there were.
    stepMs === 0 ? 0 : Math.min(capMs, stepMs * attempts),
  )
}

export function fixed(options: FixedOptions): RetryPolicy {
  return readGiven('fixed', () => createFixed(options))
}

function createFixed(options: FixedOptions): RetryPolicy {
  refuseUnknown('fixed', options, FIXED_NAMES)
  const delayMs = checkMs('delayMs', options.delayMs)
  return createPolicy(options.maxAttempts, delayMs, () => delayMs)
}

export function steps(options: StepsOptions): RetryPolicy {
  return readGiven('steps', () => createSteps(options))
}

function createSteps(options: StepsOptions): RetryPolicy {
  refuseUnknown('steps', options, STEPS_NAMES)
  const { delaysMs } = options
  if (!Array.isArray(delaysMs) || delaysMs.length < 1 || delaysMs.length > 1000) {
    throw new InvalidOptionError('delaysMs must be a list of 1 to 1,000 delays.', {
      option: 'delaysMs',
      value: delaysMs,
    })
  }
  const delays = delaysMs.map((delayMs: unknown, index) => checkMs(`delaysMs[${index}]`, delayMs))
  const maxAttempts = options.maxAttempts ?? delays.length + 1
  return createPolicy(maxAttempts, Math.max(...delays), (attempts) => {
    return delays[Math.min(attempts, delays.length) - 1] as number
  })
}

/** One policy per event type; of several matching patterns the most specific one decides. */
export function retryForType(options: {
  readonly default: RetryPolicy
  readonly types: Readonly<Record<string, RetryPolicy>>
}): RetryPolicy {
  const choices = Object.entries(options.types)
    .map(([pattern, policy]) => ({ pattern: compilePattern(pattern), policy }))
    .sort((a, b) => compareSpecificity(specificity(a.pattern), specificity(b.pattern)))
  const fallback = options.default
  return Object.freeze({
    maxAttempts: fallback.maxAttempts,
    computeDelayMs: (attempts: number, random: () => number) => fallback.computeDelayMs(attempts, random),
    forType: (type: string) => choices.find(({ pattern }) => matches(pattern, type))?.policy ?? fallback,
  })
}

/** Descending; written out because the difference of two infinities is NaN. */
const compareSpecificity = (a: number, b: number): number => (a === b ? 0 : a > b ? -1 : 1)

/** The user's own may throw here or answer nonsense as well; then the policy itself decides. */
export const policyForType = (policy: RetryPolicy, type: string): RetryPolicy => {
  try {
    const chosen = policy.forType?.(type)
    return typeof chosen?.maxAttempts === 'number' ? chosen : policy
  } catch {
    return policy
  }
}

/**
 * The delay by a policy that may be the user's own. One that throws or answers nonsense must not stop deliveries,
 * so the default policy steps in.
 */
export function retryDelayMs(policy: RetryPolicy, attempts: number, random: () => number): number {
  try {
    const delayMs: unknown = policy.computeDelayMs(attempts, random)
    if (typeof delayMs === 'number' && delayMs >= 0) return Math.min(LONGEST_MS, Math.round(delayMs))
  } catch {
    // Falls through to the default.
  }
  return FALLBACK.computeDelayMs(attempts, random)
}

function createPolicy(
  maxAttempts: number | undefined,
  askedMs: number,
  delayOf: (attempts: number, random: () => number) => number,
): RetryPolicy {
  const ceilingMs = Math.max(TIMER_MAX_MS, Math.ceil(askedMs))
  return Object.freeze({
    maxAttempts: checkAttempts(maxAttempts ?? DEFAULT_MAX_ATTEMPTS),
    computeDelayMs(attempts: number, random: () => number) {
      // The upper bound matters too: 1 to the power of Infinity is NaN.
      const counted = attempts >= 1 ? Math.min(Math.floor(attempts), Number.MAX_SAFE_INTEGER) : 1
      return Math.min(ceilingMs, Math.round(delayOf(counted, random)))
    },
  })
}

/** A random source that answers nonsense costs the jitter, not the delay. */
function drawUniform(random: () => number): number {
  const drawn = random()
  return drawn >= 0 && drawn <= 1 ? drawn : 0.5
}

function checkJitter(jitter: unknown): number {
  if (jitter === 'half') return 0.5
  if (jitter === 'none') return 0
  return checkNumber('jitter', jitter, 0, 1)
}

const checkMs = (option: string, value: unknown): number => checkNumber(option, value, 0, LONGEST_MS)

function checkAttempts(value: unknown): number {
  if (value === Number.POSITIVE_INFINITY || (Number.isSafeInteger(value) && (value as number) >= 1)) {
    return value as number
  }
  const message = `maxAttempts must be a whole number of 1 or more, or Infinity, not ${shown(value)}.`
  throw new InvalidOptionError(message, { option: 'maxAttempts', value })
}

function checkNumber(option: string, value: unknown, lowest: number, highest: number): number {
  if (typeof value === 'number' && value >= lowest && value <= highest) return value
  const message = `${option} must be a number from ${lowest} to ${highest}, not ${shown(value)}.`
  throw new InvalidOptionError(message, { option, value })
}

const FALLBACK = exponential()
