import { type EventRecord, UNROUTED } from '../../../core/model/index.ts'
import type {
  ActivateRequest,
  ReadRequest,
  ReadResult,
  StoredDelivery,
  SweptDelivery,
  UnroutedDelivery,
} from '../../../core/spi/index.ts'
import type { DestinationQueue, MemoryDatabase } from '../database.ts'
import { bySeq, type DeliveryRow, isDue } from '../rows.ts'
import type { SortedList } from '../sorted-list.ts'

type LaneFilter = (row: DeliveryRow) => boolean

export const read = (db: MemoryDatabase, request: ReadRequest): ReadResult => {
  const now = db.now()
  const queue = db.queue(request.destination)
  const ours = inLanes(request.lanes)
  const budget = new Budget(request.limit, request.maxBytes)
  const due = readDue(queue, ours, now, budget, request.dueLimit)
  const fresh = readFresh(queue, ours, now, budget, request)
  const swept = request.sweep ? sweep(queue, ours, now, request) : null
  return {
    due: due.rows.map((row) => toStored(db, row)),
    fresh: fresh.map((row) => toStored(db, row)),
    swept: swept === null ? null : swept.slice(0, request.sweepLimit),
    sweptMore: swept !== null && swept.length > request.sweepLimit,
    more: budget.exceeded || due.more,
    nextDueInMs: nextDueIn(queue, ours, now),
    unrouted: unroutedRows(db).next().done !== true,
    activatable: activatable(queue, ours, now).next().done !== true,
    snapshot: db.snapshot(),
  }
}

/** Scheduled rows whose time has come, in order of their time. */
function* activatable(queue: DestinationQueue, ours: LaneFilter, now: number): Generator<DeliveryRow> {
  for (const row of queue.scheduled) {
    if (row.availableAtMs > now) return
    if (ours(row)) yield row
  }
}

export const activate = (db: MemoryDatabase, request: ActivateRequest): number => {
  const { workerId, destination, lanes, limit } = request
  if (!db.isLive(workerId)) return 0
  const rows = [...activatable(db.queue(destination), inLanes(lanes), db.now())].slice(0, limit)
  for (const row of rows) db.activate(row)
  return rows.length
}

const inLanes = (lanes: readonly number[] | null): LaneFilter => {
  if (lanes === null) return () => true
  const set = new Set(lanes)
  return (row) => set.has(row.lane)
}

/** Rows and bytes that one read may still return; the first row always fits. */
class Budget {
  exceeded = false
  #rows: number
  #bytes: number
  #any = false

  constructor(rows: number, bytes: number) {
    this.#rows = rows
    this.#bytes = bytes
  }

  take(size: number): boolean {
    if (this.exceeded || this.#rows === 0 || (this.#any && size > this.#bytes)) {
      this.exceeded = true
      return false
    }
    this.#any = true
    this.#rows -= 1
    this.#bytes -= size
    return true
  }
}

const readDue = (
  queue: DestinationQueue,
  ours: LaneFilter,
  now: number,
  budget: Budget,
  dueLimit: number,
): { readonly rows: DeliveryRow[]; readonly more: boolean } => {
  const rows: DeliveryRow[] = []
  for (const row of queue.retries) {
    if (row.availableAtMs > now) break
    if (!ours(row)) continue
    if (rows.length === dueLimit) return { rows, more: true }
    if (!budget.take(row.size)) break
    rows.push(row)
  }
  return { rows, more: false }
}

const readFresh = (
  queue: DestinationQueue,
  ours: LaneFilter,
  now: number,
  budget: Budget,
  { after, skipRecentMs, windowMs }: ReadRequest,
): DeliveryRow[] => {
  const rows: DeliveryRow[] = []
  for (const row of queue.pending.upFrom((other) => other.seq <= after)) {
    if (budget.exceeded) break
    if (!isDue(row, now) || !ours(row)) continue
    if (skipRecentMs > 0 && now - row.createdAtMs < skipRecentMs) break
    if (windowMs > 0 && now - row.availableAtMs > windowMs) continue
    if (!budget.take(row.size)) break
    rows.push(row)
  }
  return rows
}

