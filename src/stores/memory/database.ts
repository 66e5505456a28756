/**
 * The shared state: tables, indexes, the sequence and the clock. Any number of stores, each the handle of one
 * process, may work on it. Every change goes through `insertRow`, `change` and `remove`, which keep the
 * indexes right; nothing else adds to them.
 */

import { ERROR_CODES, InvalidOptionError, StoreError } from '../../core/errors.ts'
import { type DeliveryStatus, refuseUnknown, UNROUTED } from '../../core/model/index.ts'
import type {
  AttemptView,
  AuditEntry,
  MinuteStatistics,
  RegisteredDestination,
} from '../../core/spi/index.ts'
import { KeyLocks } from './key-locks.ts'
import { KeyQueue } from './key-queue.ts'
import {
  byDueTime,
  byEnd,
  bySeq,
  type DeliveryRow,
  type EventRow,
  eventsByAge,
  eventsBySeq,
  isUnfinished,
  type WorkerRow,
} from './rows.ts'
import { SortedList } from './sorted-list.ts'

export interface MemoryDatabaseOptions {
  /** The database's own clock, milliseconds since 1970. Default: the clock of the runtime that first opens it. */
  readonly clock?: () => number
}

/** The unfinished and dead rows of one destination, by what looks for them. */
export class DestinationQueue {
  readonly pending = new SortedList<DeliveryRow>(bySeq)
  /** Pending rows that carry a token. */
  readonly claimed = new SortedList<DeliveryRow>(byDueTime)
  readonly retries = new SortedList<DeliveryRow>(byDueTime)
  readonly scheduled = new SortedList<DeliveryRow>(byDueTime)
  readonly dead = new SortedList<DeliveryRow>(bySeq)
  readonly keys = new Map<string, KeyQueue>()
  readonly counts: Record<DeliveryStatus, number> = {
    pending: 0,
    done: 0,
    retry: 0,
    dead: 0,
    discarded: 0,
    scheduled: 0,
    held: 0,
  }
}

/** A destination as registered, and up to which `seq` events were checked for missing deliveries. */
export interface RegistryEntry extends RegisteredDestination {
  readonly reconciledTo: bigint
}

export interface LaneRow {
  owner: string | null
  epoch: number
}

/** A transaction that is not over: rows with the numbers that it has drawn may still appear. */
export interface OpenDraw {
  readonly number: bigint
  readonly firstSeq: bigint | null
}

export class MemoryDatabase {
  readonly events = new Map<string, EventRow>()
  readonly eventsInOrder = new SortedList<EventRow>(eventsBySeq)
  /** Events that no delivery refers to, oldest first. */
  readonly bareEvents = new SortedList<EventRow>(eventsByAge)
  readonly deliveries = new Map<string, DeliveryRow>()
  readonly deliveriesInOrder = new SortedList<DeliveryRow>(bySeq)
  readonly queues = new Map<string, DestinationQueue>()
  /** What cleaning looks at, oldest first; dead heads that block are not among them. */
  readonly ended = {
    /** Done and discarded, in one order: a later run must not be forgotten before an earlier one. */
    finished: new SortedList<DeliveryRow>(byEnd),
    dead: new SortedList<DeliveryRow>(byEnd),
  }
  readonly attempts = new Map<string, AttemptView[]>()
  readonly dedup = new Map<string, { readonly eventId: string; readonly atMs: number }>()
  readonly workers = new Map<string, WorkerRow>()
  readonly lanes = new Map<string, LaneRow[]>()
  readonly duties = new Map<string, string>()
  readonly registry = new Map<string, RegistryEntry>()
  registryVersion = 0
  readonly audit: AuditEntry[] = []
  /** By the minute, then by the destination. */
  readonly statistics = new Map<number, Map<string, MinuteStatistics>>()
  /** In the order in which they began. */
  readonly open = new Set<OpenDraw>()
  /** What tests wrote with `tx.set`, as far as it is committed. */
  readonly data = new Map<string, unknown>()
  readonly keyLocks = new KeyLocks()
  createdAtMs: number | null = null
  #clock: (() => number) | null
  #lastSeq = 0n
  #transactions = 0n

  constructor(options: MemoryDatabaseOptions) {
    this.#clock = options.clock ?? null
  }

  /** Committed business data. */
  get(key: string): unknown {
    return this.data.get(key)
  }

  /** The first process to open the database lends it its clock, unless it has one of its own. */
  lendClock(clock: () => number): void {
    this.#clock ??= clock
    this.createdAtMs ??= this.now()
  }

  now(): number {
    if (this.#clock === null) {
      throw new StoreError(
        ERROR_CODES.closed,
        'the memory database has no clock yet: open a store on it first',
      )
    }
    return this.#clock()
  }

  get lastSeq(): bigint {
    return this.#lastSeq
  }

  beginTransaction(): bigint {
    this.#transactions += 1n
    return this.#transactions
  }

  snapshot(): { readonly oldest: bigint; readonly next: bigint } {
    const next = this.#transactions + 1n
    const [oldest] = this.open
    return { oldest: oldest?.number ?? next, next }
  }

