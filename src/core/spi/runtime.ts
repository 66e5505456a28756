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

/** Whether the promise settles in time; the timer does not outlive it. */
export const within = (runtime: Runtime, limitMs: number, promise: Promise<unknown>): Promise<boolean> =>
  new Promise((resolve, reject) => {
    const cancel = runtime.schedule(limitMs, () => resolve(false))
    promise.then(
      () => {
        cancel()
        resolve(true)
      },
      (error: unknown) => {
        cancel()
        reject(error)
      },
    )
  })

export type LogLevel = 'debug' | 'info' | 'warn' | 'error'

/** Structured logs. Fields never contain payloads or headers: those may be personal data. */
export interface Logger {
  log(level: LogLevel, message: string, fields?: Readonly<Record<string, unknown>>): void
  /** Whether this level is written at all. What comes once a batch, at `debug`, is told only to those who say so. */
  isEnabled?(level: LogLevel): boolean
}
