/** For clients that wait for an answer as long as there is a connection, although nobody may be at its other end any more. */

/** Of one connection: what one of those who wait there hears is heard by all, because answers come one after another. */
export class Silence {
  readonly #timers = new Set<NodeJS.Timeout>()

  /** Begins everybody's time anew: a large batch on a slow line is no silence as long as answers come. */
  broken(): void {
    for (const timer of this.#timers) timer.refresh()
  }

  /** What the work gives, or null when nothing was heard for so long. */
  async limit<T>(limitMs: number, work: () => Promise<T>): Promise<T | null> {
    let timer!: NodeJS.Timeout
    const over = new Promise<null>((resolve) => {
      timer = setTimeout(resolve, limitMs, null)
    })
    this.#timers.add(timer)
    try {
      return await Promise.race([work(), over])
    } finally {
      clearTimeout(timer)
      this.#timers.delete(timer)
    }
  }
}
