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
}

export class LeaseWatch {
  readonly #ownLeaseMs: number
  #seen: ReadonlyMap<string, Seen> = new Map()

  constructor(ownLeaseMs: number) {
    this.#ownLeaseMs = ownLeaseMs
  }

  see(others: readonly WorkerLease[], now: number): void {
    this.#seen = new Map(
      others.map((lease) => {
        const before = this.#seen.get(lease.workerId)
        const since = before?.lease.stamp === lease.stamp ? before.since : now
        return [lease.workerId, { lease, since }]
      }),
    )
  }

  /** Workers on whose lease nobody can count any more, unless they have renewed it since. */
  silent(now: number): readonly SilentWorker[] {
    return [...this.#seen.values()]
      .filter((seen) => this.#endsAt(seen) <= now)
      .map(({ lease: { workerId, stamp } }) => ({ workerId, stamp }))
  }

  /** Until the next of them may be silent for long enough; null when there is none to wait for. */
  nextInMs(now: number): number | null {
    return soonest([...this.#seen.values()].map((seen) => this.#endsAt(seen) - now))
  }

  /** The same for those only whose lease is over for the database: they do not seem to come back. */
  nextExpiredInMs(now: number): number | null {
    const expired = [...this.#seen.values()].filter(({ lease }) => lease.expired)
    return soonest(expired.map((seen) => Math.max(1, this.#endsAt(seen) - now)))
  }

  #endsAt({ lease, since }: Seen): number {
    return since + (lease.leaseMs ?? this.#ownLeaseMs)
  }
}

const soonest = (waits: readonly number[]): number | null => {
  const ahead = waits.filter((waitMs) => waitMs > 0)
  return ahead.length === 0 ? null : Math.min(...ahead)
}
