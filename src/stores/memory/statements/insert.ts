import { ERROR_CODES, StoreError } from '../../../core/errors.ts'
import type { EventRecord } from '../../../core/model/index.ts'
import type { InsertRequest, InsertResult, NewDelivery, NewEvent } from '../../../core/spi/index.ts'
import { type DeliveryRow, type EventRow, newDeliveryRow } from '../rows.ts'
import { assertOpen, type MemoryTransaction, type TransactionLog } from '../transactions.ts'

/** Draws the numbers at once, as a database's sequence does; the rows themselves appear at commit. */
export const insert = (tx: MemoryTransaction, request: InsertRequest): InsertResult => {
  const log = assertOpen(tx)
  const now = log.database.now()
  const duplicates = new Map<string, string>()
  const written = new Map<string, bigint>()
  const repeated = new Set<string>()
  for (const event of request.events) {
    const first = firstOfSameKey(log, event)
    if (first !== undefined && first !== event.id) duplicates.set(event.id, first)
    else if (log.eventIds.has(event.id) || log.database.events.has(event.id)) repeated.add(event.id)
    else written.set(event.id, writeEvent(log, event, now))
  }
  for (const delivery of request.deliveries) {
    if (duplicates.has(delivery.eventId) || repeated.has(delivery.eventId)) continue
    const seq = written.get(delivery.eventId)
    if (seq === undefined) {
      const message = `delivery ${delivery.id} belongs to event ${delivery.eventId}, which is not part of this insert`
      throw new StoreError(ERROR_CODES.notFound, message)
    }
    log.append({ kind: 'delivery', row: toRow(delivery, seq, now, request.hotLeaseMs) })
  }
  return { duplicates }
}

const dedupKeyOf = ({ type, idempotencyKey }: NewEvent): string | null =>
  idempotencyKey === null ? null : JSON.stringify([type, idempotencyKey])

const firstOfSameKey = (log: TransactionLog, event: NewEvent): string | undefined => {
  const key = dedupKeyOf(event)
  return key === null ? undefined : (log.database.dedup.get(key)?.eventId ?? log.dedup.get(key))
}

const writeEvent = (log: TransactionLog, event: NewEvent, now: number): bigint => {
  const seq = log.drawSeq()
  log.append({ kind: 'event', event: toEventRow(event, seq, now), dedupKey: dedupKeyOf(event) })
  return seq
}

export const toEventRow = (event: NewEvent, seq: bigint, now: number): EventRow => {
  const { routesVersion, idempotencyKey: _key, ...fields } = event
  const record: EventRecord = {
    ...fields,
    headers: Object.freeze({ ...fields.headers }),
    // What is stored cannot be changed later through the caller's array.
    data: typeof fields.data === 'string' ? fields.data : fields.data.slice(),
    createdAtMs: now,
  }
  return { record: Object.freeze(record), seq, routesVersion, deliveries: new Set(), corrupt: false }
}

const toRow = (delivery: NewDelivery, seq: bigint, now: number, hotLeaseMs: number): DeliveryRow => {
  const { id, eventId, destination, lane, key, size, due, token } = delivery
  const base = { id, eventId, destination, lane, key, size, seq, createdAtMs: now }
  const dueAtMs = 'atMs' in due ? due.atMs : now + due.afterMs
  if (dueAtMs > now) return newDeliveryRow({ ...base, status: 'scheduled', availableAtMs: dueAtMs })
  if (token === null) return newDeliveryRow(base)
  return newDeliveryRow({ ...base, token, availableAtMs: now + hotLeaseMs })
}
