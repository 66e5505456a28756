/** What operators do: redrive, replay, discard, edit. Each in one transaction with its audit row. */
import { ERROR_CODES, StoreError } from '../../../core/errors.ts'
import { uuidToBytes, uuidToHex } from '../../../core/model/index.ts'
import type { NewEvent, OperationKind, OperationTarget, OperatorAct } from '../../../core/spi/index.ts'
import type { Tables } from '../../sql/identifiers.ts'
import type { SqlValue } from '../../sql/sql-executor.ts'
import { asksForEvent, NO_TARGET } from '../../sql/targets.ts'
import type { SqliteConnection } from '../connection.ts'
import { writeAudit } from './audit.ts'
import { type KeyOf, promote } from './hold.ts'
import { eventStatement } from './insert.ts'
import { asId, asNumber, asText, IDS, idList, NOW, sqlText } from './sql-text.ts'
import { archiveDiscarded } from './totals.ts'

/** After an operator's discard as many rows of a key go on at once as a settle would let. */
const PROMOTE_LIMIT = 100

/** `d` is the delivery, `e` its event. At least one field narrows the target: nobody means "everything". */
const matching = (
  target: OperationTarget,
): { readonly where: string; readonly params: readonly SqlValue[] } => {
  const filters: [string, SqlValue][] = []
  if (target.deliveryIds !== undefined) filters.push([`d.id IN ${IDS}`, idList(target.deliveryIds)])
  if (target.eventIds !== undefined) filters.push([`d.event_id IN ${IDS}`, idList(target.eventIds)])
  if (target.destination !== undefined) filters.push(['d.destination = ?', target.destination])
  if (target.key !== undefined) filters.push(['d.key = ?', target.key])
  if (target.type !== undefined) filters.push(['e.type = ?', target.type])
  if (target.tenantId !== undefined) filters.push(['e.tenant_id = ?', target.tenantId])
  if (target.storedFromMs !== undefined) filters.push(['e.created_at >= ?', target.storedFromMs])
  if (target.storedBeforeMs !== undefined) filters.push(['e.created_at < ?', target.storedBeforeMs])
  if (filters.length === 0) {
    throw new StoreError(ERROR_CODES.conflict, NO_TARGET)
  }
  return { where: filters.map(([text]) => text).join(' AND '), params: filters.map(([, value]) => value) }
}

interface Choice {
  readonly table: 'deliveries' | 'finished'
  readonly condition: string
  readonly order: string
}

/** What each operation may act on. */
const CHOICES: Readonly<Record<OperationKind, (t: Tables) => Choice>> = {
  redrive: () => ({
    table: 'deliveries',
    condition: 'd.status = 3 AND d.status IN (2, 3, 5, 6)',
    order: 'd.seq',
  }),
  replay: (t) => ({ table: 'finished', condition: replayable(t), order: 'd.id' }),
  discard: () => ({ table: 'deliveries', condition: NOT_CLAIMED, order: 'd.seq' }),
}

/** The rows that an operation would change, in its order. */
export const preview = (
  c: SqliteConnection,
  t: Tables,
  kind: OperationKind,
  target: OperationTarget,
): readonly string[] => {
  const { table, condition, order } = CHOICES[kind](t)
  const { where, params } = matching(target)
  const join = asksForEvent(target) ? ` JOIN ${t.events} AS e ON e.id = d.event_id` : ''
  const sql = `SELECT d.id FROM ${t[table]} AS d${join} WHERE ${condition} AND ${where} ORDER BY ${order} LIMIT ?`
  return c.rows(sql, [...params, target.limit]).map(([id]) => asId(id))
}

/** The next run of an event for a destination, whatever became of the earlier ones. */
const nextRun = (t: Tables): string => `1 + max(
  coalesce((SELECT max(r.run) FROM ${t.deliveries} AS r WHERE r.event_id = d.event_id AND r.destination = d.destination), 0),
  coalesce((SELECT max(r.run) FROM ${t.finished} AS r WHERE r.event_id = d.event_id AND r.destination = d.destination), 0))`

/**
 * The row becomes its own next run: same place, nothing spent. If later rows wait for it in the database
 * they go on waiting, now for a row that will be sent.
 */
const NEW_RUN = sqlText(
  (
    t,
  ) => `UPDATE ${t.deliveries} AS d SET id = j.new_id, run = ${nextRun(t)}, status = 0, attempts = 0, suspicions = 0,
  available_at = ${NOW}, token = NULL, created_at = ${NOW}, settled_by = NULL, settled_at = NULL
FROM (SELECT unhex(value->>0) AS id, unhex(value->>1) AS new_id FROM json_each(?)) AS j
WHERE d.id = j.id AND d.status = 3`,
)

const pairs = (ids: readonly string[], newId: () => string): string =>
  JSON.stringify(ids.map((id) => [uuidToHex(id), uuidToHex(newId())]))

