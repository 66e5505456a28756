/**
 * Everything the core needs from the outside world. The system's runtime is one implementation, the seeded
 * simulator another; because the core has no other access to time, chance or timers, the same code runs in both.
 */
export interface Runtime {
  /** Wall clock, milliseconds since 1970. Only for ids and for times that people read; never for leases. */
  wallNow(): number
  /** Monotonic clock in milliseconds; never steps. */
  monotonicNow(): number
  /** Uniform in [0, 1). */
  random(): number
  randomBytes(size: number): Uint8Array
  /** Runs `fn` once after `delayMs` (values beyond the timer's range are cut to it). Does not keep a process alive if `background`. */
  schedule(delayMs: number, fn: () => void, options?: { readonly background?: boolean }): Cancel
  /** Resolves after other work that is ready had its turn. */
  yield(): Promise<void>
  /** For a worker's row: something a person recognises, such as host and process id. */
  readonly processName: string
}

export type Cancel = () => void

export type LogLevel = 'debug' | 'info' | 'warn' | 'error'

/** Structured logs. Fields never contain payloads or headers: those may be personal data. */
export interface Logger {
  log(level: LogLevel, message: string, fields?: Readonly<Record<string, unknown>>): void
}

/** Counters and gauges by the names the seeds list, and the ones the lanes add. Every method must return at once. */
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
}
