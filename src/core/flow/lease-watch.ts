/**
 * How long the other workers have been silent, by our own monotonic clock.
 *
 * A worker counts on its lease from before it asks for it. Whoever has seen the same lease for as long as it was granted
 * knows that this time is over for its holder, whatever the clock of the database says meanwhile: set ahead, it would
 * end leases on which somebody still counts, and two processes would send for one lane.
 *
 * Only of a lease that is over for many times its length when we first see it the clock of the database is believed: where
 * no process lives for as long as a lease, nobody would ever take over.
 */
import type { SilentWorker, WorkerLease } from '../spi/index.ts'

/** So many leases after its end one is over, for who has not seen it before. */
const LONG_OVER = 10

interface Seen {
  readonly stamp: string
  /** When nobody counts on it any more, from the end of the survey that first told of it. */
  readonly endsAt: number
}

export class LeaseWatch {
  #seen: ReadonlyMap<string, Seen> = new Map()

  /** Whoever does not say for how long it leases is taken to do as we do. */
  see(others: readonly WorkerLease[], now: number, ownLeaseMs: number): void {
    this.#seen = new Map(
      others.map(({ workerId, stamp, leaseMs, expiresInMs }) => {
        const before = this.#seen.get(workerId)
        if (before?.stamp === stamp) return [workerId, before]
        const lengthMs = leaseMs ?? ownLeaseMs
        const isLongOver = before === undefined && expiresInMs <= -LONG_OVER * lengthMs
        return [workerId, { stamp, endsAt: isLongOver ? now : now + lengthMs }]
      }),
    )
  }

  /** Workers on whose lease nobody can count any more, unless they have renewed it since. */
  silent(now: number): readonly SilentWorker[] {
    return [...this.#seen]
      .filter(([, { endsAt }]) => endsAt <= now)
      .map(([workerId, { stamp }]) => ({ workerId, stamp }))
  }

  /** Until the next of them may be silent for long enough; null when there is none to wait for. */
  nextInMs(now: number): number | null {
    const ahead = [...this.#seen.values()].map(({ endsAt }) => endsAt - now).filter((waitMs) => waitMs > 0)
    return ahead.length === 0 ? null : Math.min(...ahead)
  }
}
