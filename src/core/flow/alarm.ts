/** Calls a function later, once, however often it is asked to. */
import type { Cancel, Runtime } from '../spi/index.ts'

export class Alarm {
  readonly #runtime: Runtime
  readonly #ring: () => void
  #soon = false
  #later = false
  #timer: { readonly at: number; readonly cancel: Cancel } | null = null

  constructor(runtime: Runtime, ring: () => void) {
    this.#runtime = runtime
    this.#ring = ring
  }

  /** When the present turn is over: for all that it brings together. */
  soon(): void {
    if (this.#soon) return
    this.#soon = true
    queueMicrotask(() => {
      this.#soon = false
      this.#ring()
    })
  }

  /** Two turns later: whoever takes one first, such as the poller for its next read, goes before. */
  later(): void {
    if (this.#later) return
    this.#later = true
    void this.#runtime
      .yield()
      .then(() => this.#runtime.yield())
      .then(() => {
        this.#later = false
        this.#ring()
      })
  }

  /** The earliest time counts: why somebody had to wait longer may be gone by then. */
  after(delayMs: number): void {
    const waitMs = Math.max(1, Math.ceil(delayMs))
    const at = this.#runtime.monotonicNow() + waitMs
    if (this.#timer !== null && this.#timer.at <= at) return
    this.cancel()
    const cancel = this.#runtime.schedule(waitMs, () => {
      this.#timer = null
      this.#ring()
    })
    this.#timer = { at, cancel }
  }

  cancel(): void {
    this.#timer?.cancel()
    this.#timer = null
  }
}
