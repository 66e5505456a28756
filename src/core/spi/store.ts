/**
 * The contract between the core and a database. `Store` itself is what the hot loop needs; schema, registry,
 * inspection, operations and maintenance are separate roles (`registry.ts`, `store-roles.ts`).
 *
 * Rules for every implementation:
 * - Each method is one atomic step: all of it happens, or none.
 * - Time is the database's: leases and due times are computed in the statement, and only durations come back.
 * - A rejected promise means that the outcome is unknown; every method can be called again with the same
 *   arguments and then leaves the same rows as if it had been called once.
 * - Rights are checked in the statement that uses them. A right that was lost changes nothing.
 * - Database errors are translated to StoreError; `transient` says whether trying again makes sense.
 */
import type { Delivery, Outcome, Right } from '../model/delivery.ts'
import type { EventRecord } from '../model/event.ts'
import type { InsertRequest, InsertResult, NewDelivery } from './insert.ts'
import type { Mark, OuterMark } from './marks.ts'
import type { Registry } from './registry.ts'
import type { Logger, Runtime } from './runtime.ts'
import type { Inspection, Maintenance, Operations, Schema } from './store-roles.ts'
import type { Transactions } from './transactions.ts'

export interface Store<Tx = unknown, E = unknown> {
  readonly name: string
  readonly capabilities: StoreCapabilities
  /** The store's own driver; used unless the outbox is given a client of another library. */
  readonly transactions: Transactions<Tx, E>

  /** Opens connections; no-op when open. Called before anything else, never from a constructor. */
  open(context: StoreContext): Promise<void>
  close(): Promise<void>

  /** Stage 1: writes events and deliveries in the caller's transaction, one call. */
  insert(executor: E, request: InsertRequest): Promise<InsertResult>
  /** The same for synchronous drivers, where an await would leave the transaction. */
  insertSync?(executor: E, request: InsertRequest): InsertResult
  /**
   * For an insert that cannot follow at once: remembers the place in the transaction by something that a rollback,
   * to a savepoint or altogether, takes back. Absent where a transaction cannot be rolled back behind our back.
   */
  mark?(executor: E): Promise<Mark>
  /**
   * Before a savepoint, where one that is sent without a transaction begins it, and commits what was done inside: a mark in
   * the transaction around it. Rejects with a TransactionError when there is none. Null where the executor's driver finds
   * out by itself; absent where the database does.
   */
  markOuter?(executor: E): Promise<OuterMark<E> | null>

  readonly lanes: LaneStore
  readonly queue: QueueStore
  readonly registry: Registry
  readonly schema: Schema
  readonly inspection: Inspection
  readonly operations: Operations
  readonly maintenance: Maintenance
  /** Where the database can carry a message from one process to others. */
  readonly wakeup?: Wakeup
}

export interface StoreContext {
  readonly runtime: Runtime
  readonly logger: Logger
  /** Somebody only looks: a database that opening would make is refused instead. */
  readonly mustExist?: boolean
}

export interface StoreCapabilities {
  /** A lower `seq` never becomes visible after a higher one (a single writer at a time). */
  readonly commitOrder: boolean
  /** Lives inside this process or a file of its own: tables may be created without asking. */
  readonly embedded: boolean
  /** Has `insertSync`. */
  readonly synchronous: boolean
  /** Settle flushes that may be under way at once. */
  readonly parallelSettles: number
}

// ----------------------------------------------------------------------------------------------- lanes

/**
 * Workers lease lanes. One row per worker (its lease and its fence) and one per destination and lane.
 * Taking, giving up and everything in `QueueStore` that carries a worker id requires in the same statement
 * that this worker's row exists and is not fenced.
 */
