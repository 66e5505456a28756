/** What operators look at beside the pages of deliveries. */

import { ERROR_CODES, StoreError } from '../../../core/errors.ts'
import {
  DELIVERY_STATUS,
  type DeliveryStatus,
  type EventRecord,
  statusName,
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
import type { SqliteConnection } from '../connection.ts'
import { decodeView, viewSelect } from './delivery-view.ts'
import { decodeEvent, EVENT_FIELDS } from './event-row.ts'
import { asId, asNumber, asText, asTextOrNull, NOW, sqlText } from './sql-text.ts'
import { readTotals } from './totals.ts'

const EVENT = sqlText((t) => `SELECT ${EVENT_FIELDS} FROM ${t.events} AS e WHERE e.id = ?`)

const DELIVERIES = sqlText(
  (t) => `${viewSelect(t, 'deliveries')} WHERE d.event_id = ?
UNION ALL ${viewSelect(t, 'finished')} WHERE d.event_id = ?
ORDER BY 4, 5`,
)

const ATTEMPTS = sqlText(
  (t) => `SELECT a.delivery_id, a.attempt, a.at, a.worker, a.duration_ms, a.code, a.message, a.stack
FROM (SELECT id FROM ${t.deliveries} WHERE event_id = ? UNION ALL SELECT id FROM ${t.finished} WHERE event_id = ?) AS d
CROSS JOIN ${t.attempts} AS a ON a.delivery_id = d.id ORDER BY a.delivery_id, a.attempt`,
)

const BY_DELIVERY = sqlText(
  (t) => `SELECT ${EVENT_FIELDS} FROM ${t.events} AS e WHERE e.id = coalesce(
  (SELECT event_id FROM ${t.deliveries} WHERE id = ?), (SELECT event_id FROM ${t.finished} WHERE id = ?))`,
)

const readable = (row: readonly unknown[]): EventRecord => {
  const decoded = decodeEvent(row, 0)
  if (decoded.event !== null) return decoded.event
  const eventId = asId(row[0])
  throw new StoreError(ERROR_CODES.undecodable, `Event ${eventId}: ${decoded.problem}`, { eventId })
}

export const eventOfDelivery = (c: SqliteConnection, t: Tables, deliveryId: string): EventRecord | null => {
  const id = uuidToBytes(deliveryId)
  const [row] = c.rows(BY_DELIVERY(t), [id, id])
  return row === undefined ? null : readable(row)
}

export const event = (c: SqliteConnection, t: Tables, eventId: string): EventDetail | null => {
  const id = uuidToBytes(eventId)
  const [row] = c.rows(EVENT(t), [id])
  if (row === undefined) return null
  const attempts = c.rows(ATTEMPTS(t), [id, id]).map((attempt) => ({
    deliveryId: asId(attempt[0]),
    attempt: asNumber(attempt[1]),
    atMs: asNumber(attempt[2]),
    worker: asText(attempt[3]),
    durationMs: asNumber(attempt[4]),
    code: asTextOrNull(attempt[5]),
    message: asText(attempt[6]),
    stack: asTextOrNull(attempt[7]),
  }))
  return { event: readable(row), deliveries: c.rows(DELIVERIES(t), [id, id]).map(decodeView), attempts }
}

/** Pending rows are counted in the index that reads use, the others in the one that has only them. */
const COUNTS = sqlText(
  (t) => `SELECT destination, 0, count(*) FROM ${t.deliveries} WHERE status = 0 GROUP BY destination
UNION ALL SELECT destination, status, count(*) FROM ${t.deliveries} WHERE status IN (2, 3, 5, 6) GROUP BY destination, status
UNION ALL SELECT name, 0, 0 FROM ${t.destinations}`,
)

/**
 * The lowest pending row, the longest due retry or scheduled one, and the lowest dead head that blocks its key;
 * claimed, held, parked and other dead ones do not count. Who was delayed began to wait when it was due.
 */
const LAG = sqlText(
  (t) => `SELECT j.value,
  (SELECT ${NOW} - CASE WHEN token IS NULL THEN available_at ELSE created_at END FROM ${t.deliveries} WHERE destination = j.value AND status = 0 AND available_at <= ${NOW} ORDER BY seq LIMIT 1),
  (SELECT ${NOW} - available_at FROM ${t.deliveries} WHERE destination = j.value AND status = 2 AND available_at <= ${NOW} ORDER BY available_at LIMIT 1),
  (SELECT ${NOW} - available_at FROM ${t.deliveries} WHERE destination = j.value AND status = 5 AND available_at <= ${NOW} ORDER BY available_at LIMIT 1),
  (SELECT ${NOW} - created_at FROM ${t.deliveries} WHERE destination = j.value AND status = 3 AND holds_key = 1 AND parked = 0 ORDER BY seq LIMIT 1)
FROM json_each(?) AS j`,
)

const noCounts = (): Record<DeliveryStatus, number> =>
  Object.fromEntries(Object.keys(DELIVERY_STATUS).map((name) => [name, 0])) as Record<DeliveryStatus, number>

export const counts = (c: SqliteConnection, t: Tables): readonly DestinationCounts[] => {
  const byDestination = new Map<string, Record<DeliveryStatus, number>>()
  const entryOf = (destination: string): Record<DeliveryStatus, number> => {
    const entry = byDestination.get(destination) ?? noCounts()
    byDestination.set(destination, entry)
    return entry
  }
  for (const [name, status, count] of c.rows(COUNTS(t))) {
    entryOf(asText(name))[statusName(asNumber(status))] += asNumber(count)
  }
  for (const { destination, done, discarded } of readTotals(c, t)) {
    Object.assign(entryOf(destination), { done, discarded })
  }
  const names = JSON.stringify([...byDestination.keys()])
  const lags = new Map(
    c.rows(LAG(t), [names]).map(([name, ...ages]) => {
      const known = ages.filter((age) => age !== null).map(asNumber)
      return [asText(name), known.length === 0 ? null : Math.max(0, ...known)] as const
    }),
  )
  return [...byDestination]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([destination, entry]) => ({
      destination,
      counts: entry,
      oldestLagMs: lags.get(destination) ?? null,
    }))
}

