import type { DeliverySource, DeliveryStatus } from '../model/delivery.ts'

/**
 * Counters, gauges and observations by the names the seeds list, and the ones that lanes and lags add. Every method
 * must return at once. Those that are called most often are called once a batch; `observeLag` and `observeAttempts`
 * are the only ones that every delivery calls when it is written.
 */
export interface Metrics {
  hotEnqueued(destination: string, count: number): void
  /** Offered after commit but left to the poller: queue full, breaker open, stopping. */
  hotDropped(destination: string, count: number): void
  coldEnqueued(destination: string, count: number): void
  dispatchSuccess(destination: string, count: number): void
  dispatchFailure(destination: string, count: number): void
  dispatchDead(destination: string, count: number): void
  queueDepths(destination: string, hot: number, cold: number): void
  oldestLagMs(destination: string, lagMs: number): void
  observeBatchDuration(destination: string, durationMs: number): void
  addProcessed(destination: string, count: number): void
  addErrors(destination: string, count: number): void
  addRetries(destination: string, count: number): void
  addDead(destination: string, count: number): void
  setPending(destination: string, count: number): void
  /** Commit to the end of a successful delivery, in milliseconds; hot path only. */
  observeLatency(destination: string, latencyMs: number): void
  /** A settle that changed nothing because the right was lost. */
  rightsLost(destination: string, count: number): void
  lanesOwned(destination: string, count: number): void
  breakerState(destination: string, state: 'closed' | 'open' | 'halfOpen'): void
  suspects(destination: string, count: number): void

  /** Events that were stored by one call of publish; their transaction may still be rolled back. */
  published(type: string, count: number): void
  /** From the commit, or from when it was due, until it was written that it is done; in milliseconds. */
  observeLag(destination: string, path: DeliverySource, lagMs: number): void
  /** How many attempts it took until it was done or dead. */
  observeAttempts(destination: string, outcome: 'done' | 'dead', attempts: number): void
  /** Deliveries that found nobody there; they wait with their attempts unspent. */
  addOutages(destination: string, count: number): void
  /** One read of the poller: how many rows it brought, and how long the database took. */
  observeRead(destination: string, rows: number, durationMs: number): void
  /** One write of outcomes, of all destinations together. */
  observeSettle(count: number, durationMs: number): void
  /** A write of outcomes failed and is tried again. */
  settleFailed(count: number): void
  /** Lanes whose lease ran out before it was renewed. */
  lanesLost(destination: string, count: number): void
  /** Lanes of a process that did not say goodbye, taken over by this one. */
  lanesTakenOver(destination: string, count: number): void
  setPaused(destination: string, paused: boolean): void
  /** How many deliveries there are of each state; sampled together with `setPending`. */
  setBacklog(destination: string, counts: Readonly<Record<DeliveryStatus, number>>): void
}