export interface LaneStore {
  /**
   * A new worker row. The id is new at every boot, so that a restart never inherits rights. Repeated, because an answer was
   * lost, it extends the lease like a renewal, unless the worker was fenced.
   */
  register(worker: WorkerRegistration): Promise<void>
  /**
   * Extends the lease, and remembers for others which breakers of the worker are open; those that are not named are closed.
   * False: the worker was fenced (or is unknown) and must start anew under another id.
   */
  renew(workerId: string, leaseMs: number, openBreakers?: readonly OpenBreaker[]): Promise<boolean>
  /**
   * Fences those of the `silent` workers whose lease ran out and is still the one that was seen, then reports for each
   * served destination who could serve it and what is free. Fencing waits for settles in progress, so afterwards the
   * fenced worker changes nothing. Nobody else is fenced: that a lease ran out for the database says only that its
   * clock is past it.
   */
  survey(
    workerId: string,
    destinations: readonly string[],
    silent?: readonly SilentWorker[],
  ): Promise<LaneSurvey>
  /** Takes up to `atMost` free lanes (no owner, or a fenced one). Empty when the worker is fenced. */
  take(workerId: string, destination: string, atMost: number): Promise<readonly TakenLane[]>
  /**
   * Lanes that are not the worker's at this very epoch are ignored: a call that arrives late must not free a
   * lane that was taken again.
   */
  giveUp(workerId: string, destination: string, lanes: readonly OwnedLane[]): Promise<void>
  /** Clean end: frees the lanes, removes the worker row. */
  retire(workerId: string): Promise<void>
}

export interface WorkerRegistration {
  readonly workerId: string
  readonly name: string
  readonly leaseMs: number
  readonly destinations: readonly string[]
}

export interface OpenBreaker {
  readonly destination: string
  /** Since it was last closed. */
  readonly openForMs: number
}

export interface LaneSurvey {
  readonly alive: boolean
  readonly destinations: ReadonlyMap<string, DestinationSurvey>
  /** The other workers that are not fenced, whatever they serve. */
  readonly others: readonly WorkerLease[]
}

/** A worker whose lease was seen unchanged for as long as it was granted. */
export interface SilentWorker {
  readonly workerId: string
  readonly stamp: string
}

export interface WorkerLease extends SilentWorker {
  /** What the last renewal left; the next one leaves another. */
  readonly stamp: string
  /** For how long it is granted; null when it was granted to a version that does not say. */
  readonly leaseMs: number | null
  /** By the database's clock; not above 0 when it has run out. */
  readonly expiresInMs: number
}

export interface DestinationSurvey {
  /** Workers that serve this destination and whose lease has not run out, and the asking one. */
  readonly workers: number
  readonly mine: readonly OwnedLane[]
  readonly free: number
}

export interface OwnedLane {
  readonly lane: number
  /** Grows by one whenever the lane is taken. */
  readonly epoch: number
}

export interface TakenLane extends OwnedLane {
  /** False: the previous owner was fenced, so its first due rows are suspects. */
  readonly clean: boolean
}

// --------------------------------------------------------------------------------------------- wake-up

/** Nothing depends on it: what is not heard is found by polling. */
export interface Wakeup {
  /**
   * Calls `wake` when another process says that there may be something to read; no names mean all destinations.
   * Keeps its own connection, connects again by itself when it is lost, and then calls `wake` for all. Resolves
   * with what ends it.
   */
  listen(wake: (destinations: readonly string[]) => void): Promise<() => Promise<void>>
  /** One statement, never in a transaction of the application. No names mean all destinations. */
  notify(destinations: readonly string[]): Promise<void>
}

// ----------------------------------------------------------------------------------------------- queue

