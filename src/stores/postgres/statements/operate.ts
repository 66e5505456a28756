/**
 * What operators do: redrive, replay, discard, edit. The rows are found first, without a lock; then one script
 * changes what is still as it was, together with its audit row, so that nothing is locked while we think.
 */
import { ERROR_CODES, StoreError } from '../../../core/errors.ts'
import type { NewEvent, OperationKind, OperationTarget, OperatorAct } from '../../../core/spi/index.ts'
import type { SqlValue } from '../../sql/sql-executor.ts'
import { asksForEvent, NO_TARGET } from '../../sql/targets.ts'
import type { PostgresDatabase, Row } from '../database.ts'
import type { PostgresTables } from '../tables.ts'
import { notWhileCleaning } from './cleanup.ts'
import { noteKeys, promoteNoted } from './hold.ts'
import { EVENT_COLUMNS, EVENT_RECORD, eventRecord, eventValues } from './insert.ts'
import { ASIDE, asNumber, asText, eventOf, fromMs, idList, NOW, sqlText } from './sql-text.ts'
import { addFinished } from './totals.ts'

/** After an operator's discard as many rows of a key go on at once as a settle would let. */
const PROMOTE_LIMIT = 100

/** `d` is the delivery, `e` its event. At least one field narrows the target: nobody means "everything". */
const matching = (target: OperationTarget, params: SqlValue[]): string => {
  const filters: string[] = []
  const bind = (value: SqlValue): string => `$${params.push(value)}`
  if (target.deliveryIds !== undefined)
    filters.push(`d.id = ANY(${bind(idList(target.deliveryIds))}::uuid[])`)
  if (target.eventIds !== undefined)
    filters.push(`d.event_id = ANY(${bind(idList(target.eventIds))}::uuid[])`)
  if (target.destination !== undefined) filters.push(`d.destination = ${bind(target.destination)}`)
  if (target.key !== undefined) filters.push(`d.key = ${bind(target.key)}`)
  if (target.type !== undefined) filters.push(`e.type = ${bind(target.type)}`)
  if (target.tenantId !== undefined) filters.push(`e.tenant_id = ${bind(target.tenantId)}`)
  if (target.storedFromMs !== undefined) filters.push(`e.created_at >= ${fromMs(bind(target.storedFromMs))}`)
  if (target.storedBeforeMs !== undefined)
    filters.push(`e.created_at < ${fromMs(bind(target.storedBeforeMs))}`)
  if (filters.length > 0) return filters.join(' AND ')
  throw new StoreError(ERROR_CODES.conflict, NO_TARGET)
}

interface Choice {
  readonly table: 'deliveries' | 'finished'
  readonly condition: string
  readonly order: string
}

/** What each operation may act on. */
const CHOICES: Readonly<Record<OperationKind, (t: PostgresTables) => Choice>> = {
  redrive: () => ({ table: 'deliveries', condition: `d.status = 3 AND ${ASIDE}`, order: 'd.seq' }),
  replay: (t) => ({ table: 'finished', condition: replayable(t), order: 'd.id' }),
  discard: () => ({ table: 'deliveries', condition: NOT_CLAIMED, order: 'd.seq' }),
}

/** The rows that an operation would change, in its order. */
export const preview = async (
  db: PostgresDatabase,
  t: PostgresTables,
  kind: OperationKind,
  target: OperationTarget,
): Promise<readonly string[]> => {
  const { table, condition, order } = CHOICES[kind](t)
  const params: SqlValue[] = [target.limit]
  const where = matching(target, params)
  const join = asksForEvent(target) ? ` CROSS JOIN ${eventOf(t, 'd.event_id')}` : ''
  const sql = `SELECT d.id FROM ${t[table]} AS d${join} WHERE ${condition} AND ${where} ORDER BY ${order} LIMIT $1::int`
  return (await db.rows(sql, params)).map(([id]) => asText(id))
}

