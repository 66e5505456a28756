/**
 * The cold path's read. All parts see one snapshot (the caller opens the read transaction). Bytes are bounded
 * by a running sum in the database, so payloads beyond the bound are never even loaded.
 */

import { LANES, UNROUTED } from '../../../core/model/index.ts'
import type { ReadRequest, ReadResult, StoredDelivery, SweptDelivery } from '../../../core/spi/index.ts'
import type { Tables } from '../../sql/identifiers.ts'
import type { SqliteConnection } from '../connection.ts'
import { decodeEvent, EVENT_FIELDS } from './event-row.ts'
import {
  asBigInt,
  asId,
  asNumber,
  asText,
  asTextOrNull,
  IDS,
  idList,
  NOW,
  sqlText,
  UNCLAIMED,
} from './sql-text.ts'

/** A lane is one of 64 bits. An integer parameter keeps the text the same for every set of lanes. */
export const laneMask = (lanes: readonly number[] | null): bigint => {
  if (lanes === null) return -1n
  let mask = 0n
  for (const lane of lanes) {
    if (!Number.isInteger(lane) || lane < 0 || lane >= LANES) throw new RangeError(`there is no lane ${lane}`)
    mask |= 1n << BigInt(lane)
  }
  return BigInt.asIntN(64, mask)
}

const IN_LANES = '((? >> lane) & 1) = 1'

/**
 * Must the row wait for a holder of its key before it that is not pending: a retry, a dead head that blocks, a row that
 * is held? Nobody waits for a row behind it, so nobody waits for each other.
 */
export const heldBack = (t: Tables): string =>
  `EXISTS (SELECT 1 FROM ${t.deliveries} AS h WHERE h.destination = d.destination AND h.key = d.key
    AND h.holds_key = 1 AND h.status IN (2, 3, 6) AND h.seq < d.seq)`

/** An unrouted row holds its key everywhere. */
const unroutedHolder = (t: Tables): string =>
  `EXISTS (SELECT 1 FROM ${t.deliveries} AS u WHERE u.destination = '${UNROUTED}' AND u.key = d.key AND u.key IS NOT NULL
    AND u.status = 0 AND u.seq < d.seq)`

const behind = (t: Tables): string => `d.key IS NOT NULL AND (${heldBack(t)} OR ${unroutedHolder(t)})`

const DELIVERY_FIELDS =
  'd.id, d.seq, d.destination, d.run, d.lane, d.key, d.attempts, d.suspicions, d.status, d.token, d.holds_key, d.size'
const DELIVERY_COLUMNS = DELIVERY_FIELDS.replaceAll('d.', '')
const EVENT_AT = 15

/** A claim that ran out says nothing about when the row could be sent: that was at its commit. */
const DUE_FOR = `${NOW} - CASE WHEN d.status = 2 OR d.token IS NULL THEN d.available_at ELSE d.created_at END`

/**
 * Rows that do not fit come back without their event: they only say that there is more. Nor does what lies behind
 * a row that is too recent: it could be of the same key.
 */
const bounded = (
  t: Tables,
  order: string,
  where: string,
): string => `SELECT ${DELIVERY_FIELDS}, ${behind(t)}, d.fits, ${DUE_FOR}, ${EVENT_FIELDS}
FROM (
  SELECT *, n <= ? AND (total <= ? OR n = ?) AND youngest <= ${NOW} - ? AS fits FROM (
    SELECT *, row_number() OVER w AS n, sum(size) OVER w AS total, max(created_at) OVER w AS youngest FROM (
      SELECT ${DELIVERY_COLUMNS}, event_id, available_at, created_at FROM ${t.deliveries} WHERE ${where} ORDER BY ${order} LIMIT ?
    ) WINDOW w AS (ORDER BY ${order} ROWS UNBOUNDED PRECEDING)
  )
) AS d LEFT JOIN ${t.events} AS e ON d.fits AND e.id = d.event_id
ORDER BY d.n`

const DUE = sqlText((t) =>
  bounded(t, 'available_at', `destination = ? AND status = 2 AND available_at <= ${NOW} AND ${IN_LANES}`),
)

const FRESH = sqlText((t) =>
  bounded(
    t,
    'seq',
    `destination = ? AND status = 0 AND seq > ? AND available_at >= ${NOW} - ? AND ${UNCLAIMED} AND ${IN_LANES}`,
  ),
)

/** Longer than any clock goes back. */
const EVER_MS = Number.MAX_SAFE_INTEGER

/** Only rows under a claim, and after a clock was set back, are more than their entry in the index. */
const SWEEP = sqlText(
  (t) => `SELECT id, seq FROM ${t.deliveries} AS d
WHERE destination = ? AND status = 0 AND seq > ? AND seq <= ? AND ${IN_LANES}
  AND (available_at <= ${NOW} OR EXISTS (SELECT 1 FROM ${t.deliveries} AS c WHERE c.id = d.id AND (c.token IS NULL OR c.suspicions > 0)))
ORDER BY seq LIMIT ?`,
)

