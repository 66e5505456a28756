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

  get #hasPlace(): boolean {
    return this.#running < this.#limits.concurrency
  }

  async run<T>(now: () => number, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    while (!this.#hasPlace && !signal.aborted) await this.#turn(signal)
    if (signal.aborted) {
      this.#passOn()
      throw notSent(0, 'others were sent to the endpoint first, and there was no time left')
    }
    const wait = this.#openUntil - now()
    if (wait > 0) {
      this.#passOn()
      throw this.#later(wait)
    }
    if (this.#opened > 0 && this.#probing) {
      this.#passOn()
      throw this.#later(this.#limits.breakerOpenMs)
    }
    this.#probing = this.#opened > 0
    this.#running += 1
    try {
      return await work()
    } finally {
      this.#running -= 1
      this.#probing = false
      this.#passOn()
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

  /** Until a place may be free; no longer than the signal allows, whatever those before it do. */
  #turn(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const wake = (): void => {
        signal.removeEventListener('abort', leave)
        resolve()
      }
      const leave = (): void => {
        this.#waiting.splice(this.#waiting.indexOf(wake), 1)
        resolve()
      }
      this.#waiting.push(wake)
      signal.addEventListener('abort', leave, { once: true })
    })
  }

  /** Nobody is woken for nothing: they would lose their turn. */
  #passOn(): void {
    if (this.#hasPlace) this.#waiting.shift()?.()
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
    this.#forget()
    this.#states.set(url, state)
    return state
  }

  run<T>(state: EndpointState, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    return state.run(this.#now, signal, work)
  }

  #forget(): void {
    for (const [url, state] of this.#states) {
      const isOld = this.#now() - state.usedAt > FORGOTTEN_AFTER_MS
      if (!isOld && this.#states.size < MOST_REMEMBERED) return
      // One that is busy must not be the reason to keep all that were used after it.
      if (state.isIdle) this.#states.delete(url)
    }
  }
}
