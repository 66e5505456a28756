import { checkMethods, refuse } from './check-options.ts'
import { shown } from './model/shown.ts'
import { createSystemRuntime } from './runtime/system-runtime.ts'
import type { Runtime } from './spi/index.ts'

/**
 * Which ids are being worked on in this process. With a `ttlMs` an entry that nobody released (a handler that
 * never ended) can be taken again after that time; without one it stays until it is released.
 */
export class InFlightTracker {
  readonly #since = new Map<string, number>()
  readonly #ttlMs: number
  readonly #now: () => number

  constructor(
    ttlMs = Number.POSITIVE_INFINITY,
    runtime: Pick<Runtime, 'monotonicNow'> = createSystemRuntime(),
  ) {
    if (typeof ttlMs !== 'number' || !(ttlMs > 0)) {
      refuse('ttlMs', ttlMs, `must be a number above 0, in ms; not ${shown(ttlMs)}`)
    }
    checkMethods('runtime', runtime, 'an implementation of Runtime', ['monotonicNow'])
    this.#ttlMs = ttlMs
    this.#now = () => runtime.monotonicNow()
  }

  get size(): number {
    return this.#since.size
  }

  /** False: somebody here works on it already. */
  tryAcquire(id: string): boolean {
    const since = this.#since.get(id)
    const now = this.#now()
    if (since !== undefined && now - since < this.#ttlMs) return false
    this.#since.set(id, now)
    return true
  }

  release(id: string): void {
    this.#since.delete(id)
  }
}
