/** What publishing hands to a store: events and deliveries, complete and checked. */
import type { EventRecord } from '../model/event.ts'

export interface NewEvent extends EventRecord {
  /** Registry version it was routed with; 0 when its publisher did not know the routes. */
  readonly routesVersion: number
  readonly idempotencyKey: string | null
}

/** When a delivery is due: a delay from now by the database's clock, or a time. */
export type Due = { readonly afterMs: number } | { readonly atMs: number }

export interface NewDelivery {
  readonly id: string
  readonly eventId: string
  readonly destination: string
  readonly lane: number
  readonly key: string | null
  readonly size: number
  /** Stored `scheduled` when it lies in the future, else `pending`. */
  readonly due: Due
  /** Set on the hot path of keyless events: claimed for `hotLeaseMs` from the statement's time on. */
  readonly token: string | null
}

export interface InsertRequest {
  readonly events: readonly NewEvent[]
  readonly deliveries: readonly NewDelivery[]
  readonly hotLeaseMs: number
  /** Writers of the same key take turns: whoever inserts first commits first. */
  readonly lockKeys: boolean
  /** Nobody asks before the end of the transaction whether it was stored: it may wait, and fail, until then. */
  readonly mayWait?: true
  /** What `Store.mark` left when the event was published: nothing is written unless it still stands. */
  readonly mark?: string
}

/**
 * Of an insert that was written. One that fails leaves nothing in the transaction, because the application may catch the error
 * and commit; where that cannot be had, `detail` of the error has `isHalfStored`, and the transaction must be rolled back, or the
 * nested `outbox.transaction` in which it happened.
 */
export interface InsertResult {
  /**
   * Own event id → id of the first event with the same type and idempotency key. Such an event was not
   * written, nor were its deliveries. Empty when the client's library returns no rows.
   */
  readonly duplicates: ReadonlyMap<string, string>
}
