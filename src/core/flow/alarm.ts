/** Calls a function later, once, however often it is asked to. */
import type { Cancel, Runtime } from '../spi/index.ts'

export class Alarm {
  readonly #runtime: Runtime
  readonly #ring: () => void
  #soon = false
  #timer: Cancel | null = null

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

  /** The first time counts, until it has come. */
  after(delayMs: number): void {
    this.#timer ??= this.#runtime.schedule(Math.max(1, Math.ceil(delayMs)), () => {
      this.#timer = null
      this.#ring()
    })
  }

  cancel(): void {
    this.#timer?.()
    this.#timer = null
  }
}
