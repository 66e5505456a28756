/**
 * The cold path's read: one statement, so that all parts see one snapshot. Bytes are bounded by a running sum in
 * the database, so payloads beyond the bound are never even loaded.
 */
import { LANES, UNROUTED } from '../../../core/model/index.ts'
import type { ReadRequest, ReadResult, StoredDelivery } from '../../../core/spi/index.ts'
import type { PostgresDatabase, Row } from '../database.ts'
import type { PostgresTables } from '../tables.ts'
import { decodeEvent, EVENT_FIELDS, NO_EVENT_FIELDS } from './event-row.ts'
import {
  asBigInt,
  asNumber,
  asNumberOrNull,
  asText,
  asTextOrNull,
  idList,
  isTrue,
  MS,
  msBetween,
  NOW,
  PENDING,
  sqlText,
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

/** Written with `<>`, of which the planner assumes that it keeps nearly all rows. */
export const inLanes = (mask: string): string => `((${mask}::bigint >> lane) & 1) <> 0`

/** A holder of the row's key that comes before it. */
const holder = (t: PostgresTables, statuses: string): string =>
  `EXISTS (SELECT 1 FROM ${t.deliveries} AS h WHERE h.destination = d.destination AND h.key = d.key
    AND h.holds_key AND h.status IN (${statuses}) AND h.seq < d.seq)`

/**
 * A row that holds the key itself waits only for retries and dead heads before it: if it waited for held rows,
 * which wait for it, neither would ever go. An unrouted row holds its key everywhere.
 */
const behind = (t: PostgresTables): string => `d.key IS NOT NULL AND (
    CASE WHEN d.holds_key THEN ${holder(t, '2, 3')} ELSE ${holder(t, '2, 3, 6')} END
    OR EXISTS (SELECT 1 FROM ${t.deliveries} AS u WHERE u.destination = '${UNROUTED}' AND u.key = d.key AND u.key IS NOT NULL
      AND u.status = 0 AND u.seq < d.seq))`

const DELIVERY_FIELDS =
  'd.id, d.seq, d.destination, d.run, d.lane, d.key, d.attempts, d.suspicions, d.status, d.token, d.holds_key, d.size'
const DELIVERY_COLUMNS = DELIVERY_FIELDS.replaceAll('d.', '')

/** Where the event begins, behind kind, number, the delivery, `behind` and `fits`. */
const EVENT_AT = 16

/** What a row of the answer is about. */
const KIND = { due: 0, fresh: 1, swept: 2, outlook: 3 } as const

/**
 * Rows that do not fit come back without their event: they only say that there is more. The inner limit is
 * written out because a plan for any parameters cannot know what a parameter will be; the outer one stops it.
 * Nothing fits behind a row that is too recent: it could be of the same key.
 */
const bounded = (t: PostgresTables, order: string, where: string, bound: number, limit: string): string =>
  `SELECT *, row_number() OVER w AS n, sum(size) OVER w AS total, max(created_at) OVER w AS youngest FROM (
    SELECT * FROM (
      SELECT ${DELIVERY_COLUMNS}, event_id, available_at, created_at FROM ${t.deliveries} WHERE ${where} ORDER BY ${order} LIMIT ${bound}
    ) AS b LIMIT ${limit}
  ) AS c WINDOW w AS (ORDER BY ${order} ROWS UNBOUNDED PRECEDING)`

const part = (t: PostgresTables, kind: number, from: string): string =>
  `SELECT ${kind}, d.n, ${DELIVERY_FIELDS}, ${behind(t)}, d.fits, ${EVENT_FIELDS}
FROM ${from} AS d LEFT JOIN ${t.events} AS e ON e.id = CASE WHEN d.fits THEN d.event_id END`

const earliest = (t: PostgresTables, where: string): string =>
  `(SELECT available_at FROM ${t.deliveries} WHERE destination = $1 AND ${where} AND available_at > (SELECT now FROM t) AND ${inLanes('$2')} ORDER BY available_at LIMIT 1)`

/** Unrouted rows whose event is gone cannot be expanded; cleaning makes them dead. */
const unroutedExists = (t: PostgresTables, status: number): string =>
  `EXISTS (SELECT 1 FROM ${t.deliveries} AS u WHERE u.destination = '${UNROUTED}' AND u.status = ${status}
    AND EXISTS (SELECT 1 FROM ${t.events} AS e WHERE e.id = u.event_id))`

/**
 * $1 destination, $2 lanes, $3 after, $4 limit, $5 dueLimit, $6 maxBytes, $7 skipRecentMs or null, $8 windowMs or null,
 * $9 sweepFrom or null, $10 sweepLimit. The last row has the outlook in columns that are free there: the time
 * until something is due in `seq`, the snapshot's bounds in `key` and `token`, and two answers in `holds_key` and `behind`.
 */
const readText = (
  t: PostgresTables,
  bound: number,
): string => `WITH t AS MATERIALIZED (SELECT clock_timestamp() AS now),
due AS MATERIALIZED (
  SELECT *, n <= $5::int AND (total <= $6::bigint OR n = 1) AS fits FROM (${bounded(
    t,
    'available_at',
    `destination = $1 AND status = 2 AND available_at <= (SELECT now FROM t) AND ${inLanes('$2')}`,
    bound,
    '$5::int + 1',
  )}) AS x
),
taken AS MATERIALIZED (SELECT count(*) AS rows, coalesce(sum(size), 0) AS bytes FROM due WHERE fits),
fresh AS MATERIALIZED (
  SELECT *, n <= $4::int - (SELECT rows FROM taken)
    AND (total <= $6::bigint - (SELECT bytes FROM taken) OR (n = 1 AND (SELECT rows FROM taken) = 0))
    AND ($7::float8 IS NULL OR youngest <= (SELECT now FROM t) - $7::float8 * ${MS}) AS fits
  FROM (${bounded(
    t,
    'seq',
    `destination = $1 AND status = 0 AND seq > $3::bigint AND available_at <= (SELECT now FROM t) AND ${inLanes('$2')}
        AND ($8::float8 IS NULL OR available_at >= (SELECT now FROM t) - $8::float8 * ${MS})`,
    bound,
    '$4::int + 1',
  )}) AS x
)
${part(t, KIND.due, 'due')}
UNION ALL
${part(t, KIND.fresh, 'fresh')}
UNION ALL
SELECT ${KIND.swept}, 0, s.id, s.seq, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, ${NO_EVENT_FIELDS}
FROM (
  SELECT id, seq FROM ${t.deliveries}
  WHERE $9::bigint IS NOT NULL AND destination = $1 AND status = 0 AND seq > $9::bigint AND seq <= $3::bigint
    AND available_at <= (SELECT now FROM t) AND ${inLanes('$2')}
  ORDER BY seq LIMIT $10::int
) AS s
UNION ALL
SELECT ${KIND.outlook}, 0, NULL, ${msBetween(
  '(SELECT now FROM t)',
  `least(${earliest(t, 'status = 2')}, ${earliest(t, 'status = 5')}, ${earliest(t, 'status = 0 AND token IS NOT NULL')})`,
)}, NULL, NULL, NULL, pg_snapshot_xmin(pg_current_snapshot())::text, NULL, NULL, NULL, pg_snapshot_xmax(pg_current_snapshot())::text,
  EXISTS (SELECT 1 FROM ${t.deliveries} WHERE destination = $1 AND status = 5 AND available_at <= (SELECT now FROM t) AND ${inLanes('$2')}),
  NULL, ${unroutedExists(t, 0)} OR ${unroutedExists(t, 5)}, NULL, ${NO_EVENT_FIELDS}`

/** Limits that are written into the text; the first covers what the core asks for by default. */
const BOUNDS = [1_024, 16_384, 1_048_576] as const

const READ = BOUNDS.map((bound) => ({ bound, text: sqlText((t) => readText(t, bound)) }))

const textFor = (limit: number): ((t: PostgresTables) => string) => {
  const found = READ.find(({ bound }) => limit < bound)
  if (found === undefined) throw new RangeError(`a read of ${limit} rows is too much at once`)
  return found.text
}

const BY_IDS = sqlText(
  (t) => `SELECT 1, 0, ${DELIVERY_FIELDS}, ${behind(t)}, true, ${EVENT_FIELDS}
FROM ${t.deliveries} AS d LEFT JOIN ${t.events} AS e ON e.id = d.event_id
WHERE d.id = ANY($1::uuid[]) AND d.destination = $2 AND ${PENDING} AND d.available_at <= ${NOW}
ORDER BY d.seq`,
)

const decode = (row: Row): StoredDelivery => ({
  id: asText(row[2]),
  seq: asBigInt(row[3]),
  destination: asText(row[4]),
  run: asNumber(row[5]),
  lane: asNumber(row[6]),
  key: asTextOrNull(row[7]),
  attempts: asNumber(row[8]),
  suspicions: asNumber(row[9]),
  status: asNumber(row[10]) === 2 ? 'retry' : 'pending',
  token: asTextOrNull(row[11]),
  holdsKey: isTrue(row[12]),
  size: asNumber(row[13]),
  behind: isTrue(row[14]),
  ...decodeEvent(row, EVENT_AT),
})

/** Parts of a union come in no particular order, so their own numbers decide. */
const byNumber = (a: Row, b: Row): number => asNumber(a[1]) - asNumber(b[1])

const fitting = (rows: readonly Row[]): { readonly taken: StoredDelivery[]; readonly more: boolean } => {
  const taken = rows
    .filter((row) => isTrue(row[15]))
    .sort(byNumber)
    .map(decode)
  return { taken, more: taken.length < rows.length }
}

const compareSeqs = (a: { readonly seq: bigint }, b: { readonly seq: bigint }): number =>
  a.seq < b.seq ? -1 : a.seq > b.seq ? 1 : 0

export const read = async (
  db: PostgresDatabase,
  t: PostgresTables,
  request: ReadRequest,
): Promise<ReadResult> => {
  const { limit, sweep, sweepLimit } = request
  const rows = await db.rows(textFor(limit)(t), [
    request.destination,
    laneMask(request.lanes),
    request.after,
    limit,
    Math.min(limit, request.dueLimit),
    request.maxBytes,
    request.skipRecentMs > 0 ? request.skipRecentMs : null,
    request.windowMs > 0 ? request.windowMs : null,
    sweep ? request.sweepFrom : null,
    sweepLimit + 1,
  ])
  const parts: [Row[], Row[], Row[], Row[]] = [[], [], [], []]
  for (const row of rows) parts[asNumber(row[0]) as 0 | 1 | 2 | 3].push(row)
  const [due, fresh] = [fitting(parts[KIND.due]), fitting(parts[KIND.fresh])]
  const swept = parts[KIND.swept]
    .map((row) => ({ id: asText(row[2]), seq: asBigInt(row[3]) }))
    .sort(compareSeqs)
  const [outlook = []] = parts[KIND.outlook]
  const nextDueInMs = asNumberOrNull(outlook[3])
  return {
    due: due.taken,
    fresh: fresh.taken,
    swept: sweep ? swept.slice(0, sweepLimit) : null,
    sweptMore: swept.length > sweepLimit,
    more: due.more || fresh.more,
    nextDueInMs: nextDueInMs === null ? null : Math.max(0, nextDueInMs),
    activatable: isTrue(outlook[12]),
    unrouted: isTrue(outlook[14]),
    snapshot: { oldest: asBigInt(outlook[7]), next: asBigInt(outlook[11]) },
  }
}

export const readByIds = async (
  db: PostgresDatabase,
  t: PostgresTables,
  destination: string,
  ids: readonly string[],
): Promise<readonly StoredDelivery[]> => (await db.rows(BY_IDS(t), [idList(ids), destination])).map(decode)
