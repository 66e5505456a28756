/**
 * The cold path's read: one round trip, one snapshot. Bytes are bounded by a running sum in the database, so
 * payloads beyond the bound are never even loaded.
 */
import { UNROUTED } from '../../../core/model/index.ts'
import type { ReadRequest, ReadResult, StoredDelivery } from '../../../core/spi/index.ts'
import type { Tables } from '../../sql/identifiers.ts'
import { type FindEvents, lookAgain } from '../../sql/look-again.ts'
import type { MysqlDatabase, Row } from '../database.ts'
import { literal } from '../script.ts'
import { decodeEvent, EVENT_FIELDS } from './event-row.ts'
import {
  asBigInt,
  asId,
  asNumber,
  asText,
  asTextOrNull,
  BY_KEY,
  earlier,
  idList,
  inLanes,
  KEY,
  msBetween,
  NOW,
  one,
  UNCLAIMED,
} from './sql-text.ts'

/**
 * Must the row wait for a holder of its key before it that is not pending: a retry, a dead head that blocks, a row that
 * is held? Nobody waits for a row behind it, so nobody waits for each other. With a lock only equal columns lead through
 * the index: at the end of a range the row behind it is locked too, whoever's it is.
 */
export const heldBack = (t: Tables, lock = ''): string => {
  const plain = lock === '' ? '' : ' + 0'
  return `EXISTS (SELECT 1 FROM ${t.deliveries} AS h ${BY_KEY} WHERE h.destination = d.destination AND h.key = d.key
    AND h.holds_key = 1 AND h.status${plain} IN (2, 3, 6) AND h.seq${plain} < d.seq${lock})`
}

/** An unrouted row holds its key everywhere. */
const unroutedHolder = (t: Tables): string =>
  `EXISTS (SELECT 1 FROM ${t.deliveries} AS u WHERE u.destination = '${UNROUTED}' AND u.key = d.key
    AND u.holds_key = 0 AND u.status = 0 AND u.seq < d.seq)`

const behind = (t: Tables): string => `d.key IS NOT NULL AND (${heldBack(t)} OR ${unroutedHolder(t)})`

const DELIVERY_FIELDS =
  'd.id, d.seq, d.destination, d.run, d.lane, d.key, d.attempts, d.suspicions, d.status, d.token, d.holds_key, d.size'
const DELIVERY_COLUMNS = DELIVERY_FIELDS.replaceAll('d.', '').replace('key', KEY)
const FITS_AT = 13
const EVENT_AT = 15

/** A claim that ran out says nothing about when the row could be sent: that was at its commit. */
const DUE_FOR = msBetween('IF(d.status = 2 OR d.token IS NULL, d.available_at, d.created_at)', NOW)

interface Bounds {
  readonly index: 'due' | 'fresh'
  readonly where: string
  /** Of unique values together with the id, so that a running sum means the same every time. */
  readonly order: string
  readonly limit: number
  /** When set, rows that were stored after this time are counted as `recent`. */
  readonly recentSince: string | null
  /** Conditions on `n`, the row's place, `total`, the bytes up to it, and `recent`. */
  readonly fits: string
}

/** Rows up to one more than fit, each with its place and the sums up to it. */
const counted = (t: Tables, { index, where, order, limit, recentSince }: Bounds): string => {
  // A sum, because MariaDB looks through all rows before for each maximum.
  const recent = recentSince === null ? '' : `, SUM(x.created_at > ${recentSince}) OVER w AS recent`
  return `SELECT x.*, COUNT(*) OVER w AS n, SUM(x.size) OVER w AS total${recent} FROM (
      SELECT ${DELIVERY_COLUMNS}, event_id, available_at, created_at FROM ${t.deliveries} FORCE INDEX (${index})
      WHERE ${where} ORDER BY ${order} LIMIT ${limit + 1}
    ) AS x WINDOW w AS (ORDER BY x.${order}, x.id ROWS UNBOUNDED PRECEDING)`
}

/**
 * Rows that do not fit come back without their event: they only say that there is more. Nor does what lies behind
 * a row that is too recent: it could be of the same key.
 */