/** Only heads that really keep somebody waiting; a retry with nothing behind it is not a blocked key. */
const BLOCKED = sqlText(
  (t) => `SELECT * FROM (
  SELECT d.destination, d.key, d.id, d.status, d.attempts,
    (SELECT count(*) FROM ${t.deliveries} AS r WHERE r.destination = d.destination AND r.key = d.key AND r.seq > d.seq
      AND r.key IS NOT NULL AND r.status = 0 AND r.holds_key = 0)
    + (SELECT count(*) FROM ${t.deliveries} AS r WHERE r.destination = d.destination AND r.key = d.key AND r.seq > d.seq
      AND r.holds_key = 1 AND r.status IN (0, 6)) AS waiting
  FROM ${t.deliveries} AS d
  WHERE d.status IN (2, 3, 5, 6) AND d.status IN (2, 3) AND d.holds_key = 1 AND (? IS NULL OR d.destination = ?)
    AND NOT EXISTS (SELECT 1 FROM ${t.deliveries} AS h WHERE h.destination = d.destination AND h.key = d.key
      AND h.holds_key = 1 AND h.status IN (2, 3) AND h.seq < d.seq)
) WHERE waiting > 0 LIMIT ?`,
)

export const blockedKeys = (
  c: SqliteConnection,
  t: Tables,
  query: { readonly destination?: string; readonly limit: number },
): readonly BlockedKey[] =>
  c.rows(BLOCKED(t), [query.destination ?? null, query.destination ?? null, query.limit]).map((row) => ({
    destination: asText(row[0]),
    key: asText(row[1]),
    headDeliveryId: asId(row[2]),
    headStatus: statusName(asNumber(row[3])),
    headAttempts: asNumber(row[4]),
    waiting: asNumber(row[5]),
  }))

const WORKERS = sqlText(
  (t) => `SELECT w.id, w.name, w.started_at, w.expires_at - ${NOW}, w.fenced, w.destinations,
  (SELECT count(*) FROM ${t.lanes} AS l WHERE l.worker_id = w.id AND l.lane >= 0), w.breakers, w.expires_at
FROM ${t.workers} AS w ORDER BY w.started_at`,
)

export const workers = (c: SqliteConnection, t: Tables): readonly WorkerView[] =>
  c.rows(WORKERS(t)).map((row) => ({
    workerId: asText(row[0]),
    name: asText(row[1]),
    startedAtMs: asNumber(row[2]),
    expiresInMs: Math.max(0, asNumber(row[3])),
    fenced: asNumber(row[4]) === 1,
    destinations: JSON.parse(asText(row[5])) as string[],
    lanes: asNumber(row[6]),
    openBreakers: readBreakers(asTextOrNull(row[7]), asNumber(row[8])),
  }))

const LANES_OF = sqlText(
  (t) => `SELECT l.destination, l.lane, l.worker_id, max(0, w.expires_at - ${NOW}) FROM ${t.lanes} AS l
LEFT JOIN ${t.workers} AS w ON w.id = l.worker_id
WHERE l.lane >= 0 AND (? IS NULL OR l.destination = ?) ORDER BY l.destination, l.lane`,
)

export const lanes = (
  c: SqliteConnection,
  t: Tables,
  { destination }: { readonly destination?: string },
): readonly LaneView[] =>
  c.rows(LANES_OF(t), [destination ?? null, destination ?? null]).map((row) => ({
    destination: asText(row[0]),
    lane: asNumber(row[1]),
    workerId: asTextOrNull(row[2]),
    expiresInMs: row[3] === null ? null : asNumber(row[3]),
  }))
