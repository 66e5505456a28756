/** Roles of a store beside the hot loop: the schema, and what operators and maintainers do. The rules of `store.ts` hold here too. */
import type { DeliveryStatus } from '../model/delivery.ts'
import type { EventRecord, Headers } from '../model/event.ts'
import type { NewEvent } from './insert.ts'
import type { ReconciledDelivery } from './registry.ts'

// ---------------------------------------------------------------------------------------------- schema

export interface Schema {
  status(): Promise<SchemaStatus>
  /** Applies what is missing under a lock; any number of processes may call it at once. */
  migrate(): Promise<SchemaStatus>
  /** The statements that `migrate` would run from an empty database, for people who run them by hand. */
  sql(): string
}

export interface SchemaStatus {
  /** 0 when nothing was ever created. */
  readonly current: number
  readonly latest: number
  readonly applied: readonly {
    readonly version: number
    readonly name: string
    readonly appliedAtMs: number
  }[]
}

// ------------------------------------------------------------------------------------------ inspection

export interface Inspection {
  list(query: DeliveryQuery): Promise<DeliveryPage>
  /** The event, all its deliveries (every run) and their failed attempts. Null when unknown. */
  event(eventId: string): Promise<EventDetail | null>
  /** The event that a delivery, finished or not, is about. */
  eventOfDelivery(deliveryId: string): Promise<EventRecord | null>
  counts(): Promise<readonly DestinationCounts[]>
  /** Keys whose head keeps others waiting: retrying, blocked or parked. */
  blockedKeys(query: {
    readonly destination?: string
    readonly limit: number
  }): Promise<readonly BlockedKey[]>
  audit(query: { readonly limit: number }): Promise<readonly AuditEntry[]>
  workers(): Promise<readonly WorkerView[]>
  /** Every lane of the registered destinations, or of one of them, and who has it. */
  lanes(query: { readonly destination?: string }): Promise<readonly LaneView[]>
  /** The last `minutes` minutes that a maintainer recorded, this one included; by minute, then by destination. */
  statistics(query: {
    readonly destination?: string
    readonly minutes: number
  }): Promise<readonly MinuteStatistics[]>
}

/** One minute of one destination. What ended is what ended in it; the rest is how much there was when it was recorded. */
export interface MinuteStatistics {
  /** When the minute began. */
  readonly minuteMs: number
  readonly destination: string
  readonly done: number
  readonly discarded: number
  readonly pending: number
  readonly retry: number
  readonly dead: number
}

export interface DeliveryQuery {
  readonly status?: readonly DeliveryStatus[]
  readonly destination?: string
  readonly type?: string
  readonly key?: string
  readonly tenantId?: string
  /** Stored at least this long ago. */
  readonly olderThanMs?: number
  readonly newerThanMs?: number
  /** Newest first by default. */
  readonly order?: 'newest' | 'oldest'
  readonly limit: number
  /** `next` of the page before. */
  readonly after?: string
}

export interface DeliveryPage {
  readonly deliveries: readonly DeliveryView[]
  readonly next: string | null
}

/** A delivery as an operator sees it; never with the payload. */
export interface DeliveryView {
  readonly id: string
  readonly eventId: string
  readonly seq: bigint
  readonly type: string
  readonly destination: string
  readonly run: number
  readonly lane: number
  readonly key: string | null
  readonly tenantId: string | null
  readonly aggregateType: string | null
  readonly aggregateId: string | null
  readonly status: DeliveryStatus
  readonly attempts: number
  readonly suspicions: number
  readonly createdAtMs: number
  /** When it may next be sent; null when it is finished or dead. */
  readonly availableAtMs: number | null
  readonly finishedAtMs: number | null
  /** Null unless it is dead. */
  readonly diedAtMs: number | null
  readonly lastError: string | null
  /**
   * The right by which its last outcome was written: the id of a worker, for what came from its lane, or a hot token. What is
   * no UUID is the store's own word for operators and maintainers; null when nothing was written yet.
   */
  readonly settledBy: string | null
}

export interface AttemptView {
  readonly deliveryId: string
  readonly attempt: number
  readonly atMs: number
  readonly worker: string
  readonly durationMs: number
  readonly code: string | null
  readonly message: string
  readonly stack: string | null
}

export interface EventDetail {
  readonly event: EventRecord
  readonly deliveries: readonly DeliveryView[]
  readonly attempts: readonly AttemptView[]
}

export interface DestinationCounts {
  readonly destination: string
  readonly counts: Readonly<Record<DeliveryStatus, number>>
  /**
   * Age of the oldest delivery that is due and not under a hot claim, or dead and blocking its key. Parked keys
   * and the future do not count. Null when none.
   */
  readonly oldestLagMs: number | null
}

export interface BlockedKey {
  readonly destination: string
  readonly key: string
  readonly headDeliveryId: string
  readonly headStatus: DeliveryStatus
  readonly headAttempts: number
  readonly waiting: number
}

export interface AuditEntry {
  readonly atMs: number
  readonly actor: string
  readonly action: string
  readonly reason: string | null
  /** What was acted on: filter or ids, as JSON. */
  readonly target: string
  readonly count: number
}

export interface WorkerView {
  readonly workerId: string
  readonly name: string
  readonly startedAtMs: number
  readonly expiresInMs: number
  readonly fenced: boolean
  readonly destinations: readonly string[]
  readonly lanes: number
  /** As of its last renewal. */
  readonly openBreakers: readonly OpenBreakerView[]
}

