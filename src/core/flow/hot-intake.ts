/**
 * The border between publishing (stages 1 and 2) and delivering (stage 3 on). Publishing knows nothing of
 * queues, lanes or breakers: it asks four questions before the insert and hands over what was committed.
 */
import type { EventRecord } from '../model/event.ts'

export interface HotIntake {
  /** Destinations for a type, or null while this process does not know the routes (not started): insert unrouted. */
  routes(type: string): { readonly destinations: readonly string[]; readonly version: number } | null
  /** Whether a keyless delivery for it may be born claimed now: started, served, breaker, pause and queue allow. */
  admits(destination: string): boolean
  /** Of the worker that this process is now; asked only when `admits` said yes. */
  readonly workerId: string
  /** Stage 2 → 3, after commit; never throws. */
  offer(deliveries: readonly HotDelivery[]): void
  /** Rows that nobody has in hand: they are there, or they may be soon, after a commit that cannot be observed. */
  expectRows(commit: 'confirmed' | 'unseen'): void
}

/** A delivery that was committed a moment ago, with its payload still in memory. */
export interface HotDelivery {
  readonly id: string
  readonly event: EventRecord
  readonly destination: string
  readonly lane: number
  /** Null: claim by id first (keyed, idempotency key, or an insert that a savepoint of others may have undone). */
  readonly token: string | null
  /** Monotonic time at which the born claim ends; it was taken before the insert was sent. */
  readonly claimedUntil: number
  /** Monotonic time at which the commit was confirmed. */
  readonly committedAt: number
}
