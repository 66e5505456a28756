import { InvalidOptionError } from '../../../core/errors.ts'
import { type EventRecord, isUuid } from '../../../core/model/index.ts'
import type {
  AuditEntry,
  BlockedKey,
  DeliveryPage,
  DeliveryQuery,
  DeliveryView,
  DestinationCounts,
  EventDetail,
  LaneView,
  MinuteStatistics,
  WorkerView,
} from '../../../core/spi/index.ts'
import type { DestinationQueue, MemoryDatabase } from '../database.ts'
import { bySeq, type DeliveryRow, isDue, isUnfinished } from '../rows.ts'
import { readEvent } from './read.ts'

export const list = (db: MemoryDatabase, query: DeliveryQuery): DeliveryPage => {
  const oldest = query.order === 'oldest'
  const cursor = query.after === undefined ? null : parseCursor(query.after)
  const rows = oldest
    ? db.deliveriesInOrder.upFrom((row) => cursor !== null && bySeq(row, cursor) <= 0)
    : db.deliveriesInOrder.downFrom((row) => cursor === null || bySeq(row, cursor) < 0)
  const found: DeliveryRow[] = []
  for (const row of rows) {
    if (!matches(db, row, query)) continue
    found.push(row)
    if (found.length > query.limit) break
  }
  const page = found.slice(0, query.limit)
  const last = page.at(-1)
  const next = found.length > query.limit && last !== undefined ? `${last.seq}:${last.id}` : null
  return { deliveries: page.map((row) => toView(db, row)), next }
}

const parseCursor = (text: string): { seq: bigint; id: string } => {
  const [seq = '', id] = text.split(':', 2)
  if (/^\d{1,19}$/.test(seq) && isUuid(id)) return { seq: BigInt(seq), id }
  throw new InvalidOptionError('after must be the `next` of an earlier page', {
    option: 'after',
    value: text,
  })
}

const matches = (db: MemoryDatabase, row: DeliveryRow, query: DeliveryQuery): boolean => {
  const { status, destination, type, key, tenantId, olderThanMs, newerThanMs } = query
  if (status !== undefined && !status.includes(row.status)) return false
  if (destination !== undefined && row.destination !== destination) return false
  if (key !== undefined && row.key !== key) return false
  const event = db.events.get(row.eventId)?.record
  if (type !== undefined && event?.type !== type) return false
  if (tenantId !== undefined && event?.tenantId !== tenantId) return false
  const age = db.now() - row.createdAtMs
  return (olderThanMs === undefined || age >= olderThanMs) && (newerThanMs === undefined || age < newerThanMs)
}

const toView = (db: MemoryDatabase, row: DeliveryRow): DeliveryView => {
  const event = db.events.get(row.eventId)?.record
  const final = row.status === 'done' || row.status === 'discarded'
  return {
    id: row.id,
    eventId: row.eventId,
    seq: row.seq,
    type: event?.type ?? '',
    destination: row.destination,
    run: row.run,
    lane: row.lane,
    key: row.key,
    tenantId: event?.tenantId ?? null,
    aggregateType: event?.aggregateType ?? null,
    aggregateId: event?.aggregateId ?? null,
    status: row.status,
    attempts: row.attempts,
    suspicions: row.suspicions,
    createdAtMs: row.createdAtMs,
    availableAtMs: final || row.status === 'dead' ? null : row.availableAtMs,
    finishedAtMs: final ? row.endedAtMs : null,
    diedAtMs: row.status === 'dead' ? row.endedAtMs : null,
    lastError: row.lastError,
    settledBy: row.settledBy,
  }
}

export const event = (db: MemoryDatabase, eventId: string): EventDetail | null => {
  const found = db.events.get(eventId)
  if (found === undefined) return null
  const rows = [...found.deliveries].sort(bySeq)
  return {
    event: found.record,
    deliveries: rows.map((row) => toView(db, row)),
    attempts: rows.flatMap((row) => db.attempts.get(row.id) ?? []),
  }
}

