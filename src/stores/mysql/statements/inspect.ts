/** What operators look at beside the pages of deliveries. */
import { ERROR_CODES, StoreError } from '../../../core/errors.ts'
import {
  DELIVERY_STATUS,
  type DeliveryStatus,
  type EventRecord,
  statusName,
  UNROUTED,
  uuidToBytes,
} from '../../../core/model/index.ts'
import type {
  BlockedKey,
  DestinationCounts,
  EventDetail,
  LaneView,
  WorkerView,
} from '../../../core/spi/index.ts'
import type { Tables } from '../../sql/identifiers.ts'
import { readBreakers } from '../../sql/open-breakers.ts'
import type { MysqlDatabase, Row } from '../database.ts'
import { literal } from '../script.ts'
import { decodeView, viewSelect } from './delivery-view.ts'
import { decodeEvent, EVENT_FIELDS } from './event-row.ts'
import { asId, asMs, asNumber, asText, asTextOrNull, msBetween, NOW, one } from './sql-text.ts'
import { readTotals } from './totals.ts'

const readable = (row: Row): EventRecord => {
  const decoded = decodeEvent(row, 0)
  if (decoded.event !== null) return decoded.event
  const eventId = asId(row[0])
  throw new StoreError(ERROR_CODES.undecodable, `Event ${eventId}: ${decoded.problem}`, { eventId })
}

export const eventOfDelivery = async (
  db: MysqlDatabase,
  t: Tables,
  deliveryId: string,
): Promise<EventRecord | null> => {
  const id = uuidToBytes(deliveryId)
  const [row] = await db.rows(
    `SELECT ${EVENT_FIELDS} FROM ${t.events} AS e WHERE e.id = COALESCE(
  (SELECT event_id FROM ${t.deliveries} WHERE id = ?), (SELECT event_id FROM ${t.finished} WHERE id = ?))`,
    [id, id],
  )
  return row === undefined ? null : readable(row)
}

export const event = async (db: MysqlDatabase, t: Tables, eventId: string): Promise<EventDetail | null> => {
  const id = uuidToBytes(eventId)
  const answers = await db.snapshot([
    // First, because it reads all that may be moved.
    one(
      `(${viewSelect(t, 'deliveries')} WHERE d.event_id = ?)\nUNION ALL (${viewSelect(t, 'finished')} WHERE d.event_id = ?) ORDER BY 4, 5`,
      [id, id],
    ),
    one(`SELECT ${EVENT_FIELDS} FROM ${t.events} AS e WHERE e.id = ?`, [id]),
    one(
      `SELECT a.delivery_id, a.attempt, a.at, a.worker, a.duration_ms, a.code, a.message, a.stack
FROM (SELECT id FROM ${t.deliveries} WHERE event_id = ? UNION ALL SELECT id FROM ${t.finished} WHERE event_id = ?) AS d
STRAIGHT_JOIN ${t.attempts} AS a ON a.delivery_id = d.id ORDER BY a.delivery_id, a.attempt`,
      [id, id],
    ),
  ])
  const [deliveries = [], [row] = [], attempts = []] = answers.map(({ rows }) => rows)
  if (row === undefined) return null
  return {
    event: readable(row),
    deliveries: deliveries.map(decodeView),
    attempts: attempts.map((attempt) => ({
      deliveryId: asId(attempt[0]),
      attempt: asNumber(attempt[1]),
      atMs: asMs(attempt[2]),
      worker: asText(attempt[3]),
      durationMs: asNumber(attempt[4]),
      code: asTextOrNull(attempt[5]),
      message: asText(attempt[6]),
      stack: asTextOrNull(attempt[7]),
    })),
  }
}

/** Dead rows that hold their key have states of their own. */
const statusOfState = (state: number): DeliveryStatus => statusName(state >= 7 ? DELIVERY_STATUS.dead : state)

const noCounts = (): Record<DeliveryStatus, number> =>
  Object.fromEntries(Object.keys(DELIVERY_STATUS).map((name) => [name, 0])) as Record<DeliveryStatus, number>

/**
 * The lowest pending row, the longest due retry or scheduled one, and the lowest dead head that blocks its key;
 * claimed, held, parked and other dead ones do not count. Who was delayed began to wait when it was due.
 */
const lag = (t: Tables, destination: string): string => {
  const first = (index: 'due' | 'fresh', state: number, since: string, order: string, where = ''): string =>
    `(SELECT ${msBetween(since, NOW)} FROM ${t.deliveries} FORCE INDEX (${index}) WHERE destination = ${literal(destination)} AND state = ${state}${where} ORDER BY ${order} LIMIT 1)`
  const isDue = ` AND available_at <= ${NOW}`
  return `SELECT ${[
    first('fresh', 0, 'IF(token IS NULL, available_at, created_at)', 'seq', isDue),
    first('due', 2, 'available_at', 'available_at', isDue),
    first('due', 5, 'available_at', 'available_at', isDue),
    first('fresh', 7, 'created_at', 'seq'),
  ].join(',\n')}`
}