/** One more than the limit, so that the caller sees whether there were more. */
const sweep = (
  queue: DestinationQueue,
  ours: LaneFilter,
  now: number,
  { after, sweepFrom, sweepLimit }: ReadRequest,
): SweptDelivery[] => {
  const found: SweptDelivery[] = []
  for (const row of queue.pending.upFrom((other) => other.seq <= sweepFrom)) {
    if (row.seq > after || found.length > sweepLimit) break
    if (isDue(row, now) && ours(row)) found.push({ id: row.id, seq: row.seq })
  }
  return found
}

const nextDueIn = (queue: DestinationQueue, ours: LaneFilter, now: number): number | null => {
  const next = (list: SortedList<DeliveryRow>): number => {
    for (const row of list.upFrom((other) => other.availableAtMs <= now))
      if (ours(row)) return row.availableAtMs
    return Number.POSITIVE_INFINITY
  }
  const at = Math.min(next(queue.retries), next(queue.scheduled), next(queue.claimed))
  return at === Number.POSITIVE_INFINITY ? null : at - now
}

export const readByIds = (
  db: MemoryDatabase,
  destination: string,
  ids: readonly string[],
): StoredDelivery[] => {
  const now = db.now()
  const rows = ids.flatMap((id) => {
    const row = db.deliveries.get(id)
    return row?.destination === destination && row.status === 'pending' && isDue(row, now) ? [row] : []
  })
  return rows.sort(bySeq).map((row) => toStored(db, row))
}

const isBehind = (db: MemoryDatabase, row: DeliveryRow): boolean => {
  if (row.key === null) return false
  if (db.keyQueue(row.destination, row.key)?.isHeldBack(row)) return true
  return (db.unroutedOf(row.key)?.idsBefore(row.seq, 1).length ?? 0) > 0
}

export const readEvent = (db: MemoryDatabase, eventId: string): EventRecord | null => {
  const event = db.events.get(eventId)
  if (event === undefined || event.corrupt) return null
  const { record } = event
  // A reader gets bytes of its own, as from a real database.
  return typeof record.data === 'string' ? record : { ...record, data: record.data.slice() }
}

const toStored = (db: MemoryDatabase, row: DeliveryRow): StoredDelivery => {
  const event = readEvent(db, row.eventId)
  const why = db.events.has(row.eventId) ? 'cannot be decoded' : 'is missing'
  return {
    id: row.id,
    seq: row.seq,
    destination: row.destination,
    run: row.run,
    lane: row.lane,
    key: row.key,
    attempts: row.attempts,
    suspicions: row.suspicions,
    status: row.status as StoredDelivery['status'],
    token: row.token,
    holdsKey: row.holdsKey,
    behind: isBehind(db, row),
    size: row.size,
    // A claim that ran out says nothing about when the row could be sent: that was at its commit.
    dueForMs:
      db.now() - (row.status === 'pending' && row.token !== null ? row.createdAtMs : row.availableAtMs),
    event,
    problem: event === null ? `event ${row.eventId} ${why}` : null,
  }
}

// -------------------------------------------------------------------------------------------- unrouted

function* unroutedRows(db: MemoryDatabase): Generator<DeliveryRow> {
  const queue = db.queue(UNROUTED)
  yield* queue.pending
  yield* queue.scheduled
}

export const readUnrouted = (db: MemoryDatabase, limit: number): UnroutedDelivery[] => {
  const rows = [...unroutedRows(db)].sort(bySeq).slice(0, limit)
  return rows.map(({ id, eventId, seq, key, size }) => {
    const type = db.events.get(eventId)?.record.type ?? ''
    return { id, eventId, seq, type, key, size }
  })
}