export const eventOfDelivery = (db: MemoryDatabase, deliveryId: string): EventRecord | null => {
  const row = db.deliveries.get(deliveryId)
  return row === undefined ? null : readEvent(db, row.eventId)
}

export const counts = (db: MemoryDatabase): DestinationCounts[] => {
  const names = new Set(db.registry.keys())
  for (const [name, queue] of db.queues)
    if (Object.values(queue.counts).some((count) => count > 0)) names.add(name)
  return [...names].sort().map((destination) => {
    const queue = db.queue(destination)
    return { destination, counts: { ...queue.counts }, oldestLagMs: oldestLag(queue, db.now()) }
  })
}

const oldestLag = (queue: DestinationQueue, now: number): number | null => {
  let oldest: number | null = null
  for (const row of [...queue.pending, ...queue.retries, ...queue.scheduled, ...blockingHeads(queue)]) {
    if (row.status !== 'dead' && (!isDue(row, now) || isParked(queue, row))) continue
    // What was delayed began to wait when it was due.
    const since = row.status === 'dead' || row.token !== null ? row.createdAtMs : row.availableAtMs
    if (oldest === null || since < oldest) oldest = since
  }
  return oldest === null ? null : Math.max(0, now - oldest)
}

function* blockingHeads(queue: DestinationQueue): Iterable<DeliveryRow> {
  for (const rows of queue.keys.values()) {
    const head = rows.firstBlocker()
    if (head?.status === 'dead' && !head.parked) yield head
  }
}

const isParked = (queue: DestinationQueue, row: DeliveryRow): boolean =>
  row.key !== null && queue.keys.get(row.key)?.firstBlocker()?.parked === true

export const blockedKeys = (
  db: MemoryDatabase,
  query: { destination?: string; limit: number },
): BlockedKey[] => {
  const found: BlockedKey[] = []
  for (const [destination, queue] of db.queues) {
    if (query.destination !== undefined && query.destination !== destination) continue
    for (const [key, rows] of queue.keys) {
      const head = rows.firstBlocker()
      if (head === undefined) continue
      let waiting = 0
      for (const row of rows.rows) {
        if (row !== head && isUnfinished(row)) waiting += 1
      }
      if (waiting === 0) continue
      if (found.length >= query.limit) return found
      const { id: headDeliveryId, status: headStatus, attempts: headAttempts } = head
      found.push({ destination, key, headDeliveryId, headStatus, headAttempts, waiting })
    }
  }
  return found
}

export const audit = (db: MemoryDatabase, { limit }: { limit: number }): AuditEntry[] =>
  db.audit.slice(-limit).reverse()

export const workers = (db: MemoryDatabase): WorkerView[] => {
  const now = db.now()
  return [...db.workers.values()].map(
    ({ id, expiresAtMs, leaseMs: _leaseMs, renewals: _renewals, ...worker }) => {
      let lanes = 0
      for (const owners of db.lanes.values()) for (const owner of owners) if (owner.owner === id) lanes += 1
      return { ...worker, workerId: id, expiresInMs: expiresAtMs - now, lanes }
    },
  )
}

export const lanes = (db: MemoryDatabase, { destination }: { destination?: string }): LaneView[] => {
  const now = db.now()
  return [...db.lanes].flatMap(([name, rows]) => {
    if (destination !== undefined && name !== destination) return []
    return rows.map(({ owner }, lane) => {
      const worker = owner === null ? undefined : db.workers.get(owner)
      const expiresInMs = worker === undefined ? null : Math.max(0, worker.expiresAtMs - now)
      return { destination: name, lane, workerId: owner, expiresInMs }
    })
  })
}

export const statistics = (
  db: MemoryDatabase,
  { destination, minutes }: { readonly destination?: string; readonly minutes: number },
): readonly MinuteStatistics[] => {
  const minute = Math.floor(db.now() / 60_000)
  return [...db.statistics]
    .filter(([one]) => one > minute - minutes)
    .flatMap(([, known]) => [...known.values()])
    .filter((one) => destination === undefined || one.destination === destination)
    .sort((a, b) => a.minuteMs - b.minuteMs || (a.destination < b.destination ? -1 : 1))
}