export const redrive = (
  c: SqliteConnection,
  t: Tables,
  target: OperationTarget,
  act: OperatorAct,
  newId: () => string,
): number => {
  const ids = preview(c, t, 'redrive', target)
  if (ids.length > 0) {
    archiveDiscarded(c, t, idList(ids), 'redrive')
    c.rows(NEW_RUN(t), [pairs(ids, newId)])
  }
  writeAudit(c, t, 'redrive', target, ids.length, act)
  return ids.length
}

const REPLAY = sqlText(
  (
    t,
  ) => `INSERT INTO ${t.deliveries} (id, event_id, seq, destination, run, lane, key, status, available_at, size, created_at)
SELECT unhex(j.value->>1), d.event_id, d.seq, d.destination, ${nextRun(t)}, d.lane, d.key, 0, ${NOW}, d.size, ${NOW}
FROM json_each(?) AS j CROSS JOIN ${t.finished} AS d ON d.id = unhex(j.value->>0)`,
)

/** The latest done run, and only while no other is unfinished or dead: repeating a replay adds nothing. */
const replayable = (t: Tables): string => `d.status = 1
  AND NOT EXISTS (SELECT 1 FROM ${t.finished} AS l WHERE l.event_id = d.event_id AND l.destination = d.destination AND l.status = 1 AND l.run > d.run)
  AND NOT EXISTS (SELECT 1 FROM ${t.deliveries} AS u WHERE u.event_id = d.event_id AND u.destination = d.destination)`

export const replay = (
  c: SqliteConnection,
  t: Tables,
  target: OperationTarget,
  act: OperatorAct,
  newId: () => string,
): number => {
  const ids = preview(c, t, 'replay', target)
  if (ids.length > 0) c.rows(REPLAY(t), [pairs(ids, newId)])
  writeAudit(c, t, 'replay', target, ids.length, act)
  return ids.length
}

const REMOVE = sqlText(
  (t) => `DELETE FROM ${t.deliveries} WHERE id IN ${IDS} RETURNING destination, key, holds_key`,
)

const NOT_CLAIMED = `NOT (d.status = 0 AND d.token IS NOT NULL AND d.suspicions = 0 AND d.available_at > ${NOW})`

export const discard = (
  c: SqliteConnection,
  t: Tables,
  target: OperationTarget,
  act: OperatorAct,
): number => {
  const ids = preview(c, t, 'discard', target)
  if (ids.length > 0) {
    const list = idList(ids)
    archiveDiscarded(c, t, list, 'discard')
    const keys: KeyOf[] = c
      .rows(REMOVE(t), [list])
      .filter(([, , holdsKey]) => asNumber(holdsKey) === 1)
      .map(([destination, key]) => ({ destination: asText(destination), key: asText(key) }))
    promote(c, t, keys, PROMOTE_LIMIT)
  }
  writeAudit(c, t, 'discard', target, ids.length, act)
  return ids.length
}

const DEAD = sqlText((t) => `SELECT event_id FROM ${t.deliveries} WHERE id = ? AND status = 3`)

const EDITED = sqlText(
  (t) => `SELECT 1 FROM ${t.deliveries} WHERE id = ? AND event_id = ?
UNION ALL SELECT 1 FROM ${t.finished} WHERE id = ? AND event_id = ?`,
)

const REPLACE = sqlText(
  (
    t,
  ) => `UPDATE ${t.deliveries} SET id = ?, event_id = ?, run = 1, size = ?, status = 0, attempts = 0, suspicions = 0,
  available_at = ${NOW}, token = NULL, created_at = ${NOW}, settled_by = NULL, settled_at = NULL
WHERE id = ? AND status = 3`,
)

export const edit = (
  c: SqliteConnection,
  t: Tables,
  deliveryId: string,
  replacement: NewEvent,
  newDeliveryId: string,
  act: OperatorAct,
): void => {
  const [oldId, newId, eventId] = [deliveryId, newDeliveryId, replacement.id].map(uuidToBytes) as [
    Uint8Array,
    Uint8Array,
    Uint8Array,
  ]
  if (c.rows(EDITED(t), [newId, eventId, newId, eventId]).length > 0) return
  const [dead] = c.rows(DEAD(t), [oldId])
  if (dead === undefined) {
    throw new StoreError(
      ERROR_CODES.conflict,
      `Delivery ${deliveryId} is not dead, so it cannot be edited.`,
      { deliveryId },
    )
  }
  const { sql, params } = eventStatement(t, { ...replacement, replacesId: asId(dead[0]) })
  c.rows(sql, params)
  archiveDiscarded(c, t, idList([deliveryId]), 'edit')
  c.rows(REPLACE(t), [newId, eventId, replacement.size, oldId])
  writeAudit(c, t, 'edit', { deliveryIds: [deliveryId], replacedBy: replacement.id }, 1, act)
}