const earliest = (t: Tables, where: string): string =>
  `(SELECT available_at FROM ${t.deliveries} WHERE destination = ? AND ${where} AND available_at > ${NOW} AND ${IN_LANES} ORDER BY available_at LIMIT 1)`

/** Unrouted rows whose event is gone cannot be expanded; cleaning makes them dead. */
export const unroutedRows = (t: Tables, status: 0 | 5): string =>
  `SELECT u.id, u.seq FROM ${t.deliveries} AS u JOIN ${t.events} AS e ON e.id = u.event_id
WHERE u.destination = '${UNROUTED}' AND u.status = ${status}`

/** Scheduled rows of our lanes whose time has come; binds the destination and the mask of lanes. */
export const DUE_SCHEDULED = `destination = ? AND status = 5 AND available_at <= ${NOW} AND ${IN_LANES}`

const OUTLOOK = sqlText(
  (
    t,
  ) => `SELECT ${NOW}, ${earliest(t, 'status = 2')}, ${earliest(t, 'status = 5')}, ${earliest(t, 'status = 0 AND token IS NOT NULL')},
  EXISTS (${unroutedRows(t, 0)}) OR EXISTS (${unroutedRows(t, 5)}), EXISTS (SELECT 1 FROM ${t.deliveries} WHERE ${DUE_SCHEDULED})`,
)

const BY_IDS = sqlText(
  (t) => `SELECT ${DELIVERY_FIELDS}, ${behind(t)}, 1, ${DUE_FOR}, ${EVENT_FIELDS}
FROM ${t.deliveries} AS d LEFT JOIN ${t.events} AS e ON e.id = d.event_id
WHERE d.id IN ${IDS} AND d.destination = ? AND d.status = 0 AND ${UNCLAIMED}
ORDER BY d.seq`,
)

const decode = (row: readonly unknown[]): StoredDelivery => ({
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

const fitting = (
  rows: readonly (readonly unknown[])[],
): { readonly taken: StoredDelivery[]; readonly more: boolean } => {
  const taken = rows.filter((row) => asNumber(row[13]) === 1).map(decode)
  return { taken, more: taken.length < rows.length }
}

const sumSizes = (deliveries: readonly StoredDelivery[]): number =>
  deliveries.reduce((sum, { size }) => sum + size, 0)

const untilNextDue = (now: unknown, due: readonly unknown[]): number | null => {
  const times = due.filter((time) => time !== null).map(asNumber)
  return times.length === 0 ? null : Math.max(0, Math.min(...times) - asNumber(now))
}

export const read = (c: SqliteConnection, t: Tables, request: ReadRequest): ReadResult => {
  const { destination, after, limit, maxBytes } = request
  const mask = laneMask(request.lanes)
  const dueLimit = Math.min(limit, request.dueLimit)
  const due = fitting(c.rows(DUE(t), [dueLimit, maxBytes, 1, -EVER_MS, destination, mask, dueLimit + 1]))
  const left = limit - due.taken.length
  // One row is always returned, but only one: what is due took that right already if there is any.
  const always = due.taken.length === 0 ? 1 : 0
  const fresh = fitting(
    c.rows(FRESH(t), [
      left,
      maxBytes - sumSizes(due.taken),
      always,
      request.skipRecentMs > 0 ? request.skipRecentMs : -EVER_MS,
      destination,
      after,
      request.windowMs > 0 ? request.windowMs : EVER_MS,
      mask,
      left + 1,
    ]),
  )
  const swept: SweptDelivery[] | null = request.sweep
    ? c
        .rows(SWEEP(t), [destination, request.sweepFrom, after, mask, request.sweepLimit + 1])
        .map((row) => ({ id: asId(row[0]), seq: asBigInt(row[1]) }))
    : null
  const ours = [destination, mask]
  const [outlook = []] = c.rows(OUTLOOK(t), [...ours, ...ours, ...ours, ...ours])
  const [now, retry, scheduled, hot, unrouted, activatable] = outlook
  return {
    due: due.taken,
    fresh: fresh.taken,
    swept: swept?.slice(0, request.sweepLimit) ?? null,
    sweptMore: swept !== null && swept.length > request.sweepLimit,
    more: due.more || fresh.more,
    nextDueInMs: untilNextDue(now, [retry, scheduled, hot]),
    unrouted: asNumber(unrouted) === 1,
    activatable: asNumber(activatable) === 1,
    snapshot: null,
  }
}

export const readByIds = (
  c: SqliteConnection,
  t: Tables,
  destination: string,
  ids: readonly string[],
): readonly StoredDelivery[] => c.rows(BY_IDS(t), [idList(ids), destination]).map(decode)