/** The destination cannot be reached by this worker, so what it has for it waits with its attempts unspent. */
export interface OpenBreakerView {
  readonly destination: string
  /** By the database's clock. */
  readonly sinceMs: number
}

export interface LaneView {
  readonly destination: string
  readonly lane: number
  /** Null: nobody has it, and nobody delivers what is in it. */
  readonly workerId: string | null
  /** When the lease of that worker ends; 0 when it has: whoever has watched it for as long as it was granted may take the lane. */
  readonly expiresInMs: number | null
}

// ------------------------------------------------------------------------------------------ operations

/** Who did it and why; every operation leaves an audit row with it. */
export interface OperatorAct {
  readonly actor: string
  readonly reason: string | null
}

/** Which deliveries an operation is about. At least one field must be set; they are combined with "and". */
export interface OperationTarget {
  readonly deliveryIds?: readonly string[]
  readonly eventIds?: readonly string[]
  readonly destination?: string
  readonly type?: string
  readonly key?: string
  readonly tenantId?: string
  /** Of events that were stored at this time or later, by the database's clock. */
  readonly storedFromMs?: number
  /** Of events that were stored before this time. */
  readonly storedBeforeMs?: number
  readonly limit: number
}

export type OperationKind = 'redrive' | 'replay' | 'discard'

export interface Operations {
  /** Which deliveries the operation would act on, at most `limit` of them and in its order. Changes nothing. */
  preview(kind: OperationKind, target: OperationTarget): Promise<readonly string[]>
  /**
   * Dead deliveries again: the dead run becomes discarded, a new run with no attempts takes its place in the
   * order. Lowest `seq` first, so that a key is redriven in order. Returns the number of new runs.
   */
  redrive(target: OperationTarget, act: OperatorAct): Promise<number>
  /**
   * Done deliveries again, as a new run with the next number; the done run stays. It must be the last run, or be
   * followed by discarded ones only: while a run is unfinished or dead, nothing is replayed.
   */
  replay(target: OperationTarget, act: OperatorAct): Promise<number>
  /** Gives up dead or unfinished deliveries that are not under a live hot claim; held rows behind them go on. */
  discard(target: OperationTarget, act: OperatorAct): Promise<number>
  /**
   * A corrected copy of a dead delivery's event: a new event that replaces it for this destination alone, in
   * the original's place. Requires status dead; otherwise StoreError POSTHASTE_CONFLICT, except when
   * `newDeliveryId` exists: then this very edit has happened.
   */
  edit(deliveryId: string, replacement: NewEvent, newDeliveryId: string, act: OperatorAct): Promise<void>
  /**
   * Adds first runs of stored events for a destination that has never had them, as `reconcile` does. Two at once add each
   * of them once. `scope` says in the audit row what was asked for. Returns how many were added.
   */
  backfill(
    destination: string,
    deliveries: readonly ReconciledDelivery[],
    scope: object,
    act: OperatorAct,
  ): Promise<number>
}

/** What an edit may change. */
export interface EventEdit {
  /** A value that is serialised like any payload, or bytes of the original content type. */
  readonly payload?: unknown
  readonly headers?: Headers
}

// ----------------------------------------------------------------------------------------- maintenance

export interface Maintenance {
  /**
   * One bounded step of cleaning: finished rows by when they finished, dead ones past their own retention
   * (never those that hold a key), events without any delivery left, old dedup keys, workers and statistics.
   * Rows that not every destination is reconciled past stay: without them their event would look as if it was missed.
   */
  cleanup(request: CleanupRequest): Promise<CleanupResult>
  /** Rolls the current minute up into `stats`, keeping `keepMinutes`. */
  recordStatistics(keepMinutes: number): Promise<void>
  /**
   * True for one live worker at a time; a duty is a lane of its own, so it ends with the worker's lease at
   * the latest. Calling again while holding it answers true.
   */
  takeDuty(name: string, workerId: string): Promise<boolean>
  finishDuty(name: string, workerId: string): Promise<void>
  /**
   * Makes partitions ahead and drops those that are past retention. One with unfinished or dead work is never
   * dropped, nor one into which a transaction is still writing. Absent where the tables have no partitions.
   */
  partitions?(request: PartitionRequest): Promise<PartitionReport>
}

export interface PartitionRequest {
  readonly lookAheadMs: number
  readonly doneOlderThanMs: number
  /** Null keeps dead ones for ever. */
  readonly deadOlderThanMs: number | null
  /** Longest wait for a lock, because publishers would wait behind it. */
  readonly lockTimeoutMs: number
}

export interface PartitionReport {
  readonly created: readonly string[]
  readonly dropped: readonly string[]
  /** Past retention and kept all the same. */
  readonly kept: readonly { readonly name: string; readonly reason: string }[]
}

export interface CleanupRequest {
  readonly doneOlderThanMs: number
  /** Null keeps dead ones for ever. */
  readonly deadOlderThanMs: number | null
  readonly dedupOlderThanMs: number
  /** Most rows removed of each kind. */
  readonly limit: number
}

export interface CleanupResult {
  readonly done: number
  readonly discarded: number
  readonly dead: number
  readonly events: number
  readonly dedup: number
  /** The limit was reached; another step has work to do. */
  readonly more: boolean
}
