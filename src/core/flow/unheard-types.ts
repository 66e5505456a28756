/** A mistyped event type would otherwise vanish without a word. Each is told of once, however many engines meet it. */
import type { Logger } from '../spi/index.ts'

/** Names that are made up as the program runs must not fill the memory. */
const LIMIT = 100

export class UnheardTypes {
  readonly #logger: Logger
  readonly #noted = new Set<string>()

  constructor(logger: Logger) {
    this.#logger = logger
  }

  note(type: string): void {
    if (this.#noted.has(type) || this.#noted.size >= LIMIT) return
    this.#noted.add(type)
    this.#logger.log('warn', 'no destination hears of this event type; it is stored and sent nowhere', {
      type,
    })
  }
}