export interface QueueStore {
  /** Due deliveries of one destination in our lanes; one snapshot for all parts of the answer. */
  read(request: ReadRequest): Promise<ReadResult>
  /** The same rows by id, for what a sweep found; rows that are no longer pending and due are left out. */
  readByIds(destination: string, ids: readonly string[]): Promise<readonly StoredDelivery[]>
  /**
   * A delayed row takes its place when it is due: scheduled rows of these lanes whose time has come become
   * pending, each with a new `seq`, in order of their time. So they come after everything of their key that was
   * committed before. Returns how many; 0 when the worker is fenced.
   */
  activate(request: ActivateRequest): Promise<number>
  /**
   * For keyed events right after commit: which of these are pending and due, with their position and the
   * unfinished rows of the same key (here, unrouted, or dead ones that hold it) that lie before them; scheduled
   * ones have no place yet. The lane's owner alone sends them, so nothing is written. Empty when the worker is
   * fenced.
   */
  claim(workerId: string, ids: readonly string[], aheadLimit: number): Promise<readonly ClaimedHead[]>
  /**
   * Counts one more suspicion for each and writes `token`, which ends the right of a former hot owner.
   * From `spendFrom` suspicions on it also spends an attempt. Rows that were settled or extended since they
   * were read are left out; a row that carries `token` already is counted no further. Empty when the worker
   * is fenced.
   */
  suspect(request: SuspectRequest): Promise<readonly SuspectedDelivery[]>
  /** Extends hot claims that nobody replaced, even if their lease ran out. Returns the ids that were lost. */
  extend(claims: readonly HotClaim[], leaseMs: number): Promise<readonly string[]>
  /**
   * Marks pending rows, and retries that are due, as held, if a row of their key that is not pending holds it
   * before them at this moment, by the rule of `StoredDelivery.behind` (an unrouted row is no reason: it would not
   * promote them). Their token goes, because nobody has them in hand. Returns the ids that are now held, also those
   * that were before; the others may be sent or must be read again.
   */
  hold(workerId: string, destination: string, ids: readonly string[]): Promise<readonly string[]>
  /**
   * Stage 6. Rows whose right was lost are unchanged and reported. A row settled as done moves to `finished`
   * and remembers the right, so a repeated settle is not reported as lost. Retry and released clear the
   * token: from then on the row belongs to its lane's owner.
   */
  settle(request: SettleRequest): Promise<SettleResult>
  /** Unrouted deliveries, pending or scheduled, whose event exists; lowest `seq` first. Scheduled ones hold no key. */
  readUnrouted(limit: number): Promise<readonly UnroutedDelivery[]>
  /**
   * Replaces unrouted deliveries by routed ones with the same position, state and due time. Those that were
   * replaced before are passed over. False when the registry is no longer at
   * `registryVersion` or the worker is fenced: nothing happened, look at the routes again.
   */
  expand(request: ExpandRequest): Promise<boolean>
}

export interface ActivateRequest {
  readonly workerId: string
  readonly destination: string
  /** Null means all lanes. */
  readonly lanes: readonly number[] | null
  readonly limit: number
}

export interface ReadRequest {
  readonly destination: string
  /** Null means all lanes, which spares the database the filter. */
  readonly lanes: readonly number[] | null
  /** Fresh rows are those with a higher `seq`. */
  readonly after: bigint
  readonly limit: number
  /** Of these at most so many retries, so that a crowd of them leaves room for fresh rows. */
  readonly dueLimit: number
  /** Stop before this many payload bytes, but always return at least one row. */
  readonly maxBytes: number
  /** End before the first fresh row that was stored less than this long ago; 0 takes all. */
  readonly skipRecentMs: number
  /** Leave out fresh rows available for longer than this; 0 takes all. The core still asks without it now and then. */
  readonly windowMs: number
  /** Also list what is pending and due at or behind `after`, at most `sweepLimit` ids. */
  readonly sweep: boolean
  /** The sweep may leave out what lies at or behind this; 0 leaves out nothing. */
  readonly sweepFrom: bigint
  readonly sweepLimit: number
}

