import type { Cancel, Runtime } from '../spi/index.ts'

/**
 * A bell that one loop waits on. A ring while nobody waits is remembered, so it cannot be missed between
 * looking for work and lying down.
 */
export class Signal {
  #rung = false
  #wake: (() => void) | null = null
  readonly #runtime: Runtime

  constructor(runtime: Runtime) {
    this.#runtime = runtime
  }

  ring(): void {
    if (this.#wake) this.#wake()
    else this.#rung = true
  }

  /** Resolves when rung, or after `timeoutMs`; null waits for the bell alone. */
  wait(timeoutMs: number | null): Promise<void> {
    if (this.#rung) {
      this.#rung = false
      return Promise.resolve()
    }
    return new Promise((resolve) => {
      let cancel: Cancel | null = null
      const wake = (): void => {
        this.#wake = null
        cancel?.()
        resolve()
      }
      this.#wake = wake
      if (timeoutMs !== null) cancel = this.#runtime.schedule(timeoutMs, wake)
    })
  }
}

export const sleep = (runtime: Runtime, delayMs: number): Promise<void> =>
  new Promise((resolve) => {
    runtime.schedule(delayMs, resolve)
  })
