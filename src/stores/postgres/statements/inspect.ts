/** What operators look at beside the pages of deliveries. */
import { ERROR_CODES, StoreError } from '../../../core/errors.ts'
import {
  DELIVERY_STATUS,
  type DeliveryStatus,
  type EventRecord,
  isUuid,
  statusName,
} from '../../../core/model/index.ts'
import type {
  BlockedKey,
  DestinationCounts,
  EventDetail,
  LaneView,
  WorkerView,
} from '../../../core/spi/index.ts'
import { readBreakers } from '../../sql/open-breakers.ts'
import type { PostgresDatabase, Row } from '../database.ts'
import type { PostgresTables } from '../tables.ts'
import { decodeView, viewSelect } from './delivery-view.ts'
import { decodeEvent, EVENT_FIELDS } from './event-row.ts'
import {
  ASIDE,
  asMs,
  asNumber,
  asText,
  asTextOrNull,
  isTrue,
  msBetween,
  NOW,
  sqlText,
  textList,
} from './sql-text.ts'
import { TOTALS } from './totals.ts'

const EVENT = sqlText((t) => `SELECT ${EVENT_FIELDS} FROM ${t.events} AS e WHERE e.id = $1::uuid`)

const DELIVERIES = sqlText(
  (t) => `${viewSelect(t, 'deliveries')} WHERE d.event_id = $1::uuid
UNION ALL ${viewSelect(t, 'finished')} WHERE d.event_id = $1::uuid
ORDER BY 4, 5`,
)

const ATTEMPTS = sqlText(
  (
    t,
  ) => `SELECT a.delivery_id, a.attempt, ${asMs('a.at')}, a.worker, a.duration_ms, a.code, a.message, a.stack
FROM (SELECT id FROM ${t.deliveries} WHERE event_id = $1::uuid UNION ALL SELECT id FROM ${t.finished} WHERE event_id = $1::uuid) AS d
JOIN ${t.attempts} AS a ON a.delivery_id = d.id ORDER BY a.delivery_id, a.attempt`,
)

const BY_DELIVERY = sqlText(
  (t) => `SELECT ${EVENT_FIELDS} FROM ${t.events} AS e WHERE e.id = coalesce(
  (SELECT event_id FROM ${t.deliveries} WHERE id = $1::uuid), (SELECT event_id FROM ${t.finished} WHERE id = $1::uuid))`,
)

const readable = (row: Row): EventRecord => {
  const decoded = decodeEvent(row, 0)
  if (decoded.event !== null) return decoded.event
  const eventId = asText(row[0])
  throw new StoreError(ERROR_CODES.undecodable, `Event ${eventId}: ${decoded.problem}`, { eventId })
}

export const eventOfDelivery = async (
  db: PostgresDatabase,
  t: PostgresTables,
  deliveryId: string,
): Promise<EventRecord | null> => {
  if (!isUuid(deliveryId)) throw new TypeError('not a UUID; check it with isUuid first')
  // Twice, as below: it may just have been moved.
  const look = async () => (await db.rows(BY_DELIVERY(t), [deliveryId]))[0]
  const row = (await look()) ?? (await look())
  return row === undefined ? null : readable(row)
}

export const event = async (
  db: PostgresDatabase,
  t: PostgresTables,
  eventId: string,
): Promise<EventDetail | null> => {
  if (!isUuid(eventId)) throw new TypeError('not a UUID; check it with isUuid first')
  const params = [eventId]
  const look = () => db.snapshot([EVENT(t), DELIVERIES(t), ATTEMPTS(t)].map((sql) => ({ sql, params })))
  let answers = await look()
  // Its partition may just have been made: who waited for that missed what was moved there. A second look does not.
  if (answers[0]?.length === 0) answers = await look()
  const [[row] = [], deliveries = [], attempts = []] = answers
  if (row === undefined) return null
  return {
    event: readable(row),
    deliveries: deliveries.map(decodeView),
    attempts: attempts.map((attempt) => ({
      deliveryId: asText(attempt[0]),
      attempt: asNumber(attempt[1]),
      atMs: asNumber(attempt[2]),
      worker: asText(attempt[3]),
      durationMs: asNumber(attempt[4]),
      code: asTextOrNull(attempt[5]),
      message: asText(attempt[6]),
      stack: asTextOrNull(attempt[7]),
    })),
  }
}

/** Pending rows are counted in the index that reads use, the others in the one that has only them. */
const COUNTS = sqlText(
  (t) => `SELECT destination, 0, count(*) FROM ${t.deliveries} WHERE status = 0 GROUP BY destination
UNION ALL SELECT destination, status, count(*) FROM ${t.deliveries} AS d WHERE ${ASIDE} GROUP BY destination, status
UNION ALL SELECT name, 0, 0 FROM ${t.destinations}`,
)

const oldest = (t: PostgresTables, since: string, where: string, order: string): string =>
  `(SELECT ${msBetween(since, NOW)} FROM ${t.deliveries} WHERE destination = n.name AND ${where} ORDER BY ${order} LIMIT 1)`

/**
 * The lowest pending row, the longest due retry or scheduled one, and the lowest dead head that blocks its key;
 * claimed, held, parked and other dead ones do not count. Who was delayed began to wait when it was due.
 */
