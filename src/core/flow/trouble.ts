/** What the rounds of a loop meet, one after the other: the log gets the beginning of it, a line now and then, and its end. */
import type { Logger, Runtime } from '../spi/index.ts'

const WARN_EVERY_MS = 10_000

type Fields = Readonly<Record<string, unknown>>

export class Trouble {
  readonly #runtime: Runtime
  readonly #logger: Logger
  #met: unknown = null
  /** When it was last told of; null while there is none. */
  #warnedAt: number | null = null

  constructor(runtime: Runtime, logger: Logger) {
    this.#runtime = runtime
    this.#logger = logger
  }

  /** Why the last round failed; null if it did not. */
  get met(): unknown {
    return this.#met
  }

  meets(error: unknown, message: string, fields: Fields): void {
    this.#met = error
    const now = this.#runtime.monotonicNow()
    if (this.#warnedAt !== null && now - this.#warnedAt < WARN_EVERY_MS) return
    this.#warnedAt = now
    this.#logger.log('warn', message, { ...fields, error: String(error) })
  }

  ends(message: string, fields: Fields): void {
    this.#met = null
    if (this.#warnedAt === null) return
    this.#warnedAt = null
    this.#logger.log('info', message, fields)
  }
}
