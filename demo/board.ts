/** Everything the screen shows, gathered as it happens; in crash mode from the messages of the shop's process. */
import type { Call } from './calls.ts'
import { DESTINATION_NAMES } from './catalogue.ts'

export interface DestinationBoard {
  done: number
  hot: number
  cold: number
  /** Failed calls that spent an attempt. */
  retries: number
  dead: number
  waiting: number
  queued: number
  breaker: 'closed' | 'open' | 'halfOpen'
}

export interface Stats {
  readonly published: number
  readonly rolledBack: number
  readonly destinations: Readonly<
    Record<string, Pick<DestinationBoard, 'waiting' | 'dead' | 'queued' | 'breaker'>>
  >
}

export interface Told {
  readonly atMs: number
  readonly text: string
}

const BUCKET_MS = 250
const BUCKETS = 40
const LATENCIES = 2_000

export class Board {
  readonly total: number
  readonly startedAt = performance.now()
  readonly destinations = new Map<string, DestinationBoard>()
  readonly told: Told[] = []
  published = 0
  rolledBack = 0
  /** Of shops that were killed; a rollback leaves no trace by which a new one could know. */
  rolledBackBefore = 0
  kills = 0
  /** What happens now, in one line; recomputed by the director while it lasts. */
  now = ''
  #latencies: number[] = []
  #buckets: { index: number; calls: number }[] = []
  readonly #listeners: ((told: Told) => void)[] = []

  constructor(total: number) {
    this.total = total
    for (const name of DESTINATION_NAMES) {
      this.destinations.set(name, {
        done: 0,
        hot: 0,
        cold: 0,
        retries: 0,
        dead: 0,
        waiting: 0,
        queued: 0,
        breaker: 'closed',
      })
    }
  }

  get elapsedMs(): number {
    return performance.now() - this.startedAt
  }

  onTold(listener: (told: Told) => void): void {
    this.#listeners.push(listener)
  }

  /** A new sentence of the story. */
  tell(text: string): void {
    const told = { atMs: this.elapsedMs, text }
    this.now = text
    this.told.push(told)
    for (const listener of this.#listeners) listener(told)
  }

  called(call: Call): void {
    const row = this.destinations.get(call.destination)
    if (row === undefined) return
    if (!call.ok) {
      if (call.fault !== 'outage') row.retries += 1
      return
    }
    row.done += 1
    row[call.path] += 1
    if (call.latencyMs !== null) this.#latencies.push(call.latencyMs)
    if (this.#latencies.length > 2 * LATENCIES) this.#latencies = this.#latencies.slice(-LATENCIES)
    const index = Math.floor(this.elapsedMs / BUCKET_MS)
    const last = this.#buckets.at(-1)
    if (last?.index === index) last.calls += 1
    else this.#buckets.push({ index, calls: 1 })
    if (this.#buckets.length > 4 * BUCKETS) this.#buckets = this.#buckets.slice(-2 * BUCKETS)
  }

  updated(stats: Stats): void {
    this.published = stats.published
    this.rolledBack = this.rolledBackBefore + stats.rolledBack
    for (const [name, now] of Object.entries(stats.destinations))
      Object.assign(this.destinations.get(name) ?? {}, now)
  }

  sum(field: Exclude<keyof DestinationBoard, 'breaker'>): number {
    let sum = 0
    for (const row of this.destinations.values()) sum += row[field]
    return sum
  }

  /** Deliveries per quarter of a second, oldest first; the running quarter is left out because it is not full. */
  history(): number[] {
    const last = Math.floor(this.elapsedMs / BUCKET_MS) - 1
    const byIndex = new Map(this.#buckets.map(({ index, calls }) => [index, calls]))
    return Array.from({ length: BUCKETS }, (_, i) => byIndex.get(last - BUCKETS + 1 + i) ?? 0)
  }

  ratePerSecond(): number {
    const recent = this.history().slice(-4)
    return recent.reduce((sum, calls) => sum + calls, 0) * (1_000 / BUCKET_MS / recent.length)
  }

  latency(share: number): number | null {
    const sorted = this.#latencies.slice(-LATENCIES).sort((a, b) => a - b)
    return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? null
  }
}
