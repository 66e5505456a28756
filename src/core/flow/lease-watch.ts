/**
 * How long the other workers have been silent, by our own monotonic clock.
 *
 * A worker counts on its lease from before it asks for it. Whoever has seen the same lease for as long as it was granted
 * knows that this time is over for its holder, whatever the clock of the database says meanwhile: set ahead, it would
 * end leases on which somebody still counts, and two processes would send for one lane.
 */
import type { SilentWorker, WorkerLease } from '../spi/index.ts'

interface Seen {
  readonly lease: WorkerLease
  /** When this lease was first seen, at the end of the survey that told of it. */
  readonly since: number
  readonly endsAt: number
}

export class LeaseWatch {
  #seen: ReadonlyMap<string, Seen> = new Map()

  /** Whoever does not say for how long it leases is taken to do as we do. */
  see(others: readonly WorkerLease[], now: number, ownLeaseMs: number): void {
    this.#seen = new Map(
      others.map((lease) => {
        const before = this.#seen.get(lease.workerId)
        const since = before?.lease.stamp === lease.stamp ? before.since : now
        return [lease.workerId, { lease, since, endsAt: since + (lease.leaseMs ?? ownLeaseMs) }]
      }),
    )
  }

  /** Workers on whose lease nobody can count any more, unless they have renewed it since. */
  silent(now: number): readonly SilentWorker[] {
    return [...this.#seen.values()]
      .filter(({ endsAt }) => endsAt <= now)
      .map(({ lease: { workerId, stamp } }) => ({ workerId, stamp }))
  }

  /** Until the next of them may be silent for long enough; null when there is none to wait for. */
  nextInMs(now: number): number | null {
    return soonest([...this.#seen.values()].map(({ endsAt }) => endsAt - now))
  }

  /** The same for those only whose lease is over for the database: they do not seem to come back. */
  nextExpiredInMs(now: number): number | null {
    const expired = [...this.#seen.values()].filter(({ lease }) => lease.expired)
    return soonest(expired.map(({ endsAt }) => Math.max(1, endsAt - now)))
  }
}

const soonest = (waits: readonly number[]): number | null => {
  const ahead = waits.filter((waitMs) => waitMs > 0)
  return ahead.length === 0 ? null : Math.min(...ahead)
}
