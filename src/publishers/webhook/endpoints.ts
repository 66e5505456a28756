/**
 * Endpoints of one destination that belong to different people: one that is slow or gone must not keep the others
 * waiting, so each has a number of requests of its own and a breaker of its own.
 */
import { RetryAfter } from '../../core/errors.ts'

export interface EndpointLimits {
  readonly concurrency: number
  readonly breakerThreshold: number
  readonly breakerOpenMs: number
  readonly breakerMaxOpenMs: number
}

/** Endpoints that were not used for this long are forgotten. */
const FORGOTTEN_AFTER_MS = 600_000
const MOST_REMEMBERED = 10_000

class EndpointState {
  readonly #limits: EndpointLimits
  readonly #waiting: (() => void)[] = []
  #running = 0
  #failures = 0
  #opened = 0
  #openUntil = 0
  #probing = false
  gone = false
  usedAt = 0

  constructor(limits: EndpointLimits) {
    this.#limits = limits
  }

  get isIdle(): boolean {
    return this.#running === 0 && this.#waiting.length === 0
  }

  async run<T>(now: () => number, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    while (this.#running >= this.#limits.concurrency)
      await new Promise<void>((resolve) => this.#waiting.push(resolve))
    if (signal.aborted) {
      this.#waiting.shift()?.()
      throw notSent(0, 'others were sent to the endpoint first, and there was no time left')
    }
    const wait = this.#openUntil - now()
    if (wait > 0) {
      this.#waiting.shift()?.()
      throw this.#later(wait)
    }
    if (this.#opened > 0 && this.#probing) {
      this.#waiting.shift()?.()
      throw this.#later(this.#limits.breakerOpenMs)
    }
    this.#probing = this.#opened > 0
    this.#running += 1
    try {
      return await work()
    } finally {
      this.#running -= 1
      this.#probing = false
      this.#waiting.shift()?.()
    }
  }

  answered(): void {
    this.#failures = 0
    this.#opened = 0
    this.#openUntil = 0
  }

  unreachable(now: number): void {
    this.#failures += 1
    // Those that were under way when it opened say nothing new.
    if (this.#failures < this.#limits.breakerThreshold || now < this.#openUntil) return
    const { breakerOpenMs, breakerMaxOpenMs } = this.#limits
    this.#openUntil = now + Math.min(breakerMaxOpenMs, breakerOpenMs * 2 ** Math.min(this.#opened, 20))
    this.#opened += 1
  }

  #later(delayMs: number): RetryAfter {
    return notSent(
      Math.ceil(delayMs),
      'the endpoint did not answer the last requests; it is tried again in a while',
    )
  }
}

/** So no attempt is spent. */
const notSent = (delayMs: number, message: string): RetryAfter =>
  new RetryAfter(delayMs, { message, counted: false })

export class Endpoints {
  readonly #limits: EndpointLimits
  readonly #states = new Map<string, EndpointState>()
  readonly #now: () => number

  constructor(limits: EndpointLimits, now: () => number) {
    this.#limits = limits
    this.#now = now
  }

  of(url: string): EndpointState {
    const state = this.#states.get(url) ?? new EndpointState(this.#limits)
    state.usedAt = this.#now()
    // Last used, last in the map.
    this.#states.delete(url)
    this.#states.set(url, state)
    this.#forget()
    return state
  }

  run<T>(state: EndpointState, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    return state.run(this.#now, signal, work)
  }

  #forget(): void {
    for (const [url, state] of this.#states) {
      const isOld = this.#now() - state.usedAt > FORGOTTEN_AFTER_MS
      if (!state.isIdle || (!isOld && this.#states.size <= MOST_REMEMBERED)) return
      this.#states.delete(url)
    }
  }
}
