/** The role of a store that knows the destinations, and how far each of them was made up for what it missed. */
import type { TunedChange, TunedSettings } from '../model/settings.ts'
import type { NewDelivery } from './insert.ts'
import type { OperatorAct } from './store-roles.ts'

export interface Registry {
  /**
   * Adds destinations or updates their patterns, and creates their lanes. The registry's version grows only
   * if a destination is new or its patterns changed. A new destination starts now: it hears events stored
   * from this moment on. One without patterns hears nothing; its row stays, because the version must never shrink.
   * With `by` an operator retires what is declared: each that changed leaves an audit row 'retire'.
   */
  declare(destinations: readonly DestinationDeclaration[], by?: OperatorAct): Promise<RegistryState>
  load(): Promise<RegistryState>
  /** Operator's settings that every process picks up. Unknown name → StoreError POSTHASTE_NOT_FOUND. */
  configure(name: string, change: DestinationSettings, by: OperatorAct): Promise<void>
  /**
   * Events routed with an older registry than the one that brought this destination, after `afterSeq` and not
   * older than the destination, that have no delivery for it; lowest first. `scannedTo` is where to go on: it
   * never passes an event that is not committed yet, and when there is no more it is the last position of which
   * that is known, whatever registry its event was routed with. Left out are events that wait for expansion, which will
   * find the destination, and edited copies, which are for one destination alone.
   */
  findUnreconciled(destination: string, limit: number): Promise<ReconcileBatch>
  /**
   * Adds the deliveries that are still missing and remembers how far the destination is reconciled. One whose event
   * is scheduled for another destination is scheduled for the same time.
   */
  reconcile(
    destination: string,
    deliveries: readonly ReconciledDelivery[],
    scannedTo: bigint,
  ): Promise<number>
  /** The first stored event at or after a position; null when there is none. */
  eventFrom(seq: bigint): Promise<StoredPosition | null>
  /**
   * Looks at the next stored events after a position, whatever routes they were published with, and says which of them the
   * destination has never had: neither unfinished nor dead nor finished. Left out are the same as by `findUnreconciled`.
   */
  findUnheard(query: UnheardQuery): Promise<UnheardBatch>
}

export interface DestinationDeclaration {
  readonly name: string
  readonly patterns: readonly string[]
  /** How a destination that is new begins, default false; of a known one the operator decides. */
  readonly paused?: boolean
}

export interface DestinationSettings extends TunedChange {
  readonly paused?: boolean
  /** Null goes back to what the processes' own options say. */
  readonly ratePerSecond?: number | null
}

export interface RegistryState {
  readonly version: number
  readonly destinations: readonly RegisteredDestination[]
}

export interface RegisteredDestination {
  readonly name: string
  readonly patterns: readonly string[]
  /** For each pattern: events at or below this `seq` are older than it, so it does not make up for them. */
  readonly patternsFrom: readonly bigint[]
  /** Registry version that brought its current patterns. */
  readonly version: number
  readonly startedAtMs: number
  readonly paused: boolean
  readonly ratePerSecond: number | null
  /** What operators set beside the rate; a store keeps names that it does not know. */
  readonly settings: TunedSettings
}

export interface MissedEvent {
  readonly id: string
  readonly seq: bigint
  readonly type: string
  readonly key: string | null
  readonly size: number
}

export interface ReconcileBatch {
  readonly events: readonly MissedEvent[]
  readonly scannedTo: bigint
  readonly more: boolean
}

export interface StoredPosition {
  readonly seq: bigint
  readonly createdAtMs: number
}

export interface UnheardQuery {
  readonly destination: string
  readonly after: bigint
  readonly upTo: bigint
  /** Most events that are looked at. */
  readonly limit: number
}

export interface UnheardBatch {
  readonly events: readonly (MissedEvent & { readonly createdAtMs: number })[]
  /** How many were looked at. */
  readonly scanned: number
  /** The last one that was looked at, or `upTo` when there is no more. */
  readonly scannedTo: bigint
  /**
   * Up to here nothing can appear any more. What lies between it and `scannedTo` may have been passed while its
   * transaction was open. Where that is not certain the answer is too low, never too high.
   */
  readonly settledTo: bigint
  readonly more: boolean
}

export type ReconciledDelivery = Omit<NewDelivery, 'due' | 'token'> & { readonly seq: bigint }
