/**
 * A runtime whose time stands still until a test moves it. Because the core has no other clock, retries,
 * leases and timeouts of hours can be tested in a moment, and always in the same order.
 */
import type { Cancel, Runtime } from '../core/spi/index.ts'
import { soon } from './real-timers.ts'

export interface FakeRuntimeOptions {
  /** Everything random follows from it. Default 1. */
  readonly seed?: number
  /** Where the wall clock begins; milliseconds since 1970, or a date. Default 2026-01-01. */
  readonly startAt?: number | Date
  /** The name of this "process" in worker rows and attempts. Default `test`. */
  readonly processName?: string
}

export interface FakeRuntime extends Runtime {
  /** The wall clock. */
  readonly now: Date
  /** Lets time pass: runs what comes due on the way, in order, and everything that follows from it. */
  advance(ms: number): Promise<void>
  /** Runs what is ready without letting time pass. */
  settle(): Promise<void>
  /** Time passes and nothing runs, as in a process that is blocked or stopped; what came due runs later. */
  stall(ms: number): void
  /** Steps the wall clock alone, as an administrator or NTP does; monotonic time and timers do not notice. */
  stepWallClock(ms: number): void
  /** Until the next timer; null when nothing is scheduled. */
  readonly nextTimerInMs: number | null
}

interface Timer {
  readonly at: number
  readonly order: number
  readonly fn: () => void
}

const DEFAULT_START = Date.UTC(2026, 0, 1)
/** Turns of the event loop without anything new after which nothing is ready any more. */
const QUIET_TURNS = 3

const turn = (): Promise<void> => new Promise((resolve) => soon(resolve))

/** Mulberry32: small, well mixed, and the same on every machine. */
const createRandom = (seed: number): (() => number) => {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = state
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

class FakeClock implements FakeRuntime {
  readonly processName: string
  readonly #random: () => number
  readonly #timers = new Set<Timer>()
  #wall: number
  #monotonic = 0
  #order = 0
  /** Grows with everything the core asks of us; when it stands still, nothing is ready. */
  #activity = 0
  #yielding = 0
  #advancing: Promise<void> = Promise.resolve()

  constructor({ seed = 1, startAt = DEFAULT_START, processName = 'test' }: FakeRuntimeOptions) {
    this.#random = createRandom(seed)
    this.#wall = typeof startAt === 'number' ? startAt : startAt.getTime()
    this.processName = processName
  }

  get now(): Date {
    return new Date(this.#wall)
  }

  get nextTimerInMs(): number | null {
    const next = this.#next(Number.POSITIVE_INFINITY)
    return next === null ? null : Math.max(0, next.at - this.#monotonic)
  }

  wallNow(): number {
    return this.#wall
  }

  monotonicNow(): number {
    return this.#monotonic
  }

  random(): number {
    return this.#random()
  }

  randomBytes(size: number): Uint8Array {
    return Uint8Array.from({ length: size }, () => Math.floor(this.#random() * 256))
  }

  schedule(delayMs: number, fn: () => void): Cancel {
    this.#activity += 1
    const timer = { at: this.#monotonic + Math.max(0, delayMs), order: this.#order, fn }
    this.#order += 1
    this.#timers.add(timer)
    // What needs no time must not wait for a test to let time pass.
    if (!(delayMs > 0)) void this.yield().then(() => this.#fire(timer))
    return () => {
      this.#timers.delete(timer)
    }
  }

  async yield(): Promise<void> {
    this.#activity += 1
    this.#yielding += 1
    await turn()
    this.#yielding -= 1
  }

  stepWallClock(ms: number): void {
    this.#wall += ms
  }

  stall(ms: number): void {
    this.#moveTo(this.#monotonic + ms)
  }

  async settle(): Promise<void> {
    for (let quiet = 0; quiet < QUIET_TURNS; ) {
      const before = this.#activity
      await turn()
      quiet = this.#activity === before && this.#yielding === 0 ? quiet + 1 : 0
    }
  }

  advance(ms: number): Promise<void> {
    if (!(ms >= 0 && Number.isFinite(ms))) {
      return Promise.reject(new RangeError(`advance takes milliseconds from 0 on, not ${String(ms)}`))
    }
    const advanced = this.#advancing.then(() => this.#advance(ms))
    this.#advancing = advanced.catch(() => undefined)
    return advanced
  }

  async #advance(ms: number): Promise<void> {
    await this.settle()
    const until = this.#monotonic + ms
    for (let next = this.#next(until); next !== null; next = this.#next(until)) {
      this.#moveTo(next.at)
      this.#fire(next)
      await this.settle()
    }
    this.#moveTo(until)
    await this.settle()
  }

  #moveTo(at: number): void {
    if (at <= this.#monotonic) return
    this.#wall += at - this.#monotonic
    this.#monotonic = at
  }

  #next(until: number): Timer | null {
    let next: Timer | null = null
    for (const timer of this.#timers) {
      if (timer.at > until) continue
      if (next === null || timer.at < next.at || (timer.at === next.at && timer.order < next.order))
        next = timer
    }
    return next
  }

  #fire(timer: Timer): void {
    if (this.#timers.delete(timer)) timer.fn()
  }
}

export const createFakeRuntime = (options: FakeRuntimeOptions = {}): FakeRuntime => new FakeClock(options)
