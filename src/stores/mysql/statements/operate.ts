/** What operators do: redrive, replay, discard, edit. Each in one transaction with its audit row. */
import { ERROR_CODES, StoreError } from '../../../core/errors.ts'
import { uuidToBytes, uuidToHex } from '../../../core/model/index.ts'
import type { NewEvent, OperationKind, OperationTarget, OperatorAct } from '../../../core/spi/index.ts'
import type { Tables } from '../../sql/identifiers.ts'
import type { SqlValue } from '../../sql/sql-executor.ts'
import { asksForEvent, NO_TARGET } from '../../sql/targets.ts'
import type { MysqlDatabase, Session } from '../database.ts'
import { writeAudit } from './audit.ts'
import { distinctKeys, type KeyOf, promotion } from './hold.ts'
import { eventStatement } from './insert.ts'
import { asId, asNumber, asText, idList, jsonTable, KEY, NOW, rowsById, timeText } from './sql-text.ts'
import { addTotal } from './totals.ts'

/** After an operator's discard as many rows of a key go on at once as a settle would let. */
const PROMOTE_LIMIT = 100

/** `d` is the delivery, `e` its event. At least one field narrows the target: nobody means "everything". */
const matching = (
  target: OperationTarget,
): { readonly where: string; readonly params: readonly SqlValue[] } => {
  const filters: [string, ...SqlValue[]][] = []
  if (target.deliveryIds !== undefined) filters.push([`d.id IN (${idList(target.deliveryIds)})`])
  if (target.eventIds !== undefined) filters.push([`d.event_id IN (${idList(target.eventIds)})`])
  if (target.destination !== undefined) filters.push(['d.destination = ?', target.destination])
  if (target.key !== undefined) filters.push(['d.key = ?', target.key])
  if (target.type !== undefined) filters.push(['e.type = ?', target.type])
  if (target.tenantId !== undefined) filters.push(['e.tenant_id = ?', target.tenantId])
  if (target.storedFromMs !== undefined) filters.push(['e.created_at >= ?', timeText(target.storedFromMs)])
  if (target.storedBeforeMs !== undefined) filters.push(['e.created_at < ?', timeText(target.storedBeforeMs)])
  if (filters.length === 0) throw new StoreError(ERROR_CODES.conflict, NO_TARGET)
  return {
    where: filters.map(([text]) => text).join(' AND '),
    params: filters.flatMap(([, ...values]) => values),
  }
}

interface Choice {
  readonly table: 'deliveries' | 'finished'
  readonly hint: string
  readonly condition: string
  readonly order: string
}

/** Rows are found by their id where ids are given, and by the index of their state otherwise. */
const hintFor = (target: OperationTarget, index: string): string =>
  target.deliveryIds === undefined && target.eventIds === undefined && target.key === undefined
    ? ` FORCE INDEX (${index})`
    : ''

/** What each operation may act on. */
const CHOICES: Readonly<Record<OperationKind, (t: Tables, target: OperationTarget) => Choice>> = {
  redrive: (_, target) => ({
    table: 'deliveries',
    hint: hintFor(target, 'by_status'),
    condition: 'd.status = 3',
    order: 'd.seq',
  }),
  replay: (t, target) => ({
    table: 'finished',
    hint: hintFor(target, 'PRIMARY'),
    condition: replayable(t),
    order: 'd.id',
  }),
  discard: () => ({ table: 'deliveries', hint: '', condition: NOT_CLAIMED, order: 'd.seq' }),
}

/** The rows that an operation would change, in its order. */
export const preview = async (
  c: Pick<Session, 'rows'>,
  t: Tables,
  kind: OperationKind,
  target: OperationTarget,
): Promise<readonly string[]> => {
  const { where, params } = matching(target)
  const { table, hint, condition, order } = CHOICES[kind](t, target)
  const join = asksForEvent(target) ? ` JOIN ${t.events} AS e ON e.id = d.event_id` : ''
  const rows = await c.rows(
    `SELECT d.id FROM ${t[table]} AS d${hint}${join} WHERE ${condition} AND ${where} ORDER BY ${order} LIMIT ?`,
    [...params, target.limit],
  )
  return rows.map(([id]) => asId(id))
}