/** The next run of an event for a destination, whatever became of the earlier ones. */
const nextRun = (t: PostgresTables): string => `1 + greatest(
    (SELECT max(r.run) FROM ${t.deliveries} AS r WHERE r.event_id = d.event_id AND r.destination = d.destination),
    (SELECT max(r.run) FROM ${t.finished} AS r WHERE r.event_id = d.event_id AND r.destination = d.destination))`

/** `from` has the deliveries as they were; $1 says what happened to them. */
const archive = (t: PostgresTables, from: string): string => `archived AS (
  INSERT INTO ${t.finished} (id, event_id, seq, destination, run, lane, key, status, attempts, suspicions, size, created_at, finished_at, settled_by)
  SELECT id, event_id, seq, destination, run, lane, key, 4, attempts, suspicions, size, created_at, clock_timestamp(), $1
  FROM ${from}
), totals AS (
  ${addFinished(t, `SELECT destination, 0 AS done, count(*) AS discarded FROM ${from} GROUP BY destination`)}
)`

/** $1 to $4 are the same in every operation; the count is of what was really changed. */
const audit = (t: PostgresTables, from: string): string =>
  `INSERT INTO ${t.audit} (at, actor, action, reason, target, count)
SELECT ${NOW}, $2, $1, $3, $4, (SELECT count(*) FROM ${from}) RETURNING count`

const auditParams = (action: string, target: object, { actor, reason }: OperatorAct): SqlValue[] => [
  action,
  actor,
  reason,
  JSON.stringify(target),
]

const countOf = (rows: readonly Row[] | undefined): number => asNumber(rows?.[0]?.[0] ?? 0)

const DEAD_ROWS = (t: PostgresTables, ids: string): string =>
  `dead AS MATERIALIZED (SELECT * FROM ${t.deliveries} WHERE id = ${ids} AND status = 3 ORDER BY id FOR UPDATE)`

/**
 * The row becomes its own next run: same place, nothing spent. If later rows wait for it in the database
 * they go on waiting, now for a row that will be sent.
 */
const REDRIVE = sqlText(
  (t) => `WITH ${DEAD_ROWS(t, 'ANY($5::uuid[])')}, ${archive(t, 'dead')}, redriven AS (
  UPDATE ${t.deliveries} AS d SET id = ($6::jsonb ->> d.id::text)::uuid, run = ${nextRun(t)}, status = 0, attempts = 0,
    suspicions = 0, available_at = ${NOW}, token = NULL, created_at = ${NOW}, settled_by = NULL, settled_at = NULL
  WHERE d.id = ANY(ARRAY(SELECT id FROM dead)) AND d.status = 3 RETURNING 1
)
${audit(t, 'redriven')}`,
)

const newIdsOf = (ids: readonly string[], newId: () => string): string =>
  JSON.stringify(Object.fromEntries(ids.map((id) => [id, newId()])))

export const redrive = async (
  db: PostgresDatabase,
  t: PostgresTables,
  target: OperationTarget,
  act: OperatorAct,
  newId: () => string,
): Promise<number> => {
  const ids = await preview(db, t, 'redrive', target)
  const params = [...auditParams('redrive', target, act), idList(ids), newIdsOf(ids, newId)]
  return countOf(await db.rows(REDRIVE(t), params))
}

/** The latest done run, and only while no other is unfinished or dead: repeating a replay adds nothing. */
const replayable = (t: PostgresTables): string => `d.status = 1
  AND NOT EXISTS (SELECT 1 FROM ${t.finished} AS l WHERE l.event_id = d.event_id AND l.destination = d.destination AND l.status = 1 AND l.run > d.run)
  AND NOT EXISTS (SELECT 1 FROM ${t.deliveries} AS u WHERE u.event_id = d.event_id AND u.destination = d.destination)`

const REPLAY = sqlText(
  (t) => `WITH replayed AS (
  INSERT INTO ${t.deliveries} (id, event_id, seq, destination, run, lane, key, status, available_at, size, created_at)
  SELECT ($6::jsonb ->> d.id::text)::uuid, d.event_id, d.seq, d.destination, ${nextRun(t)}, d.lane, d.key, 0, ${NOW}, d.size, ${NOW}
  FROM ${t.finished} AS d WHERE d.id = ANY($5::uuid[]) AND ${replayable(t)}
  ON CONFLICT (event_id, destination, run) DO NOTHING RETURNING 1
)
${audit(t, 'replayed')}`,
)

