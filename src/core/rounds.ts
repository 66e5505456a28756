/**
 * Delivering when asked: `processOnce` is one round, `flush` as many as it takes. A started process uses its
 * engine; otherwise each round has one of its own, which gives its lanes back at the end. `stop` ends a round that is under way.
 */
import type { Engine } from './flow/engine.ts'
import { LeaseWatch } from './flow/lease-watch.ts'
import type { Flushed, ProcessedOnce } from './outbox-api.ts'
import { sleep } from './runtime/signal.ts'
import { type Runtime, type Store, within } from './spi/index.ts'

export interface RoundsParts {
  readonly store: Store
  readonly runtime: Runtime
  readonly drainMs: () => number
  readonly ready: () => Promise<void>
  /** Null while the process is not started. */
  readonly running: () => Engine | null
  readonly create: (watch: LeaseWatch) => Engine
}

interface Round {
  readonly processed: ProcessedOnce
  /** Destinations that it serves and did not see all of: others have lanes of them, or they are paused. */
  readonly partlySeen: ReadonlySet<string>
  /** All that was due in its lanes when it began has ended. */
  readonly isComplete: boolean
  /** When the oldest of what ended came due, by the monotonic clock. */
  readonly oldest: number
}

/** What a round says that was stopped before it had an engine. */
const NOTHING: Round = {
  processed: { claimed: 0, done: 0, retried: 0, dead: 0, idle: false },
  partlySeen: new Set(),
  isComplete: false,
  oldest: Number.POSITIVE_INFINITY,
}

/** Between two rounds of a flush in which nothing could be sent. */
const FLUSH_PAUSE_MS = 50
/**
 * After so many complete rounds that met only what came due after the call, a flush is over: new events may come for ever.
 * Not after the first one, because an event may be what a listener published about the one before.
 */
const FLUSH_STEPS = 10

export class Rounds {
  readonly #parts: RoundsParts
  readonly #engines = new Set<Engine>()
  /** Outlives the engines of the rounds, none of which lasts long enough to see a lease through. */
  readonly #watch = new LeaseWatch()
  #last: Promise<unknown> = Promise.resolve()
  /** Ends the round that is under way. */
  #end: () => void = () => undefined

  constructor(parts: RoundsParts) {
    this.#parts = parts
  }

  /** Those of rounds that run now in a process that was not started. */
  get engines(): readonly Engine[] {
    return [...this.#engines]
  }

  /** Every engine has stopped: the round that is under way ends, whatever a listener still does. */
  stopped(): void {
    this.#end()
  }

  async processOnce(): Promise<ProcessedOnce> {
    return (await this.#round()).processed
  }

  async flush(timeoutMs: number): Promise<Flushed> {
    const { runtime } = this.#parts
    let inTime = true
    let failed = 0
    let steps = 0
    const calledAt = runtime.monotonicNow()
    const drain = async (): Promise<void> => {
      while (inTime) {
        const { processed, partlySeen, isComplete, oldest } = await this.#round()
        failed += processed.retried + processed.dead
        if (oldest < calledAt) steps = 0
        else if (isComplete) steps += 1
        const isOver = processed.idle || (isComplete && steps >= FLUSH_STEPS)
        if (isOver && !(await this.#isDueAtAny(partlySeen))) return
        // A rate limit, a place that cannot be reached, lanes of others: asking faster would not help.
        if (processed.claimed === 0) await sleep(runtime, FLUSH_PAUSE_MS)
      }
    }
    inTime = await within(runtime, timeoutMs, drain())
    return { drained: inTime, failed }
  }

  /** One after another: two rounds at once would fight for the same lanes. */
  #round(): Promise<Round> {
    const turn = this.#last.then(() => this.#roundNow())
    this.#last = turn.catch(() => undefined)
    // A promise of its own, or a failure that nobody awaits would go unheard.
    return turn.then((round) => round)
  }

  async #roundNow(): Promise<Round> {
    const { ready, running, create, drainMs } = this.#parts
    let isStopped = false
    const stopped = new Promise<void>((resolve) => {
      this.#end = () => {
        isStopped = true
        resolve()
      }
    })
    await ready()
    if (isStopped) return NOTHING
    const started = running()
    const engine = started ?? create(this.#watch)
    const before = { ...engine.tally }
    let waiting = false
    let isComplete = false
    const partlySeen = new Set<string>()
    const look = (): void => {
      for (const name of engine.partlySeen()) partlySeen.add(name)
    }
    if (started === null) this.#engines.add(engine)
    try {
      if (started === null) await engine.startOnce()
      // Before and after, because lanes can come or go while the database answers.
      look()
      isComplete = await Promise.race([engine.runOnce(), stopped.then(() => false)])
      look()
      waiting = engine.hasWaiting()
    } finally {
      if (started === null) await engine.stop(drainMs())
      this.#engines.delete(engine)
    }
    const { tally } = engine
    const claimed = tally.claimed - before.claimed
    const processed = {
      claimed,
      done: tally.done - before.done,
      retried: tally.retried - before.retried,
      dead: tally.dead - before.dead,
      idle: claimed === 0 && !waiting && !isStopped,
    }
    return { processed, partlySeen, isComplete, oldest: engine.takeOldestEnded() }
  }

  async #isDueAtAny(destinations: ReadonlySet<string>): Promise<boolean> {
    for (const destination of destinations) if (await isDueAt(this.#parts.store, destination)) return true
    return false
  }
}

/** In any lane. What is not routed yet may be for this destination too. */
export const isDueAt = async (store: Store, destination: string): Promise<boolean> => {
  const { fresh, due, unrouted, activatable } = await store.queue.read({
    destination,
    lanes: null,
    after: 0n,
    limit: 1,
    dueLimit: 1,
    maxBytes: 1,
    skipRecentMs: 0,
    windowMs: 0,
    sweep: false,
    sweepFrom: 0n,
    sweepLimit: 0,
  })
  return fresh.length > 0 || due.length > 0 || unrouted || activatable
}
