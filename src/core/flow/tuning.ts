/**
 * The numbers of one destination that an operator may change while it runs. Dispatcher and poller read them anew each time,
 * so a change needs no more than a nudge: what runs goes on, and what comes next goes by the new numbers.
 */
import { TUNED_NAMES, type TunedName, type TunedSettings } from '../model/settings.ts'
import {
  DESTINATION_BOUNDS,
  type ResolvedDestination,
  type ResolvedOptions,
  sendable,
  TUNED_BOUNDS,
} from '../options.ts'

type Numbers = Readonly<Record<TunedName, number>>

/** Another release may have other bounds, and a column takes whatever a hand writes: the nearest number that works. */
const within = (value: number, [lowest, highest]: readonly [number, number]): number =>
  Math.min(highest, Math.max(lowest, value))

/** The registry's rate, or one's own where it has none that means anything. */
export const usableRate = (given: number | null, own: number | null): number | null =>
  given === null || !Number.isFinite(given) ? own : within(given, DESTINATION_BOUNDS.ratePerSecond)

export class Tuning {
  readonly #destination: ResolvedDestination
  readonly #idleMaxMs: number
  readonly #own: Numbers
  #now: Numbers

  constructor(destination: ResolvedDestination, options: ResolvedOptions) {
    this.#destination = destination
    this.#idleMaxMs = options.pollIdleMaxMs
    const { concurrency, batchSize } = destination
    const { pollBatchSize, pollIntervalMs } = options
    this.#own = { concurrency, batchSize, pollBatchSize, pollIntervalMs }
    this.#now = this.#own
  }

  get concurrency(): number {
    return this.#now.concurrency
  }

  get batchSize(): number {
    return this.#now.batchSize
  }

  get pollBatchSize(): number {
    return this.#now.pollBatchSize
  }

  get pollIntervalMs(): number {
    return this.#now.pollIntervalMs
  }

  get pollIdleMaxMs(): number {
    return Math.max(this.#idleMaxMs, this.#now.pollIntervalMs)
  }

  /** Deliveries that a process can have had under way when it ended, by its options or by what an operator set. */
  get mostUnderWay(): number {
    const most = (numbers: Numbers): number => numbers.concurrency * numbers.batchSize
    return Math.max(most(this.#own), most(this.#now))
  }

  /** False when nothing changed. */
  apply(settings: TunedSettings): boolean {
    const before = this.#now
    const entries = TUNED_NAMES.map((name) => [name, this.#valueOf(name, settings[name])])
    this.#now = Object.fromEntries(entries) as Numbers
    return TUNED_NAMES.some((name) => before[name] !== this.#now[name])
  }

  #valueOf(name: TunedName, given: number | undefined): number {
    if (given === undefined) return this.#own[name]
    const value = within(Math.round(given), TUNED_BOUNDS[name])
    return name === 'batchSize' ? sendable(this.#destination.to, value) : value
  }
}