/**
 * Looks first and locks then, by id and in order: a search that locks would lock what it only passes. What still is as
 * it was is asked once more: a statement that waited for a lock sees other tables as they were before it waited.
 */
const select = async (
  c: Session,
  t: Tables,
  kind: OperationKind,
  target: OperationTarget,
): Promise<readonly string[]> => {
  const ids = await preview(c, t, kind, target)
  if (ids.length === 0) return []
  const { table, condition } = CHOICES[kind](t, target)
  await c.rows(`SELECT d.id FROM ${rowsById(t[table], ids)} FOR UPDATE`)
  const found = await c.rows(
    `SELECT d.id FROM ${t[table]} AS d WHERE d.id IN (${idList(ids)}) AND ${condition}`,
  )
  const still = new Set(found.map(([id]) => asId(id)))
  return ids.filter((id) => still.has(id))
}

/** Writes copies of these deliveries as discarded; what becomes of the rows themselves is the caller's business. */
const archiveDiscarded = async (c: Session, t: Tables, ids: readonly string[], by: string): Promise<void> => {
  const list = idList(ids)
  const counts = await c.rows(
    `SELECT destination, COUNT(*) FROM ${t.deliveries} WHERE id IN (${list}) GROUP BY destination`,
  )
  await c.write(
    `INSERT INTO ${t.finished} (id, event_id, seq, destination, run, lane, ${KEY}, status, attempts, suspicions, size, created_at, finished_at, settled_by)
SELECT id, event_id, seq, destination, run, lane, ${KEY}, 4, attempts, suspicions, size, created_at, ${NOW}, ?
FROM ${t.deliveries} WHERE id IN (${list})`,
    [by],
  )
  for (const [destination, count] of counts)
    await c.write(addTotal(t, asText(destination), 0, asNumber(count)).sql)
}

/** Old id, new id and number of the next run of each, whatever became of the earlier ones. */
const nextRuns = async (
  c: Session,
  t: Tables,
  ids: readonly string[],
  table: 'deliveries' | 'finished',
  newId: () => string,
): Promise<string> => {
  const last = (from: 'deliveries' | 'finished'): string =>
    `COALESCE((SELECT MAX(r.run) FROM ${t[from]} AS r WHERE r.event_id = d.event_id AND r.destination = d.destination), 0)`
  const rows = await c.rows(
    `SELECT d.id, 1 + GREATEST(${last('deliveries')}, ${last('finished')}) FROM ${t[table]} AS d WHERE d.id IN (${idList(ids)})`,
  )
  return jsonTable(
    rows.map(([id, run]) => [uuidToHex(asId(id)), uuidToHex(newId()), asNumber(run)]),
    ['id CHAR(32)', 'new_id CHAR(32)', 'run INT'],
  )
}

const RENEWED = `d.status = 0, d.attempts = 0, d.suspicions = 0, d.available_at = ${NOW}, d.token = NULL, d.created_at = ${NOW},
  d.settled_by = NULL, d.settled_at = NULL, d.parked = 0`

/**
 * The row becomes its own next run: same place, nothing spent. If later rows wait for it in the database
 * they go on waiting, now for a row that will be sent.
 */
export const redrive = (
  db: MysqlDatabase,
  t: Tables,
  target: OperationTarget,
  act: OperatorAct,
  newId: () => string,
): Promise<number> =>
  db.transaction(async (c) => {
    const ids = await select(c, t, 'redrive', target)
    if (ids.length > 0) {
      await archiveDiscarded(c, t, ids, 'redrive')
      const runs = await nextRuns(c, t, ids, 'deliveries', newId)
      await c.write(
        `UPDATE ${runs} STRAIGHT_JOIN ${t.deliveries} AS d ON d.id = UNHEX(j.id) SET d.id = UNHEX(j.new_id), d.run = j.run, ${RENEWED}`,
      )
    }
    await writeAudit(c, t, 'redrive', target, ids.length, act)
    return ids.length
  })

/** The latest done run, and only while no other is unfinished or dead: repeating a replay adds nothing. */
const replayable = (t: Tables): string => `d.status = 1
  AND NOT EXISTS (SELECT 1 FROM ${t.finished} AS l WHERE l.event_id = d.event_id AND l.destination = d.destination AND l.status = 1 AND l.run > d.run)
  AND NOT EXISTS (SELECT 1 FROM ${t.deliveries} AS u WHERE u.event_id = d.event_id AND u.destination = d.destination)`

