/** What an operator does. Each leaves an audit row, also when there was nothing to do. */
import { ERROR_CODES, InvalidOptionError, StoreError } from '../../../core/errors.ts'
import type { NewEvent, OperationKind, OperationTarget, OperatorAct } from '../../../core/spi/index.ts'
import type { MemoryDatabase } from '../database.ts'
import { bySeq, type DeliveryRow, isUnderHotClaim, isUnfinished, newDeliveryRow } from '../rows.ts'
import { toEventRow } from './insert.ts'
import { promote } from './settle.ts'

/** Held rows that become pending when an operator clears their way; the rest follow as these are settled. */
const PROMOTE_LIMIT = 100

const OPERATOR = 'operator'

type NewId = () => string

/** What each operation may act on. */
const eligibleFor = (db: MemoryDatabase, kind: OperationKind): ((row: DeliveryRow) => boolean) => {
  if (kind === 'redrive') return (row) => row.status === 'dead'
  if (kind === 'replay') return (row) => row.status === 'done' && isReplayable(db, row)
  const now = db.now()
  return (row) => row.status === 'dead' || (isUnfinished(row) && !isUnderHotClaim(row, now))
}

export const preview = (db: MemoryDatabase, kind: OperationKind, target: OperationTarget): string[] =>
  select(db, target, eligibleFor(db, kind)).map(({ id }) => id)

export const redrive = (
  db: MemoryDatabase,
  target: OperationTarget,
  act: OperatorAct,
  newId: NewId,
): number => {
  const rows = select(db, target, eligibleFor(db, 'redrive'))
  for (const row of rows) {
    const { holdsKey } = row
    db.finish(row, 'discarded', OPERATOR)
    // Whoever waited for the dead run now waits for the new one.
    insertRun(db, row, newId(), { holdsKey })
  }
  return record(db, 'redrive', target, act, rows.length)
}

export const replay = (
  db: MemoryDatabase,
  target: OperationTarget,
  act: OperatorAct,
  newId: NewId,
): number => {
  const rows = select(db, target, eligibleFor(db, 'replay'))
  for (const row of rows) insertRun(db, row, newId(), {})
  return record(db, 'replay', target, act, rows.length)
}

export const discard = (db: MemoryDatabase, target: OperationTarget, act: OperatorAct): number => {
  const rows = select(db, target, eligibleFor(db, 'discard'))
  for (const row of rows) db.finish(row, 'discarded', OPERATOR)
  promote(db, rows, PROMOTE_LIMIT)
  return record(db, 'discard', target, act, rows.length)
}

export const edit = (
  db: MemoryDatabase,
  deliveryId: string,
  replacement: NewEvent,
  newDeliveryId: string,
  act: OperatorAct,
): void => {
  if (db.deliveries.has(newDeliveryId)) return
  const row = db.deliveries.get(deliveryId)
  if (row?.status !== 'dead') {
    const found = row === undefined ? 'is not known' : `is ${row.status}`
    throw new StoreError(
      ERROR_CODES.conflict,
      `only a dead delivery can be edited, and ${deliveryId} ${found}`,
      {
        deliveryId,
      },
    )
  }
  const { holdsKey } = row
  const replacesId = replacement.replacesId ?? row.eventId
  const event = toEventRow({ ...replacement, replacesId }, db.drawSeq(), db.now())
  db.insertEvent(event)
  db.finish(row, 'discarded', OPERATOR)
  const { id: eventId, size } = event.record
  insertRun(db, row, newDeliveryId, { eventId, size, run: 1, holdsKey })
  record(db, 'edit', { deliveryIds: [deliveryId], eventIds: [eventId], limit: 1 }, act, 1)
}

/** A new run in the same place, with nothing spent. */
const insertRun = (db: MemoryDatabase, row: DeliveryRow, id: string, changes: Partial<DeliveryRow>): void => {
  const { eventId, seq, destination, lane, key, size } = row
  const run = lastRun(db, row) + 1
  db.insertRow(
    newDeliveryRow({
      eventId,
      seq,
      destination,
      lane,
      key,
      size,
      run,
      createdAtMs: db.now(),
      ...changes,
      id,
    }),
  )
}

const lastRun = (db: MemoryDatabase, row: DeliveryRow): number =>
  Math.max(row.run, ...otherRuns(db, row).map(({ run }) => run))

/** Nothing but discarded runs came after it: one that is unfinished or dead has to end first. */
const isReplayable = (db: MemoryDatabase, row: DeliveryRow): boolean =>
  otherRuns(db, row).every(
    ({ run, status }) => status === 'discarded' || (status === 'done' && run < row.run),
  )

const otherRuns = (db: MemoryDatabase, row: DeliveryRow): readonly DeliveryRow[] =>
  [...(db.events.get(row.eventId)?.deliveries ?? [])].filter(
    (other) => other !== row && other.destination === row.destination,
  )

/** The rows an operation is about, lowest `seq` first. */
const select = (
  db: MemoryDatabase,
  target: OperationTarget,
  eligible: (row: DeliveryRow) => boolean,
): DeliveryRow[] => {
  const { limit, ...filter } = target
  if (Object.values(filter).every((value) => value === undefined)) {
    throw new InvalidOptionError('an operation needs at least one thing that says what it is about', {
      option: 'target',
      value: target,
    })
  }
  const rows: DeliveryRow[] = []
  for (const row of candidates(db, target)) {
    if (rows.length >= limit) break
    if (eligible(row) && isMeant(db, row, target)) rows.push(row)
  }
  return rows
}

const candidates = (
  db: MemoryDatabase,
  { deliveryIds, eventIds }: OperationTarget,
): Iterable<DeliveryRow> => {
  if (deliveryIds !== undefined) {
    return [...new Set(deliveryIds)].flatMap((id) => db.deliveries.get(id) ?? []).sort(bySeq)
  }
  if (eventIds !== undefined) {
    return [...new Set(eventIds)].flatMap((id) => [...(db.events.get(id)?.deliveries ?? [])]).sort(bySeq)
  }
  return db.deliveriesInOrder
}

const isMeant = (db: MemoryDatabase, row: DeliveryRow, target: OperationTarget): boolean => {
  const { eventIds, destination, type, key, tenantId, storedFromMs, storedBeforeMs } = target
  const event = db.events.get(row.eventId)?.record
  const storedAt = event?.createdAtMs ?? Number.NaN
  return (
    (eventIds === undefined || eventIds.includes(row.eventId)) &&
    (destination === undefined || row.destination === destination) &&
    (type === undefined || event?.type === type) &&
    (key === undefined || row.key === key) &&
    (tenantId === undefined || event?.tenantId === tenantId) &&
    (storedFromMs === undefined || storedAt >= storedFromMs) &&
    (storedBeforeMs === undefined || storedAt < storedBeforeMs)
  )
}

const record = (
  db: MemoryDatabase,
  action: string,
  target: OperationTarget,
  { actor, reason }: OperatorAct,
  count: number,
): number => {
  db.audit.push({ atMs: db.now(), actor, action, reason, target: JSON.stringify(target), count })
  return count
}
