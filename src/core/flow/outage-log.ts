/**
 * What the log says of places that cannot be reached. It outlives engines: a round of `processOnce` has one of its own,
 * and a `flush` that waits for a place makes twenty of them a second.
 */
import type { Logger, Runtime } from '../spi/index.ts'

/** Between two outages of a line that comes and goes. */
const NEXT_EVERY_MS = 1_000
/** While a place stays away the breaker opens again after every probe: the beginning is told, and then a line now and then. */
const STILL_AWAY_EVERY_MS = 60_000

class OutageLog {
  readonly #destination: string
  readonly #logger: Logger
  #toldAt = Number.NEGATIVE_INFINITY
  /** The last line says that it cannot be reached. */
  #saidAway = false

  constructor(destination: string, logger: Logger) {
    this.#destination = destination
    this.#logger = logger
  }

  /** The breaker opened. */
  away(error: string, runtime: Runtime): void {
    const now = runtime.monotonicNow()
    if (now - this.#toldAt < (this.#saidAway ? STILL_AWAY_EVERY_MS : NEXT_EVERY_MS)) return
    this.#toldAt = now
    this.#saidAway = true
    const message = 'the destination cannot be reached; its deliveries wait, and spend no attempt'
    this.#logger.log('warn', message, { destination: this.#destination, error })
  }

  /** It answered. */
  back(): void {
    if (!this.#saidAway) return
    this.#saidAway = false
    this.#logger.log('info', 'the destination can be reached again', { destination: this.#destination })
  }
}

export type { OutageLog }

const logs = new WeakMap<Logger, Map<string, OutageLog>>()

/** The same one for every engine that writes to this log. */
export const outageLogOf = (logger: Logger, destination: string): OutageLog => {
  let known = logs.get(logger)
  if (known === undefined) {
    known = new Map()
    logs.set(logger, known)
  }
  let log = known.get(destination)
  if (log === undefined) {
    log = new OutageLog(destination, logger)
    known.set(destination, log)
  }
  return log
}
