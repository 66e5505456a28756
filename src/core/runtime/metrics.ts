import type { DeliveryStatus } from '../model/delivery.ts'
import type { Metrics } from '../spi/index.ts'

const nothing = (): undefined => undefined

/** The default: measures nothing. */
export const NOOP_METRICS: Metrics = Object.freeze({
  hotEnqueued: nothing,
  hotDropped: nothing,
  coldEnqueued: nothing,
  dispatchSuccess: nothing,
  dispatchFailure: nothing,
  dispatchDead: nothing,
  queueDepths: nothing,
  oldestLagMs: nothing,
  observeBatchDuration: nothing,
  addProcessed: nothing,
  addErrors: nothing,
  addRetries: nothing,
  addDead: nothing,
  setPending: nothing,
  observeLatency: nothing,
  rightsLost: nothing,
  lanesOwned: nothing,
  breakerState: nothing,
  suspects: nothing,
  published: nothing,
  observeLag: nothing,
  observeAttempts: nothing,
  addOutages: nothing,
  observeRead: nothing,
  observeSettle: nothing,
  settleFailed: nothing,
  lanesLost: nothing,
  lanesTakenOver: nothing,
  setPaused: nothing,
  setBacklog: nothing,
})

type Method = (a: unknown, b: unknown, c: unknown) => void

/**
 * The same metrics, but one that throws disturbs nobody: counting must never decide whether an event is stored. Methods
 * that are missing, because they are newer than whoever wrote these metrics, measure nothing.
 */
export const guardedMetrics = (metrics: Metrics): Metrics => {
  if (metrics === NOOP_METRICS) return metrics
  const guarded: Record<string, Method> = {}
  for (const name of Object.keys(NOOP_METRICS) as (keyof Metrics)[]) {
    const method = metrics[name] as Method | undefined
    if (typeof method !== 'function') guarded[name] = nothing
    else {
      // Three parameters and no list of them: this is called for every delivery.
      guarded[name] = (a, b, c) => {
        try {
          method.call(metrics, a, b, c)
        } catch {
          // What cannot be counted is not worth a failed delivery, and a log line for each would be a flood.
        }
      }
    }
  }
  return guarded as unknown as Metrics
}

/** How often and how long something took. */
export interface Observations {
  readonly count: number
  readonly sum: number
  readonly max: number
}

type Counter =
  | 'hotEnqueued'
  | 'hotDropped'
  | 'coldEnqueued'
  | 'dispatchSuccess'
  | 'dispatchFailure'
  | 'dispatchDead'
  | 'addProcessed'
  | 'addErrors'
  | 'addRetries'
  | 'addDead'
  | 'rightsLost'
  | 'suspects'
  | 'published'
  | 'addOutages'
  | 'lanesLost'
  | 'lanesTakenOver'
type Gauge = 'hotQueueDepth' | 'coldQueueDepth' | 'oldestLagMs' | 'setPending' | 'lanesOwned' | 'setPaused'
type Series =
  | 'observeBatchDuration'
  | 'observeLatency'
  | 'observeLag'
  | 'observeAttempts'
  | 'observeRead'
  | 'observeSettle'

export interface CountingMetrics extends Metrics {
  /** Sum of a counter; over all destinations unless one is named. `published` is by type. */
  count(name: Counter, destination?: string): number
  /** Last value of a gauge; undefined when it was never set. */
  gauge(name: Gauge, destination: string): number | undefined
  /** Without a destination for `observeSettle`, whose batches are of all of them. */
  observations(name: Series, destination?: string): Observations
  /** Writes of outcomes that failed. */
  readonly settlesFailed: number
  backlog(destination: string): Readonly<Record<DeliveryStatus, number>> | undefined
  breaker(destination: string): 'closed' | 'open' | 'halfOpen' | undefined
}

const NONE: Observations = Object.freeze({ count: 0, sum: 0, max: 0 })

/** Keeps everything in memory; for tests, the demo, and as an example of an implementation. */
export const createCountingMetrics = (): CountingMetrics => {
  const numbers = new Map<string, Map<string, number>>()
  const series = new Map<string, Observations>()
  const breakers = new Map<string, 'closed' | 'open' | 'halfOpen'>()
  const backlogs = new Map<string, Readonly<Record<DeliveryStatus, number>>>()
  let settlesFailed = 0

  const of = (name: string): Map<string, number> => {
    const known = numbers.get(name) ?? new Map<string, number>()
    numbers.set(name, known)
    return known
  }
  const counter = (name: Counter) => (destination: string, count: number) => {
    const values = of(name)
    values.set(destination, (values.get(destination) ?? 0) + count)
  }
  const gauge = (name: Gauge) => (destination: string, value: number) => {
    of(name).set(destination, value)
  }
  const observe = (name: Series) => (destination: string, value: number) => {
    const { count, sum, max } = series.get(`${name} ${destination}`) ?? NONE
    series.set(`${name} ${destination}`, { count: count + 1, sum: sum + value, max: Math.max(max, value) })
  }
  const [hotDepth, coldDepth, paused] = [gauge('hotQueueDepth'), gauge('coldQueueDepth'), gauge('setPaused')]
  const [lag, attempts] = [observe('observeLag'), observe('observeAttempts')]
  const [read, settle] = [observe('observeRead'), observe('observeSettle')]

  return {
    hotEnqueued: counter('hotEnqueued'),
    hotDropped: counter('hotDropped'),
    coldEnqueued: counter('coldEnqueued'),
    dispatchSuccess: counter('dispatchSuccess'),
    dispatchFailure: counter('dispatchFailure'),
    dispatchDead: counter('dispatchDead'),
    queueDepths(destination, hot, cold) {
      hotDepth(destination, hot)
      coldDepth(destination, cold)
    },
    oldestLagMs: gauge('oldestLagMs'),
    observeBatchDuration: observe('observeBatchDuration'),
    addProcessed: counter('addProcessed'),
    addErrors: counter('addErrors'),
    addRetries: counter('addRetries'),
    addDead: counter('addDead'),
    setPending: gauge('setPending'),
    observeLatency: observe('observeLatency'),
    rightsLost: counter('rightsLost'),
    lanesOwned: gauge('lanesOwned'),
    breakerState: (destination, state) => void breakers.set(destination, state),
    suspects: counter('suspects'),
    published: counter('published'),
    observeLag: (destination, _path, lagMs) => lag(destination, lagMs),
    observeAttempts: (destination, _outcome, count) => attempts(destination, count),
    addOutages: counter('addOutages'),
    observeRead: (destination, rows) => read(destination, rows),
    observeSettle: (count) => settle('', count),
    settleFailed: (count) => {
      settlesFailed += count
    },
    lanesLost: counter('lanesLost'),
    lanesTakenOver: counter('lanesTakenOver'),
    setPaused: (destination, isPaused) => paused(destination, Number(isPaused)),
    setBacklog: (destination, counts) => void backlogs.set(destination, counts),

    get settlesFailed() {
      return settlesFailed
    },
    backlog: (destination) => backlogs.get(destination),
    count(name, destination) {
      const values = of(name)
      if (destination !== undefined) return values.get(destination) ?? 0
      return [...values.values()].reduce((sum, value) => sum + value, 0)
    },
    gauge: (name, destination) => of(name).get(destination),
    observations: (name, destination = '') => series.get(`${name} ${destination}`) ?? NONE,
    breaker: (destination) => breakers.get(destination),
  }
}