export const counts = async (db: MysqlDatabase, t: Tables): Promise<readonly DestinationCounts[]> => {
  const byDestination = new Map<string, Record<DeliveryStatus, number>>()
  const entryOf = (destination: string): Record<DeliveryStatus, number> => {
    const entry = byDestination.get(destination) ?? noCounts()
    byDestination.set(destination, entry)
    return entry
  }
  const rows =
    await db.rows(`SELECT destination, state, COUNT(*) FROM ${t.deliveries} FORCE INDEX (fresh) GROUP BY destination, state
UNION ALL SELECT name, 0, 0 FROM ${t.destinations}`)
  for (const [name, state, count] of rows)
    entryOf(asText(name))[statusOfState(asNumber(state))] += asNumber(count)
  for (const { destination, done, discarded } of await readTotals(db, t)) {
    Object.assign(entryOf(destination), { done, discarded })
  }
  const names = [...byDestination.keys()].sort()
  const lags = await db.script(names.map((name) => one(lag(t, name))))
  return names.map((destination, i) => {
    const known = (lags[i]?.rows[0] ?? []).filter((age) => age !== null).map(asNumber)
    return {
      destination,
      counts: entryOf(destination),
      oldestLagMs: known.length === 0 ? null : Math.max(0, ...known),
    }
  })
}

/** Only heads that really keep somebody waiting; a retry with nothing behind it is not a blocked key. */
export const blockedKeys = async (
  db: MysqlDatabase,
  t: Tables,
  query: { readonly destination?: string; readonly limit: number },
): Promise<readonly BlockedKey[]> => {
  const waiting = (holdsKey: 0 | 1, status: number): string =>
    `(SELECT COUNT(*) FROM ${t.deliveries} AS r WHERE r.destination = d.destination AND r.key = d.key AND r.holds_key = ${holdsKey} AND r.status = ${status} AND r.seq > d.seq)`
  const filter = query.destination === undefined ? '' : ` AND d.destination = ${literal(query.destination)}`
  const rows = await db.rows(`SELECT * FROM (
  SELECT d.destination, d.key, d.id, d.status, d.attempts,
    ${waiting(0, 0)} + ${waiting(1, 0)} + ${waiting(1, 6)} AS waiting
  FROM ${t.deliveries} AS d FORCE INDEX (by_status)
  WHERE d.status IN (2, 3) AND d.holds_key = 1${filter}
    AND NOT EXISTS (SELECT 1 FROM ${t.deliveries} AS h WHERE h.destination = d.destination AND h.key = d.key
      AND h.holds_key = 1 AND h.status IN (2, 3) AND h.seq < d.seq)
) AS b WHERE b.waiting > 0 LIMIT ${query.limit}`)
  return rows.map((row) => ({
    destination: asText(row[0]),
    key: asText(row[1]),
    headDeliveryId: asId(row[2]),
    headStatus: statusName(asNumber(row[3])),
    headAttempts: asNumber(row[4]),
    waiting: asNumber(row[5]),
  }))
}

export const workers = async (db: MysqlDatabase, t: Tables): Promise<readonly WorkerView[]> => {
  const rows =
    await db.rows(`SELECT w.id, w.name, w.started_at, ${msBetween(NOW, 'w.expires_at')}, w.fenced, w.destinations,
  (SELECT COUNT(*) FROM ${t.lanes} AS l WHERE l.worker_id = w.id AND l.lane >= 0), w.breakers, w.expires_at
FROM ${t.workers} AS w ORDER BY w.started_at`)
  return rows.map((row) => ({
    workerId: asText(row[0]),
    name: asText(row[1]),
    startedAtMs: asMs(row[2]),
    expiresInMs: Math.max(0, asNumber(row[3])),
    fenced: asNumber(row[4]) === 1,
    destinations: JSON.parse(asText(row[5])) as string[],
    lanes: asNumber(row[6]),
    openBreakers: readBreakers(asTextOrNull(row[7]), asMs(row[8])),
  }))
}

/** Lanes of '*' are locks and have no owner, like duties. */
export const lanes = async (
  db: MysqlDatabase,
  t: Tables,
  { destination }: { readonly destination?: string },
): Promise<readonly LaneView[]> => {
  const rows = await db.rows(
    `SELECT l.destination, l.lane, l.worker_id, ${msBetween(NOW, 'w.expires_at')} FROM ${t.lanes} AS l
LEFT JOIN ${t.workers} AS w ON w.id = l.worker_id
WHERE l.lane >= 0 AND l.destination <> '${UNROUTED}' AND (? IS NULL OR l.destination = ?) ORDER BY l.destination, l.lane`,
    [destination ?? null, destination ?? null],
  )
  return rows.map((row) => ({
    destination: asText(row[0]),
    lane: asNumber(row[1]),
    workerId: asTextOrNull(row[2]),
    expiresInMs: row[3] === null ? null : Math.max(0, asNumber(row[3])),
  }))
}