const bounded = (t: Tables, bounds: Bounds): string =>
  `SELECT ${DELIVERY_FIELDS}, ${behind(t)}, d.fits, ${DUE_FOR}, ${EVENT_FIELDS}
FROM (SELECT y.*, ${bounds.fits} AS fits FROM (
    ${counted(t, bounds)}
  ) AS y) AS d LEFT JOIN ${t.events} AS e ON d.fits AND e.id = d.event_id
ORDER BY d.n`

const dueBounds = ({ destination, lanes, limit, dueLimit, maxBytes }: ReadRequest): Bounds => {
  const most = Math.min(limit, dueLimit)
  return {
    index: 'due',
    where: `destination = ${literal(destination)} AND state = 2 AND available_at <= ${NOW}${inLanes(lanes)}`,
    order: 'available_at',
    limit: most,
    recentSince: null,
    fits: `(n <= ${most} AND (total <= ${maxBytes} OR n = 1))`,
  }
}

/** How many retries were taken and how large they are, for the fresh rows to share the limits with. */
const dueTaken = (t: Tables, bounds: Bounds): string =>
  `SELECT COUNT(*), COALESCE(SUM(y.size), 0) INTO @posthaste_due, @posthaste_bytes FROM (
    ${counted(t, bounds)}
  ) AS y WHERE ${bounds.fits}`

const freshBounds = (request: ReadRequest): Bounds => {
  const { destination, lanes, after, limit, maxBytes, skipRecentMs, windowMs } = request
  const window = windowMs > 0 ? ` AND available_at >= ${earlier(NOW, windowMs)}` : ''
  return {
    index: 'fresh',
    where: `destination = ${literal(destination)} AND state = 0 AND seq > ${after} AND ${UNCLAIMED}${window}${inLanes(lanes)}`,
    order: 'seq',
    limit,
    recentSince: skipRecentMs > 0 ? earlier(NOW, skipRecentMs) : null,
    // One row is always returned, but only one: what is due took that right already if there is any.
    fits: `(n <= ${limit} - @posthaste_due AND (total <= ${maxBytes} - @posthaste_bytes OR (n = 1 AND @posthaste_due = 0))${skipRecentMs > 0 ? ' AND recent = 0' : ''})`,
  }
}

/** Only rows under a claim, and after a clock was set back, are more than their entry in the index. */
const sweep = (t: Tables, { destination, lanes, sweepFrom, after, sweepLimit }: ReadRequest): string =>
  `SELECT d.id, d.seq FROM ${t.deliveries} AS d FORCE INDEX (fresh)
WHERE d.destination = ${literal(destination)} AND d.state = 0 AND d.seq > ${sweepFrom} AND d.seq <= ${after}${inLanes(lanes, 'd.')}
  AND (d.available_at <= ${NOW} OR EXISTS (SELECT 1 FROM ${t.deliveries} AS c WHERE c.id = d.id AND (c.token IS NULL OR c.suspicions > 0)))
ORDER BY d.seq LIMIT ${sweepLimit + 1}`

/** Unrouted rows whose event is gone cannot be expanded; cleaning makes them dead. */
export const unroutedRows = (t: Tables, index: 'due' | 'fresh', state: 0 | 5): string =>
  `SELECT u.id, u.seq FROM ${t.deliveries} AS u FORCE INDEX (${index}) STRAIGHT_JOIN ${t.events} AS e ON e.id = u.event_id
WHERE u.destination = '${UNROUTED}' AND u.state = ${state}`

/** Scheduled rows of our lanes whose time has come. */
export const dueScheduled = (destination: string, lanes: readonly number[] | null): string =>
  `destination = ${literal(destination)} AND state = 5 AND available_at <= ${NOW}${inLanes(lanes)}`

/** Pending rows whose time has not come are those under a hot claim. */
const outlook = (t: Tables, { destination, lanes }: ReadRequest): string => {
  const earliest = (state: number): string =>
    `(SELECT TIMESTAMPDIFF(MICROSECOND, ${NOW}, available_at) FROM ${t.deliveries} FORCE INDEX (due)
  WHERE destination = ${literal(destination)} AND state = ${state} AND available_at > ${NOW}${inLanes(lanes)} ORDER BY available_at LIMIT 1)`
  return `SELECT ${earliest(2)}, ${earliest(5)}, ${earliest(0)},
  EXISTS (${unroutedRows(t, 'fresh', 0)}) OR EXISTS (${unroutedRows(t, 'due', 5)}),
  EXISTS (SELECT 1 FROM ${t.deliveries} FORCE INDEX (due) WHERE ${dueScheduled(destination, lanes)})`
}