  drawSeq(): bigint {
    this.#lastSeq += 1n
    return this.#lastSeq
  }

  /** For tests of large numbers; never goes back. */
  setNextSeq(seq: bigint): void {
    if (seq > this.#lastSeq) this.#lastSeq = seq - 1n
  }

  /** For tests: the event can no longer be decoded. */
  corruptEvent(eventId: string): void {
    const event = this.events.get(eventId)
    if (event) event.corrupt = true
  }

  queue(destination: string): DestinationQueue {
    let queue = this.queues.get(destination)
    if (queue === undefined) {
      queue = new DestinationQueue()
      this.queues.set(destination, queue)
    }
    return queue
  }

  keyQueue(destination: string, key: string | null): KeyQueue | undefined {
    return key === null ? undefined : this.queues.get(destination)?.keys.get(key)
  }

  unroutedOf(key: string | null): KeyQueue | undefined {
    return this.keyQueue(UNROUTED, key)
  }

  /** Not fenced; a lease that ran out counts until somebody fences it. */
  isLive(workerId: string): boolean {
    return this.workers.get(workerId)?.fenced === false
  }

  // -------------------------------------------------------------------------------------------- changes

  insertEvent(event: EventRow): void {
    this.events.set(event.record.id, event)
    this.eventsInOrder.add(event)
    this.bareEvents.add(event)
  }

  removeEvent(event: EventRow): void {
    this.events.delete(event.record.id)
    this.eventsInOrder.delete(event)
    this.bareEvents.delete(event)
  }

  insertRow(row: DeliveryRow): void {
    this.deliveries.set(row.id, row)
    this.deliveriesInOrder.add(row)
    this.#link(row)
    const event = this.events.get(row.eventId)
    if (event === undefined) return
    if (event.deliveries.size === 0) this.bareEvents.delete(event)
    event.deliveries.add(row)
  }

  change(row: DeliveryRow, changes: Partial<Omit<DeliveryRow, 'seq'>>): void {
    this.#unlink(row)
    Object.assign(row, changes)
    this.#link(row)
  }

  /** A delayed row takes its place at the end. */
  activate(row: DeliveryRow): void {
    this.#unlink(row)
    this.deliveriesInOrder.delete(row)
    row.seq = this.drawSeq()
    row.status = 'pending'
    this.deliveriesInOrder.add(row)
    this.#link(row)
  }

  remove(row: DeliveryRow): void {
    this.#unlink(row)
    this.deliveriesInOrder.delete(row)
    this.deliveries.delete(row.id)
    this.attempts.delete(row.id)
    const event = this.events.get(row.eventId)
    if (event?.deliveries.delete(row) && event.deliveries.size === 0) this.bareEvents.add(event)
  }

  /** Ends a run for good. */
  finish(row: DeliveryRow, status: 'done' | 'discarded', settledBy: string | null): void {
    this.change(row, { status, settledBy, token: null, holdsKey: false, endedAtMs: this.now() })
  }

  #link(row: DeliveryRow): void {
    const queue = this.queue(row.destination)
    queue.counts[row.status] += 1
    for (const list of this.#listsOf(row, queue)) list.add(row)
    if (row.key === null || !takesPartInKey(row)) return
    let key = queue.keys.get(row.key)
    if (key === undefined) {
      key = new KeyQueue()
      queue.keys.set(row.key, key)
    }
    key.add(row)
  }

  #unlink(row: DeliveryRow): void {
    const queue = this.queue(row.destination)
    queue.counts[row.status] -= 1
    for (const list of this.#listsOf(row, queue)) list.delete(row)
    if (row.key === null || !takesPartInKey(row)) return
    const key = queue.keys.get(row.key)
    key?.remove(row)
    if (key?.rows.size === 0) queue.keys.delete(row.key)
  }

  #listsOf(row: DeliveryRow, queue: DestinationQueue): SortedList<DeliveryRow>[] {
    switch (row.status) {
      case 'pending':
        return row.token === null ? [queue.pending] : [queue.pending, queue.claimed]
      case 'retry':
        return [queue.retries]
      case 'scheduled':
        return [queue.scheduled]
      case 'held':
        return []
      case 'dead':
        return row.holdsKey ? [queue.dead] : [queue.dead, this.ended.dead]
      case 'done':
      case 'discarded':
        return [this.ended.finished]
    }
  }
}

const takesPartInKey = (row: DeliveryRow): boolean =>
  (isUnfinished(row) && row.status !== 'scheduled') || (row.status === 'dead' && row.holdsKey)

/** An empty database. Give the same one to several stores to play several processes. */
const OPTION_NAMES: ReadonlySet<string> = new Set<keyof MemoryDatabaseOptions>(['clock'])

export const createMemoryDatabase = (options: MemoryDatabaseOptions = {}): MemoryDatabase => {
  refuseUnknown('createMemoryDatabase', options, OPTION_NAMES)
  const { clock } = options
  if (clock !== undefined && typeof clock !== 'function') {
    throw new InvalidOptionError('clock must be a function that returns milliseconds since 1970', {
      option: 'clock',
      value: clock,
    })
  }
  return new MemoryDatabase(options)
}
