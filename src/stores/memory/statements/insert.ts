import { ERROR_CODES, StoreError } from '../../../core/errors.ts'
import type { EventRecord } from '../../../core/model/index.ts'
import type { InsertRequest, InsertResult, NewDelivery, NewEvent } from '../../../core/spi/index.ts'
import { type DeliveryRow, type EventRow, newDeliveryRow } from '../rows.ts'
import { assertOpen, conflict, type MemoryTransaction, type TransactionLog } from '../transactions.ts'

export const insert = async (tx: MemoryTransaction, request: InsertRequest): Promise<InsertResult> => {
  const log = assertOpen(tx)
  if (request.lockKeys) await log.database.keyLocks.acquire(log, keysOf(request))
  // The transaction may have ended while this waited.
  return write(assertOpen(tx), request)
}

export const insertSync = (tx: MemoryTransaction, request: InsertRequest): InsertResult => {
  const log = assertOpen(tx)
  if (request.lockKeys) log.database.keyLocks.acquireNow(log, keysOf(request))
  return write(log, request)
}

const keysOf = ({ events }: InsertRequest): string[] =>
  events.flatMap(({ key }) => (key === null ? [] : [key]))

/**
 * Draws the numbers at once, as a database's sequence does; the rows themselves appear at commit. Everything is
 * checked before the first row is written: the caller may catch the error and commit.
 */
const write = (log: TransactionLog, request: InsertRequest): InsertResult => {
  const { firsts, duplicates } = sortOut(log, request.events)
  for (const delivery of request.deliveries) checkDelivery(log, delivery, firsts, duplicates)
  const now = log.database.now()
  const written = new Map<string, bigint>()
  for (const event of firsts.values()) written.set(event.id, writeEvent(log, event, now))
  for (const delivery of request.deliveries) {
    const seq = written.get(delivery.eventId)
    if (seq !== undefined)
      log.append({ kind: 'delivery', row: toRow(delivery, seq, now, request.hotLeaseMs) })
  }
  return { duplicates }
}

/** Which events will be written, and which repeat an idempotency key, be it with the id of the first. */
const sortOut = (log: TransactionLog, events: readonly NewEvent[]) => {
  const firsts = new Map<string, NewEvent>()
  const duplicates = new Map<string, string>()
  const keys = new Map<string, string>()
  for (const event of events) {
    const key = dedupKeyOf(event)
    const here = key === null ? undefined : keys.get(key)
    const first = firstOfSameKey(log, event) ?? here
    if (first !== undefined) {
      if (first !== here || first !== event.id) duplicates.set(event.id, first)
      continue
    }
    if (log.eventIds.has(event.id) || log.database.events.has(event.id) || firsts.has(event.id))
      throw conflict('event', event.id)
    firsts.set(event.id, event)
    if (key !== null) keys.set(key, event.id)
  }
  return { firsts, duplicates }
}

const checkDelivery = (
  log: TransactionLog,
  { id, eventId }: NewDelivery,
  firsts: ReadonlyMap<string, NewEvent>,
  duplicates: ReadonlyMap<string, string>,
): void => {
  if (firsts.has(eventId)) {
    if (log.deliveryIds.has(id) || log.database.deliveries.has(id)) throw conflict('delivery', id)
  } else if (!duplicates.has(eventId)) {
    const message = `delivery ${id} belongs to event ${eventId}, which is not part of this insert`
    throw new StoreError(ERROR_CODES.notFound, message)
  }
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