const LAG = sqlText(
  (t) => `SELECT n.name,
  ${oldest(t, 'CASE WHEN token IS NULL THEN available_at ELSE created_at END', `status = 0 AND available_at <= ${NOW}`, 'seq')},
  ${oldest(t, 'available_at', `status = 2 AND available_at <= ${NOW}`, 'available_at')},
  ${oldest(t, 'available_at', `status = 5 AND available_at <= ${NOW}`, 'available_at')},
  ${oldest(t, 'created_at', 'status = 3 AND holds_key AND NOT parked', 'seq')}
FROM unnest($1::text[]) AS n(name)`,
)

const noCounts = (): Record<DeliveryStatus, number> =>
  Object.fromEntries(Object.keys(DELIVERY_STATUS).map((name) => [name, 0])) as Record<DeliveryStatus, number>

export const counts = async (
  db: PostgresDatabase,
  t: PostgresTables,
): Promise<readonly DestinationCounts[]> => {
  const byDestination = new Map<string, Record<DeliveryStatus, number>>()
  const entryOf = (destination: unknown): Record<DeliveryStatus, number> => {
    const entry = byDestination.get(asText(destination)) ?? noCounts()
    byDestination.set(asText(destination), entry)
    return entry
  }
  const [unfinished = [], totals = []] = await db.snapshot([
    { sql: COUNTS(t), params: [] },
    { sql: TOTALS(t), params: [] },
  ])
  for (const [name, status, count] of unfinished) {
    entryOf(name)[statusName(asNumber(status))] += asNumber(count)
  }
  for (const [name, done, discarded] of totals) {
    Object.assign(entryOf(name), { done: asNumber(done), discarded: asNumber(discarded) })
  }
  const lags = new Map(
    (await db.rows(LAG(t), [textList([...byDestination.keys()])])).map(([name, ...ages]) => {
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
      AND r.key IS NOT NULL AND r.status = 0 AND NOT r.holds_key)
    + (SELECT count(*) FROM ${t.deliveries} AS r WHERE r.destination = d.destination AND r.key = d.key AND r.seq > d.seq
      AND r.holds_key AND r.status IN (0, 6)) AS waiting
  FROM ${t.deliveries} AS d
  WHERE d.status IN (2, 3) AND ${ASIDE} AND d.holds_key AND ($1::text IS NULL OR d.destination = $1)
    AND NOT EXISTS (SELECT 1 FROM ${t.deliveries} AS h WHERE h.destination = d.destination AND h.key = d.key
      AND h.holds_key AND h.status IN (2, 3) AND h.seq < d.seq)
) AS heads WHERE waiting > 0 LIMIT $2::int`,
)

export const blockedKeys = async (
  db: PostgresDatabase,
  t: PostgresTables,
  query: { readonly destination?: string; readonly limit: number },
): Promise<readonly BlockedKey[]> =>
  (await db.rows(BLOCKED(t), [query.destination ?? null, query.limit])).map((row) => ({
    destination: asText(row[0]),
    key: asText(row[1]),
    headDeliveryId: asText(row[2]),
    headStatus: statusName(asNumber(row[3])),
    headAttempts: asNumber(row[4]),
    waiting: asNumber(row[5]),
  }))

const WORKERS = sqlText(
  (
    t,
  ) => `SELECT w.id, w.name, ${asMs('w.started_at')}, ${msBetween(NOW, 'w.expires_at')}, w.fenced, to_json(w.destinations),
  (SELECT count(*) FROM ${t.lanes} AS l WHERE l.worker_id = w.id AND l.lane >= 0), w.breakers, ${asMs('w.expires_at')}
FROM ${t.workers} AS w ORDER BY w.started_at`,
)

export const workers = async (db: PostgresDatabase, t: PostgresTables): Promise<readonly WorkerView[]> =>
  (await db.rows(WORKERS(t))).map((row) => ({
    workerId: asText(row[0]),
    name: asText(row[1]),
    startedAtMs: asNumber(row[2]),
    expiresInMs: Math.max(0, asNumber(row[3])),
    fenced: isTrue(row[4]),
    destinations: JSON.parse(asText(row[5])) as string[],
    lanes: asNumber(row[6]),
    openBreakers: readBreakers(asTextOrNull(row[7]), asNumber(row[8])),
  }))

const LANES_OF = sqlText(
  (t) => `SELECT l.destination, l.lane, l.worker_id, ${msBetween(NOW, 'w.expires_at')} FROM ${t.lanes} AS l
LEFT JOIN ${t.workers} AS w ON w.id = l.worker_id
WHERE l.lane >= 0 AND ($1::text IS NULL OR l.destination = $1) ORDER BY l.destination, l.lane`,
)

export const lanes = async (
  db: PostgresDatabase,
  t: PostgresTables,
  { destination }: { readonly destination?: string },
): Promise<readonly LaneView[]> =>
  (await db.rows(LANES_OF(t), [destination ?? null])).map((row) => ({
    destination: asText(row[0]),
    lane: asNumber(row[1]),
    workerId: asTextOrNull(row[2]),
    expiresInMs: row[3] === null ? null : Math.max(0, asNumber(row[3])),
  }))
