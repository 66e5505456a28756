/**
 * Every metric that exporters show: its name, kind, unit and labels in one list, so that Prometheus, OpenTelemetry,
 * docs/observability.md, the dashboard and the alert rules speak of the same ones.
 */
export type Unit = 'seconds' | ''

interface FamilyShape {
  readonly kind: 'counter' | 'gauge' | 'histogram'
  /** The last part of the name in Prometheus, and the unit in OpenTelemetry. */
  readonly unit: Unit
  readonly labels: readonly Label[]
  readonly help: string
  /** Upper bounds; the last one, which is infinite, goes without saying. */
  readonly buckets?: readonly number[]
}

export type Label = 'destination' | 'path' | 'outcome' | 'state' | 'status' | 'type'

/** From a hot delivery without a network in between to a backlog of an hour. */
const LAG_SECONDS = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600,
]
const CALL_SECONDS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]
const SIZES = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000]
const ATTEMPTS = [1, 2, 3, 5, 10, 20, 50]

export const FAMILIES = {
  published_events: {
    kind: 'counter',
    unit: '',
    labels: ['type'],
    help: 'Events that publish took; those of transactions that were rolled back, or that the server refused later, are among them.',
  },
  enqueued: {
    kind: 'counter',
    unit: '',
    labels: ['destination', 'path'],
    help: 'Deliveries that entered the queues of this process.',
  },
  hot_dropped: {
    kind: 'counter',
    unit: '',
    labels: ['destination'],
    help: 'Deliveries left to the poller after their commit: queue full, paused, breaker open or stopping.',
  },
  deliveries: {
    kind: 'counter',
    unit: '',
    labels: ['destination', 'outcome'],
    help: 'Attempts by what became of them: done, retry, dead, or outage, which spends no attempt.',
  },
  delivery_failures: {
    kind: 'counter',
    unit: '',
    labels: ['destination'],
    help: 'Attempts that the receiver refused, whether they are tried again or dead.',
  },
  delivery_lag: {
    kind: 'histogram',
    unit: 'seconds',
    labels: ['destination', 'path'],
    help: 'From the commit, or from when it was due, until it was written that the delivery is done.',
    buckets: LAG_SECONDS,
  },
  delivery_attempts: {
    kind: 'histogram',
    unit: '',
    labels: ['destination', 'outcome'],
    help: 'Attempts that it took until a delivery was done or dead.',
    buckets: ATTEMPTS,
  },
  batch_duration: {
    kind: 'histogram',
    unit: 'seconds',
    labels: ['destination'],
    help: 'One call of a listener or publisher.',
    buckets: CALL_SECONDS,
  },
  queue_depth: {
    kind: 'gauge',
    unit: '',
    labels: ['destination', 'path'],
    help: 'Deliveries that wait in the memory of this process.',
  },
  read_rows: {
    kind: 'histogram',
    unit: '',
    labels: ['destination'],
    help: 'Rows that one read of the poller brought.',
    buckets: SIZES,
  },
  read_duration: {
    kind: 'histogram',
    unit: 'seconds',
    labels: ['destination'],
    help: 'One read of the poller, as long as the database took.',
    buckets: CALL_SECONDS,
  },
  settle_batch_size: {
    kind: 'histogram',
    unit: '',
    labels: [],
    help: 'Outcomes written by one statement.',
    buckets: SIZES,
  },
  settle_duration: {
    kind: 'histogram',
    unit: 'seconds',
    labels: [],
    help: 'One write of outcomes, as long as the database took.',
    buckets: CALL_SECONDS,
  },
  settle_failures: {
    kind: 'counter',
    unit: '',
    labels: [],
    help: 'Writes of outcomes that failed and are tried again.',
  },
  rights_lost: {
    kind: 'counter',
    unit: '',
    labels: ['destination'],
    help: 'Deliveries whose right was lost before their outcome was written; each may come twice.',
  },
  suspects: {
    kind: 'counter',
    unit: '',
    labels: ['destination'],
    help: 'Deliveries that may have ended a process, counted again each time.',
  },
  lanes_owned: {
    kind: 'gauge',
    unit: '',
    labels: ['destination'],
    help: 'Lanes that this process has, of 64.',
  },
  lanes_lost: {
    kind: 'counter',
    unit: '',
    labels: ['destination'],
    help: 'Lanes whose lease this process lost before it renewed it.',
  },
  lanes_taken_over: {
    kind: 'counter',
    unit: '',
    labels: ['destination'],
    help: 'Lanes that this process took from one that did not say goodbye.',
  },
  breaker_state: {
    kind: 'gauge',
    unit: '',
    labels: ['destination', 'state'],
    help: '1 for the state that the breaker of this process is in, 0 for the others.',
  },
  paused: {
    kind: 'gauge',
    unit: '',
    labels: ['destination'],
    help: '1 while the destination is paused.',
  },
  pending: {
    kind: 'gauge',
    unit: '',
    labels: ['destination'],
    help: 'Unfinished deliveries in the database; sampled every pendingIntervalMs.',
  },
  backlog: {
    kind: 'gauge',
    unit: '',
    labels: ['destination', 'status'],
    help: 'Deliveries in the database by their state; sampled every pendingIntervalMs.',
  },
  oldest_age: {
    kind: 'gauge',
    unit: 'seconds',
    labels: ['destination'],
    help: 'Age of the oldest delivery that is due; sampled every pendingIntervalMs.',
  },
} as const satisfies Readonly<Record<string, FamilyShape>>

export type FamilyName = keyof typeof FAMILIES

export type Family = FamilyShape

/** Values in the order of the family's labels. */
export type LabelValues = readonly string[]

/** What stands for the values that are beyond a bound. No destination may have this name. */
export const OTHER = '_other'