export interface ReadResult {
  /** Pending, due, `seq` > after; in `seq` order. */
  readonly fresh: readonly StoredDelivery[]
  /** Retries whose time has come; by due time. Shares `limit` and `maxBytes` with fresh, and goes first. */
  readonly due: readonly StoredDelivery[]
  /** Pending and due, `sweepFrom` < `seq` <= `after`, lowest first; null when no sweep was asked for. */
  readonly swept: readonly SweptDelivery[] | null
  /** There were more than `sweepLimit`. */
  readonly sweptMore: boolean
  /** More rows were due than were returned. */
  readonly more: boolean
  /** Until the next retry, scheduled or hot-claimed row of these lanes is due; null when there is none. */
  readonly nextDueInMs: number | null
  /** There are unrouted deliveries that wait for expansion. */
  readonly unrouted: boolean
  /** There are scheduled rows of these lanes whose time has come: `activate` gives them their place. */
  readonly activatable: boolean
  /**
   * Numbers of transactions as this read saw them: all below `oldest` had ended, none from `next` on had.
   * Null when the database does not tell.
   */
  readonly snapshot: { readonly oldest: bigint; readonly next: bigint } | null
}

export interface StoredDelivery {
  readonly id: string
  readonly seq: bigint
  readonly destination: string
  readonly run: number
  readonly lane: number
  readonly key: string | null
  readonly attempts: number
  readonly suspicions: number
  readonly status: 'pending' | 'retry'
  readonly token: string | null
  readonly holdsKey: boolean
  /** A holder of its key that is not pending (a retry, a dead head, a held row), or an unrouted row of its key, comes first. */
  readonly behind: boolean
  readonly size: number
  /**
   * For how long it could have been sent already, by the database's clock: since its commit, or since it was due. Only
   * for measuring; a store need not tell.
   */
  readonly dueForMs?: number
  /**
   * Null when the event is missing or cannot be decoded; `problem` then says why. Such a delivery is dead: an event that is
   * being moved, as into a partition that is made, is not missing.
   */
  readonly event: EventRecord | null
  readonly problem: string | null
}

export interface SweptDelivery {
  readonly id: string
  readonly seq: bigint
}

export interface ClaimedHead {
  readonly id: string
  readonly seq: bigint
  /** Ids of at most `aheadLimit` deliveries of its key that come first; empty when it is the head. */
  readonly ahead: readonly string[]
}

export interface SuspectRequest {
  readonly workerId: string
  readonly ids: readonly string[]
  readonly token: string
  readonly spendFrom: number
}

export interface SuspectedDelivery {
  readonly id: string
  readonly suspicions: number
  readonly attempts: number
}

export interface HotClaim {
  readonly id: string
  readonly token: string
}

export interface Settlement {
  readonly delivery: Delivery
  readonly outcome: Outcome
  /** Value of the attempts column afterwards; absolute, so that a repeated settle counts once. */
  readonly attempts: number
  /** Dead rows under the order policies `block` and `park` keep their key waiting. */
  readonly deadHoldsKey: boolean
  /** Such a key is parked on purpose: it does not count as lag. */
  readonly deadParked: boolean
}

export interface SettleRequest {
  readonly settlements: readonly Settlement[]
  /** Failed attempts kept per delivery; older ones are dropped. */
  readonly historyLimit: number
  /**
   * Held rows of a key that become pending together when their holder is out of the way: when, after all of
   * this request, no holder of the key is left that is not held itself. They go on holding the key.
   */
  readonly promoteLimit: number
  readonly workerName: string
}

export interface SettleResult {
  /** Ids of deliveries whose right was lost. */
  readonly lost: readonly string[]
  /** Destinations in which held rows became pending. */
  readonly promoted: readonly string[]
}

export interface UnroutedDelivery {
  readonly id: string
  readonly eventId: string
  readonly seq: bigint
  readonly type: string
  readonly key: string | null
  readonly size: number
}

export interface ExpandRequest {
  readonly workerId: string
  readonly registryVersion: number
  readonly expansions: readonly {
    readonly unroutedId: string
    readonly deliveries: readonly Omit<NewDelivery, 'due' | 'token'>[]
  }[]
}

/** For messages and logs. */
export const rightName = (right: Right): string =>
  right.kind === 'token' ? `token ${right.token}` : `worker ${right.workerId}`
