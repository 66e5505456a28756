/**
 * Gives up statements whose answer does not come. One timer watches all of them: a timer for each would cost a
 * publish more than building its statement does. An answer may be late by a quarter of the limit before it is missed.
 */
import type { Cancel, Runtime } from '../../core/spi/index.ts'

/** Rounds of the timer in one limit. */
const ROUNDS = 4

interface Waiting {
  readonly since: number
  /** Null once it is over: what a Set gave up it may keep for a while, and this leads to the answer's rows. */
  giveUp: ((error: Error) => void) | null
}

export class Watchdog {
  readonly #runtime: Runtime
  readonly #limitMs: number
  /** In the order in which they were sent. */
  readonly #waiting = new Set<Waiting>()
  /** Rounds rather than times: while the process itself stands still, nobody's time runs out. */
  #round = 0
  #timer: Cancel | null = null

  constructor(runtime: Runtime, limitMs: number) {
    this.#runtime = runtime
    this.#limitMs = limitMs
  }

  /** The answer, or the error by which `pg` calls one that did not come. Its connection is of no use then. */
  watch<T>(answer: Promise<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const waiting: Waiting = { since: this.#round, giveUp: reject }
      this.#waiting.add(waiting)
      this.#timer ??= this.#runtime.schedule(this.#limitMs / ROUNDS, () => this.#look(), { background: true })
      answer.then(
        (value) => {
          this.#remove(waiting)
          resolve(value)
        },
        (error: unknown) => {
          this.#remove(waiting)
          reject(error)
        },
      )
    })
  }

  #remove(waiting: Waiting): void {
    this.#waiting.delete(waiting)
    waiting.giveUp = null
  }

  #look(): void {
    this.#round += 1
    this.#timer = null
    for (const waiting of this.#waiting) {
      // The first round was under way already when the statement was sent.
      if (this.#round - waiting.since <= ROUNDS) break
      this.#waiting.delete(waiting)
      waiting.giveUp?.(new Error('Query read timeout'))
    }
    if (this.#waiting.size === 0) return
    this.#timer = this.#runtime.schedule(this.#limitMs / ROUNDS, () => this.#look(), { background: true })
  }
}
