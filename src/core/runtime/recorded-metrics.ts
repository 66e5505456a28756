/**
 * From what the core tells to the families of exporters. Labels are bounded here: types and destinations beyond the
 * bound are counted together as `_other`, so that a mistake in a name does not fill the memory of a monitoring system.
 */
import type { DeliveryStatus } from '../model/delivery.ts'
import type { Metrics } from '../spi/index.ts'
import { type FamilyName, type LabelValues, OTHER } from './metric-families.ts'

/** Where figures go. Label values are in the order of the family's labels, and frozen: they may be kept. */
export interface MetricSink {
  add(family: FamilyName, labels: LabelValues, value: number): void
  set(family: FamilyName, labels: LabelValues, value: number): void
  observe(family: FamilyName, labels: LabelValues, value: number): void
}

export interface LabelBounds {
  readonly maxDestinations: number
  readonly maxTypes: number
}

/** The same list for the same values, so that nothing is allocated for what was seen before. */
class Labels {
  readonly #known = new Map<string, LabelValues>()
  readonly #second = new Map<string, Map<string, LabelValues>>()
  readonly #max: number

  constructor(max: number) {
    this.#max = max
  }

  one(value: string): LabelValues {
    const known = this.#known.get(value)
    if (known !== undefined) return known
    if (this.#known.size >= this.#max && value !== OTHER) return this.one(OTHER)
    const made = Object.freeze([value])
    this.#known.set(value, made)
    return made
  }

  two(value: string, second: string): LabelValues {
    const found = this.#second.get(second)?.get(value)
    if (found !== undefined) return found
    const first = this.one(value)[0] as string
    const known = this.#second.get(second) ?? new Map<string, LabelValues>()
    this.#second.set(second, known)
    const made = known.get(first) ?? Object.freeze([first, second])
    known.set(first, made)
    return made
  }

  /** A gauge of several together would be the one that was told last. */
  isOther(values: LabelValues): boolean {
    return values[0] === OTHER
  }
}

const NO_LABELS: LabelValues = Object.freeze([])
const BREAKER_STATES = [
  ['closed', 'closed'],
  ['open', 'open'],
  ['halfOpen', 'half_open'],
] as const

export const recordedMetrics = (sink: MetricSink, bounds: LabelBounds): Metrics => {
  const destinations = new Labels(bounds.maxDestinations)
  const types = new Labels(bounds.maxTypes)
  const breakers = new Map<string, string>()

  const counter = (family: FamilyName) => (destination: string, count: number) =>
    sink.add(family, destinations.one(destination), count)
  const counterOf = (family: FamilyName, second: string) => (destination: string, count: number) =>
    sink.add(family, destinations.two(destination, second), count)
  const gauge = (family: FamilyName, labels: LabelValues, value: number): void => {
    if (!destinations.isOther(labels)) sink.set(family, labels, value)
  }
  const gaugeOf = (family: FamilyName) => (destination: string, value: number) =>
    gauge(family, destinations.one(destination), value)
  /** The same under another name; the families show it once. */
  const alias = (): void => undefined

  return {
    published: (type, count) => sink.add('published_events', types.one(type), count),
    hotEnqueued: counterOf('enqueued', 'hot'),
    coldEnqueued: counterOf('enqueued', 'cold'),
    hotDropped: counter('hot_dropped'),
    dispatchSuccess: counterOf('deliveries', 'done'),
    addRetries: counterOf('deliveries', 'retry'),
    dispatchDead: counterOf('deliveries', 'dead'),
    addOutages: counterOf('deliveries', 'outage'),
    dispatchFailure: counter('delivery_failures'),
    addProcessed: alias,
    addErrors: alias,
    addDead: alias,
    observeLatency: alias,
    observeLag: (destination, path, lagMs) =>
      sink.observe('delivery_lag', destinations.two(destination, path), lagMs / 1_000),
    observeAttempts: (destination, outcome, attempts) =>
      sink.observe('delivery_attempts', destinations.two(destination, outcome), attempts),
    observeBatchDuration: (destination, durationMs) =>
      sink.observe('batch_duration', destinations.one(destination), durationMs / 1_000),
    queueDepths(destination, hot, cold) {
      gauge('queue_depth', destinations.two(destination, 'hot'), hot)
      gauge('queue_depth', destinations.two(destination, 'cold'), cold)
    },
    observeRead(destination, rows, durationMs) {
      sink.observe('read_rows', destinations.one(destination), rows)
      sink.observe('read_duration', destinations.one(destination), durationMs / 1_000)
    },
    observeSettle(count, durationMs) {
      sink.observe('settle_batch_size', NO_LABELS, count)
      sink.observe('settle_duration', NO_LABELS, durationMs / 1_000)
    },
    settleFailed: (count) => sink.add('settle_failures', NO_LABELS, count),
    rightsLost: counter('rights_lost'),
    suspects: counter('suspects'),
    lanesOwned: gaugeOf('lanes_owned'),
    lanesLost: counter('lanes_lost'),
    lanesTakenOver: counter('lanes_taken_over'),
    breakerState(destination, state) {
      if (breakers.get(destination) === state) return
      if (!breakers.has(destination) && breakers.size >= bounds.maxDestinations) return
      breakers.set(destination, state)
      for (const [name, shown] of BREAKER_STATES)
        gauge('breaker_state', destinations.two(destination, shown), name === state ? 1 : 0)
    },
    setPaused: (destination, paused) => gauge('paused', destinations.one(destination), paused ? 1 : 0),
    setPending: gaugeOf('pending'),
    setBacklog(destination, counts) {
      for (const status of Object.keys(counts) as DeliveryStatus[])
        gauge('backlog', destinations.two(destination, status), counts[status])
    },
    oldestLagMs: (destination, lagMs) => gauge('oldest_age', destinations.one(destination), lagMs / 1_000),
  }
}
