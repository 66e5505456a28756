/**
 * A token bucket: on average `perSecond` deliveries, at most `burst` at once. Pure: the caller passes the monotonic
 * clock, and a clock that stands still or steps back gives no tokens.
 *
 * After an outage the backlog must not hit the destination in one blow. `slowStart` lets rate and burst climb in a
 * straight line from 10 % to 100 % over the given time.
 */

import { InvalidOptionError } from '../errors.ts'
import { shown } from '../model/shown.ts'

export interface RateLimit {
  /** Deliveries per second on average; 0.001 to 10,000,000. */
  readonly perSecond: number
  /** Deliveries at once after a pause. Default: what one second allows, at least 1; whole, 1 to 10,000,000. */
  readonly burst?: number
}

export interface RateLimiter {
  /** Grants up to `count` deliveries now; returns how many. */
  take(nowMs: number, count: number): number
  /** Returns grants that were not used after all. */
  giveBack(count: number): void
  /** Milliseconds until `take` grants at least one; 0 if it would now. */
  waitMs(nowMs: number): number
  /** Applies from now on; tokens earned so far stay, up to the new burst. */
  setRate(nowMs: number, limit: RateLimit): void
  /** Begins a ramp of `rampMs`, 0 to 3,600,000; 0 ends a running one. */
  slowStart(nowMs: number, rampMs: number): void
}

const START_SHARE = 0.1
const CLIMB = 1 - START_SHARE
/** Rounding errors must not hold back a token that has in truth been earned. */
const TOLERANCE = 1e-6
const HIGHEST = 10_000_000

export function createRateLimiter(limit: RateLimit): RateLimiter {
  let { perMs, burst } = resolveLimit(limit)
  let tokens = burst
  let lastMs: number | undefined
  let rampStartMs = 0
  let rampMs = 0

  const earn = (nowMs: number): void => {
    if (lastMs === undefined) lastMs = Number.isFinite(nowMs) ? nowMs : 0
    if (!(nowMs > lastMs)) return
    const earnedMs = fullRateMs(nowMs - rampStartMs, rampMs) - fullRateMs(lastMs - rampStartMs, rampMs)
    lastMs = nowMs
    tokens = Math.min(capacity(), tokens + earnedMs * perMs)
  }

  const capacity = (): number => {
    const passedMs = (lastMs ?? 0) - rampStartMs
    const share = passedMs >= rampMs ? 1 : START_SHARE + (CLIMB * passedMs) / rampMs
    return Math.max(1, burst * share)
  }

  return {
    take(nowMs, count) {
      earn(nowMs)
      const granted = Math.min(Math.floor(tokens + TOLERANCE), count >= 1 ? Math.floor(count) : 0)
      tokens = Math.max(0, tokens - granted)
      return granted
    },
    giveBack(count) {
      if (count > 0) tokens = Math.min(capacity(), tokens + count)
    },
    waitMs(nowMs) {
      earn(nowMs)
      if (tokens + TOLERANCE >= 1) return 0
      const passedMs = (lastMs ?? 0) - rampStartMs
      const neededMs = fullRateMs(passedMs, rampMs) + (1 - tokens) / perMs
      return Math.max(1, Math.ceil(passedAfter(neededMs, rampMs) - passedMs))
    },
    setRate(nowMs, next) {
      const resolved = resolveLimit(next)
      earn(nowMs)
      perMs = resolved.perMs
      burst = resolved.burst
      tokens = Math.min(tokens, capacity())
    },
    slowStart(nowMs, durationMs) {
      checkNumber('rampMs', durationMs, 0, 3_600_000)
      earn(nowMs)
      rampStartMs = lastMs ?? 0
      rampMs = durationMs
      // What was saved up before the outage would be the very blow that the ramp is there to prevent.
      tokens = Math.min(tokens, capacity())
    },
  }
}

/** How many milliseconds at full rate equal the first `passedMs` of a ramp: the area under the climbing line. */
function fullRateMs(passedMs: number, rampMs: number): number {
  if (passedMs >= rampMs) return passedMs - rampMs + rampMs * (START_SHARE + CLIMB / 2)
  return START_SHARE * passedMs + (CLIMB * passedMs * passedMs) / (2 * rampMs)
}

/** The inverse of `fullRateMs`. */
function passedAfter(neededMs: number, rampMs: number): number {
  const rampArea = rampMs * (START_SHARE + CLIMB / 2)
  if (neededMs >= rampArea) return neededMs - rampArea + rampMs
  const slope = CLIMB / rampMs
  return (Math.sqrt(START_SHARE * START_SHARE + 2 * slope * neededMs) - START_SHARE) / slope
}

function resolveLimit(limit: RateLimit): { perMs: number; burst: number } {
  const perSecond = checkNumber('perSecond', limit.perSecond, 0.001, HIGHEST)
  const burst = checkNumber('burst', limit.burst ?? Math.max(1, Math.ceil(perSecond)), 1, HIGHEST)
  if (!Number.isInteger(burst)) {
    throw new InvalidOptionError(`burst must be a whole number, not ${burst}.`, {
      option: 'burst',
      value: burst,
    })
  }
  return { perMs: perSecond / 1000, burst }
}

function checkNumber(option: string, value: unknown, lowest: number, highest: number): number {
  if (typeof value === 'number' && value >= lowest && value <= highest) return value
  const message = `${option} must be a number from ${lowest} to ${highest}, not ${shown(value)}.`
  throw new InvalidOptionError(message, { option, value })
}