export const replay = async (
  db: PostgresDatabase,
  t: PostgresTables,
  target: OperationTarget,
  act: OperatorAct,
  newId: () => string,
): Promise<number> => {
  const ids = await preview(db, t, 'replay', target)
  const params = [...auditParams('replay', target, act), idList(ids), newIdsOf(ids, newId)]
  const [, replayed] = await db.script([notWhileCleaning(t), { sql: REPLAY(t), params }])
  return countOf(replayed)
}

const NOT_CLAIMED = `NOT (d.status = 0 AND d.token IS NOT NULL AND d.suspicions = 0 AND d.available_at > ${NOW})`

const DISCARD = sqlText(
  (t) => `WITH gone AS (
  DELETE FROM ${t.deliveries} AS d WHERE d.id = ANY($5::uuid[]) AND ${NOT_CLAIMED} RETURNING d.*
), ${archive(t, 'gone')}, noted AS MATERIALIZED (${noteKeys('gone WHERE holds_key')})
INSERT INTO ${t.audit} (at, actor, action, reason, target, count)
SELECT ${NOW}, $2, $1, $3, $4, (SELECT count(*) FROM gone) FROM noted RETURNING count`,
)

export const discard = async (
  db: PostgresDatabase,
  t: PostgresTables,
  target: OperationTarget,
  act: OperatorAct,
): Promise<number> => {
  const ids = await preview(db, t, 'discard', target)
  const [discarded] = await db.script([
    { sql: DISCARD(t), params: [...auditParams('discard', target, act), idList(ids)] },
    ...promoteNoted(t, PROMOTE_LIMIT),
  ])
  return countOf(discarded)
}

const EDITED = sqlText(
  (t) => `SELECT 1 FROM ${t.deliveries} WHERE id = $1::uuid AND event_id = $2::uuid
UNION ALL SELECT 1 FROM ${t.finished} WHERE id = $1::uuid AND event_id = $2::uuid`,
)

const EDIT = sqlText(
  (t) => `WITH t AS MATERIALIZED (SELECT clock_timestamp() AS now, pg_current_xact_id() AS xid),
${DEAD_ROWS(t, '$5::uuid')}, ${archive(t, 'dead')}, e AS (
  INSERT INTO ${t.events} (${EVENT_COLUMNS})
  SELECT ${eventValues('r', 'dead.event_id')}
  FROM t CROSS JOIN dead CROSS JOIN json_to_recordset($6::json) AS r(${EVENT_RECORD}) RETURNING id, size
), edited AS (
  UPDATE ${t.deliveries} AS d SET id = $7::uuid, event_id = e.id, run = 1, size = e.size, status = 0, attempts = 0,
    suspicions = 0, available_at = ${NOW}, token = NULL, created_at = ${NOW}, settled_by = NULL, settled_at = NULL
  FROM e WHERE d.id = $5::uuid AND d.status = 3 RETURNING 1
)
${audit(t, 'edited')}`,
)

export const edit = async (
  db: PostgresDatabase,
  t: PostgresTables,
  deliveryId: string,
  replacement: NewEvent,
  newDeliveryId: string,
  act: OperatorAct,
): Promise<void> => {
  const edited = { deliveryIds: [deliveryId], replacedBy: replacement.id }
  await db.transaction(async (session) => {
    if ((await session.rows(EDITED(t), [newDeliveryId, replacement.id])).length > 0) return
    const params = [
      ...auditParams('edit', edited, act),
      deliveryId,
      JSON.stringify([eventRecord(replacement, 0)]),
      newDeliveryId,
    ]
    if (countOf(await session.rows(EDIT(t), params)) === 0) {
      throw new StoreError(
        ERROR_CODES.conflict,
        `Delivery ${deliveryId} is not dead, so it cannot be edited.`,
        { deliveryId },
      )
    }
  })
}
