/** The rate of one destination, which may change or be none at all. */
import { createRateLimiter, type RateLimiter } from '../policy/rate-limit.ts'

/** What piled up during an outage comes back over this time at a growing pace. */
const RAMP_MS = 10_000

export class Pace {
  #perSecond: number | null
  #limiter: RateLimiter | null

  constructor(perSecond: number | null) {
    this.#perSecond = perSecond
    this.#limiter = createLimiter(perSecond)
  }

  /** False when nothing changed. */
  change(perSecond: number | null): boolean {
    if (perSecond === this.#perSecond) return false
    this.#perSecond = perSecond
    this.#limiter = createLimiter(perSecond)
    return true
  }

  /** How many of `wanted` may go now; what is not taken in the end is given back. */
  grant(now: number, wanted: number): number {
    return this.#limiter === null ? wanted : this.#limiter.take(now, wanted)
  }

  giveBack(count: number): void {
    if (count > 0) this.#limiter?.giveBack(count)
  }

  waitMs(now: number): number {
    return this.#limiter?.waitMs(now) ?? 0
  }

  slowStart(now: number): void {
    this.#limiter?.slowStart(now, RAMP_MS)
  }
}

const createLimiter = (perSecond: number | null): RateLimiter | null =>
  perSecond === null ? null : createRateLimiter({ perSecond, burst: Math.max(1, Math.ceil(perSecond / 10)) })