export const replay = (
  db: MysqlDatabase,
  t: Tables,
  target: OperationTarget,
  act: OperatorAct,
  newId: () => string,
): Promise<number> =>
  db.transaction(async (c) => {
    const ids = await select(c, t, 'replay', target)
    if (ids.length > 0) {
      const runs = await nextRuns(c, t, ids, 'finished', newId)
      await c.write(`INSERT INTO ${t.deliveries} (id, event_id, seq, destination, run, lane, ${KEY}, status, available_at, size, created_at)
SELECT UNHEX(j.new_id), d.event_id, d.seq, d.destination, j.run, d.lane, d.key, 0, ${NOW}, d.size, ${NOW}
FROM ${runs} STRAIGHT_JOIN ${t.finished} AS d ON d.id = UNHEX(j.id)`)
    }
    await writeAudit(c, t, 'replay', target, ids.length, act)
    return ids.length
  })

const NOT_CLAIMED = `NOT (d.status = 0 AND d.token IS NOT NULL AND d.suspicions = 0 AND d.available_at > ${NOW})`

export const discard = (
  db: MysqlDatabase,
  t: Tables,
  target: OperationTarget,
  act: OperatorAct,
): Promise<number> =>
  db.transaction(async (c) => {
    const ids = await select(c, t, 'discard', target)
    if (ids.length > 0) {
      const list = idList(ids)
      await archiveDiscarded(c, t, ids, 'discard')
      const holders = await c.rows(
        `SELECT DISTINCT destination, ${KEY} FROM ${t.deliveries} WHERE id IN (${list}) AND holds_key = 1`,
      )
      await c.write(`DELETE d FROM ${rowsById(t.deliveries, ids)}`)
      const keys: KeyOf[] = holders.map(([destination, key]) => ({
        destination: asText(destination),
        key: asText(key),
      }))
      for (const key of distinctKeys(keys)) await c.write(promotion(t, key, PROMOTE_LIMIT).sql)
    }
    await writeAudit(c, t, 'discard', target, ids.length, act)
    return ids.length
  })

const isEdited = async (
  c: Session,
  t: Tables,
  deliveryId: Uint8Array,
  eventId: Uint8Array,
): Promise<boolean> => {
  const found = await c.rows(
    `SELECT 1 FROM ${t.deliveries} WHERE id = ? AND event_id = ? UNION ALL SELECT 1 FROM ${t.finished} WHERE id = ? AND event_id = ?`,
    [deliveryId, eventId, deliveryId, eventId],
  )
  return found.length > 0
}

export const edit = (
  db: MysqlDatabase,
  t: Tables,
  deliveryId: string,
  replacement: NewEvent,
  newDeliveryId: string,
  act: OperatorAct,
): Promise<void> =>
  db.transaction(async (c) => {
    const eventId = uuidToBytes(replacement.id)
    const newId = uuidToBytes(newDeliveryId)
    if (await isEdited(c, t, newId, eventId)) return
    const [dead] = await c.rows(
      `SELECT event_id FROM ${t.deliveries} WHERE id = ? AND status = 3 FOR UPDATE`,
      [uuidToBytes(deliveryId)],
    )
    if (dead === undefined) {
      throw new StoreError(
        ERROR_CODES.conflict,
        `Delivery ${deliveryId} is not dead, so it cannot be edited.`,
        { deliveryId },
      )
    }
    const { sql, params } = eventStatement(t, { ...replacement, replacesId: asId(dead[0]) })
    await c.write(sql, params)
    await archiveDiscarded(c, t, [deliveryId], 'edit')
    await c.write(
      `UPDATE ${t.deliveries} AS d SET d.id = ?, d.event_id = ?, d.run = 1, d.size = ?, ${RENEWED} WHERE d.id = ?`,
      [newId, eventId, replacement.size, uuidToBytes(deliveryId)],
    )
    const target = { deliveryIds: [deliveryId], replacedBy: replacement.id }
    await writeAudit(c, t, 'edit', target, 1, act)
  })