const decode = (row: Row): StoredDelivery => ({
  id: asId(row[0]),
  seq: asBigInt(row[1]),
  destination: asText(row[2]),
  run: asNumber(row[3]),
  lane: asNumber(row[4]),
  key: asTextOrNull(row[5]),
  attempts: asNumber(row[6]),
  suspicions: asNumber(row[7]),
  status: asNumber(row[8]) === 2 ? 'retry' : 'pending',
  token: asTextOrNull(row[9]),
  holdsKey: asNumber(row[10]) === 1,
  size: asNumber(row[11]),
  behind: asNumber(row[12]) === 1,
  dueForMs: asNumber(row[14]),
  ...decodeEvent(row, EVENT_AT),
})

const fitting = (rows: readonly Row[]): { readonly taken: StoredDelivery[]; readonly more: boolean } => {
  const taken = rows.filter((row) => asNumber(row[FITS_AT]) === 1).map(decode)
  return { taken, more: taken.length < rows.length }
}

/** Rounded up, so that nobody looks a moment too early. */
const untilNextDue = (micros: readonly unknown[]): number | null => {
  const known = micros.filter((value) => value !== null && value !== undefined).map(asNumber)
  return known.length === 0 ? null : Math.max(0, Math.ceil(Math.min(...known) / 1_000))
}

const findEvents =
  (db: MysqlDatabase, t: Tables): FindEvents =>
  async (ids) => {
    const among = `WHERE id IN (${idList(ids)})`
    const rows = await db.rows(`SELECT d.id, ${EVENT_FIELDS}
FROM (SELECT id, event_id FROM ${t.deliveries} ${among} UNION ALL SELECT id, event_id FROM ${t.finished} ${among}) AS d
  JOIN ${t.events} AS e ON e.id = d.event_id`)
    return rows.map((row) => [asId(row[0]), decodeEvent(row, 1)])
  }

export const read = async (db: MysqlDatabase, t: Tables, request: ReadRequest): Promise<ReadResult> => {
  const due = dueBounds(request)
  const texts = [
    bounded(t, due),
    dueTaken(t, due),
    bounded(t, freshBounds(request)),
    outlook(t, request),
    ...(request.sweep ? [sweep(t, request)] : []),
  ]
  const [dueRows, , freshRows, outlooks, sweptRows] = (await db.snapshot(texts.map((sql) => one(sql)))).map(
    ({ rows }) => rows,
  )
  const [retries, fresh] = [fitting(dueRows ?? []), fitting(freshRows ?? [])]
  await lookAgain([...retries.taken, ...fresh.taken], findEvents(db, t))
  const [retry, scheduled, hot, unrouted, activatable] = outlooks?.[0] ?? []
  const swept = sweptRows?.map((row) => ({ id: asId(row[0]), seq: asBigInt(row[1]) })) ?? null
  return {
    due: retries.taken,
    fresh: fresh.taken,
    swept: swept?.slice(0, request.sweepLimit) ?? null,
    sweptMore: swept !== null && swept.length > request.sweepLimit,
    more: retries.more || fresh.more,
    nextDueInMs: untilNextDue([retry, scheduled, hot]),
    unrouted: asNumber(unrouted) === 1,
    activatable: asNumber(activatable) === 1,
    snapshot: null,
  }
}

export const readByIds = async (
  db: MysqlDatabase,
  t: Tables,
  destination: string,
  ids: readonly string[],
): Promise<readonly StoredDelivery[]> => {
  if (ids.length === 0) return []
  const rows = await db.rows(
    `SELECT ${DELIVERY_FIELDS}, ${behind(t)}, 1, ${DUE_FOR}, ${EVENT_FIELDS}
FROM ${t.deliveries} AS d LEFT JOIN ${t.events} AS e ON e.id = d.event_id
WHERE d.id IN (${idList(ids)}) AND d.destination = ? AND d.status = 0 AND ${UNCLAIMED}
ORDER BY d.seq`,
    [destination],
  )
  return rows.map(decode)
}
