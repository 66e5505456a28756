/** Long work of an operator: at a bounded pace, with a word about how far it is, and over at once when nobody wants it any more. */
import { refuse } from './check-options.ts'
import { boundedNumber, DESTINATION_BOUNDS } from './options.ts'
import type { Runtime } from './spi/index.ts'

export interface PaceOptions<P> {
  /** Most deliveries per second. */
  readonly ratePerSecond?: number
  /** Called after every step; what it throws ends the work. */
  readonly onProgress?: (progress: P) => void
  /** Ends the work after the step that is under way. What is done stays done. */
  readonly signal?: AbortSignal
}

export const checkPace = <P>({ ratePerSecond, onProgress, signal }: PaceOptions<P>): void => {
  if (ratePerSecond !== undefined)
    boundedNumber('ratePerSecond', ratePerSecond, DESTINATION_BOUNDS.ratePerSecond, false)
  if (onProgress !== undefined && typeof onProgress !== 'function')
    refuse('onProgress', onProgress, 'must be a function')
  if (signal !== undefined && !(typeof signal === 'object' && signal !== null && 'aborted' in signal))
    refuse('signal', signal, 'must be the signal of an AbortController')
}

/** Resolves after this time, or as soon as the signal says so. */
export const pauseFor = (runtime: Runtime, ms: number, signal: AbortSignal | undefined): Promise<void> =>
  new Promise((resolve) => {
    if (signal?.aborted === true) return resolve()
    const wake = (): void => {
      cancel()
      signal?.removeEventListener('abort', wake)
      resolve()
    }
    const cancel = runtime.schedule(ms, wake)
    signal?.addEventListener('abort', wake, { once: true })
  })

/** Steps of at most a second's worth, so that a slow pace is one, and not a crowd now and then. */
export const stepSize = (ratePerSecond: number, most: number): number =>
  Math.max(1, Math.min(most, Math.ceil(ratePerSecond)))
