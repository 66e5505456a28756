/**
 * The cold path's read: one statement, so that all parts see one snapshot. Bytes are bounded by a running sum in
 * the database, so payloads beyond the bound are never even loaded.
 */
import { LANES, plain, UNROUTED } from '../../../core/model/index.ts'
import type { ReadRequest, ReadResult, StoredDelivery } from '../../../core/spi/index.ts'
import type { PostgresDatabase, Row } from '../database.ts'
import type { PostgresTables } from '../tables.ts'
import { decodeEvent, EVENT_FIELDS, NO_EVENT_FIELDS } from './event-row.ts'
import {
  asBigInt,
  asMs,
  asNumber,
  asNumberOrNull,
  asText,
  asTextOrNull,
  eventOf,
  existsBy,
  holders,
  idList,
  isTrue,
  MS,
  msBetween,
  NOW,
  PENDING,
  sqlText,
  unclaimed,
  unindexed,
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

/** A holder of the row's key before it that is not pending. State by state, as the index of holders has them. */
const heldBack = (t: PostgresTables): string =>
  [2, 3, 6]
    .map((status) =>
      existsBy('h.seq', `${t.deliveries} AS h WHERE ${holders('h', 'd', status)} AND h.seq < d.seq`),
    )
    .join(' OR ')

/** Nearly always nobody holds the key, which one look tells. */
const isHeld = (t: PostgresTables): string =>
  existsBy(
    'h.status, h.seq',
    `${t.deliveries} AS h WHERE h.destination = d.destination AND h.key = d.key AND h.holds_key`,
  )

const unroutedBefore = (t: PostgresTables): string =>
  existsBy(
    'u.seq',
    `${t.deliveries} AS u WHERE u.destination = '${UNROUTED}' AND u.key = d.key AND u.key IS NOT NULL AND u.status = 0 AND u.seq < d.seq`,
  )

/** Of any key, so that it is asked once for all rows. */
const someUnrouted = (t: PostgresTables): string =>
  existsBy(
    'u.key, u.seq',
    `${t.deliveries} AS u WHERE u.destination = '${UNROUTED}' AND u.key IS NOT NULL AND u.status = 0`,
  )

/** Nobody waits for a row behind it, so nobody waits for each other. An unrouted row holds its key everywhere. */
const behind = (t: PostgresTables): string => `d.key IS NOT NULL AND (
    (${isHeld(t)} AND (${heldBack(t)}))
    OR (${someUnrouted(t)} AND ${unroutedBefore(t)}))`

/** What is kept of a row between looking for it and sending it. */
const ROW =
  'id, event_id, seq, destination, run, lane, key, attempts, suspicions, token, holds_key, size, created_at, available_at'

/** Most rows have these values in common, and null costs least on the way. */
const DELIVERY_FIELDS =
  'd.id, d.seq, NULLIF(d.run, 1), d.lane, d.key, NULLIF(d.attempts, 0), NULLIF(d.suspicions, 0), d.token, NULLIF(d.holds_key, false)'

/** Where the event begins, behind kind, number, the delivery, `behind` and for how long it is due. */
const EVENT_AT = 13

/** A claim that ran out says nothing about when the row could be sent: that was at its commit. */
const DUE_SINCE = 'CASE WHEN d.token IS NULL THEN d.available_at ELSE d.created_at END'

/** What a row of the answer is about; the last are rows that did not fit, of which nothing else is said. */
const KIND = { due: 0, fresh: 1, swept: 2, outlook: 3, more: 4 } as const

/**
 * The inner limit is written out because a plan for any parameters cannot know what a parameter will be.
 *
 * Of a limit that it does not know the planner expects a tenth of the rows; of the same one three times, hardly any. So the
 * read costs about as much for a full queue as for an empty one, and the plan for any parameters is always good enough:
 * beside the plans of an empty queue it looked dear, and in a backlog every read was planned anew for as long as it took.
 */
const first = (
  t: PostgresTables,
  columns: string,
  order: string,
  where: string,
  bound: number,
  limit: string,
): string =>
  `SELECT * FROM (SELECT * FROM (SELECT * FROM (
    SELECT ${columns} FROM ${t.deliveries} WHERE ${where} ORDER BY ${order} LIMIT ${bound}
  ) AS b LIMIT ${limit}) AS b LIMIT ${limit}) AS b LIMIT ${limit}`

const WINDOW = (order: string): string => `WINDOW w AS (ORDER BY ${order} ROWS UNBOUNDED PRECEDING)`

const part = (
  t: PostgresTables,
  kind: string,
  number: string,
  from: string,
  eventId: string,
  where = '',
  dueFor = `(SELECT now FROM t) - ${DUE_SINCE}`,
): string =>
  `SELECT ${kind}, ${number}, ${DELIVERY_FIELDS}, CASE WHEN ${behind(t)} THEN true END, ${asMs(dueFor)}, ${EVENT_FIELDS}
FROM ${from} AS d LEFT JOIN ${eventOf(t, eventId)} ON true${where}`

/** Rows that do not fit come back without their event: they only say that there is more. */
const boundedPart = (
  t: PostgresTables,
  kind: number,
  from: string,
  where?: string,
  dueFor?: string,
): string =>
  part(
    t,
    `CASE WHEN d.fits THEN ${kind} ELSE ${KIND.more} END`,
    'd.n',
    from,
    'CASE WHEN d.fits THEN d.event_id END',
    where,
    dueFor,
  )

const earliest = (t: PostgresTables, where: string): string =>
  `(SELECT available_at FROM ${t.deliveries} WHERE destination = $1 AND ${where} AND available_at > (SELECT now FROM t) AND ${inLanes('$2')} ORDER BY available_at LIMIT 1)`

/** Unrouted rows whose event is gone cannot be expanded; cleaning makes them dead. */
const unroutedExists = (t: PostgresTables, status: number, order: string): string =>
  existsBy(
    order,
    `${t.deliveries} AS u CROSS JOIN ${eventOf(t, 'u.event_id')} WHERE u.destination = '${UNROUTED}' AND u.status = ${status}`,
  )

/** Pending rows behind a position that may go now. */
const pending = (after: string): string =>
  `destination = $1 AND status = 0 AND seq > ${after} AND ${unclaimed('(SELECT now FROM t)')} AND ${inLanes('$2')}
    AND ($8::float8 IS NULL OR available_at >= (SELECT now FROM t) - $8::float8 * ${MS})`

const OLD_ENOUGH = (youngest: string): string =>
  `($7::float8 IS NULL OR ${youngest} <= (SELECT now FROM t) - $7::float8 * ${MS})`

/**
 * $1 destination, $2 lanes, $3 after, $4 limit, $5 dueLimit, $6 maxBytes, $7 skipRecentMs or null, $8 windowMs or null,
 * $9 sweepFrom or null, $10 sweepLimit.
 *
 * Nearly always all rows fit, which one sum tells; only otherwise they are counted one by one. Nothing fits
 * behind a row that is too recent: it could be of the same key.
 *
 * The last row has the outlook in columns that are free there: the time until something is due in `seq`, the snapshot's
 * bounds in `key` and `token`, and three answers in `run`, `holds_key` and `behind`.
 */
const readText = (
  t: PostgresTables,
  bound: number,
): string => `WITH t AS MATERIALIZED (SELECT clock_timestamp() AS now),
due AS MATERIALIZED (
  SELECT *, n <= $5::int AND (total <= $6::bigint OR n = 1) AS fits FROM (
    SELECT *, row_number() OVER w AS n, sum(size) OVER w AS total FROM (${first(
      t,
      ROW,
      'available_at',
      `destination = $1 AND status = 2 AND available_at <= (SELECT now FROM t) AND ${inLanes('$2')}`,
      bound,
      '$5::int + 1',
    )}) AS c ${WINDOW('available_at')}
  ) AS x
),
taken AS MATERIALIZED (
  SELECT $4::int - count(*) AS rows, $6::bigint - coalesce(sum(size), 0) AS bytes, count(*) = 0 AS nothing FROM due WHERE fits
),
fresh AS MATERIALIZED (${first(t, ROW, 'seq', pending('$3::bigint'), bound, '(SELECT rows FROM taken)')}),
whole AS MATERIALIZED (
  SELECT coalesce(sum(size), 0) <= (SELECT bytes FROM taken) AND ${OLD_ENOUGH('max(created_at)')} IS NOT FALSE AS fits,
    coalesce(max(seq), $3::bigint) AS last
  FROM fresh
)
${boundedPart(t, KIND.due, 'due', '', '(SELECT now FROM t) - d.available_at')}
UNION ALL
${part(t, String(KIND.fresh), 'NULL', 'fresh', 'd.event_id', ' WHERE (SELECT fits FROM whole)')}
UNION ALL
${boundedPart(
  t,
  KIND.fresh,
  `(
  SELECT *, (total <= (SELECT bytes FROM taken) OR (n = 1 AND (SELECT nothing FROM taken))) AND ${OLD_ENOUGH('youngest')} AS fits FROM (
    SELECT *, row_number() OVER w AS n, sum(size) OVER w AS total, max(created_at) OVER w AS youngest FROM fresh ${WINDOW('seq')}
  ) AS x
)`,
  ' WHERE NOT (SELECT fits FROM whole)',
)}
UNION ALL
SELECT ${KIND.swept}, NULL, s.id, s.seq, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, ${NO_EVENT_FIELDS}
FROM (
  SELECT id, seq FROM ${t.deliveries}
  WHERE $9::bigint IS NOT NULL AND destination = $1 AND status = 0 AND seq > $9::bigint AND seq <= $3::bigint
    AND ${unclaimed('(SELECT now FROM t)')} AND ${inLanes('$2')}
  ORDER BY seq LIMIT $10::int
) AS s
UNION ALL
SELECT ${KIND.outlook}, NULL, NULL, ${msBetween(
  '(SELECT now FROM t)',
  `least(${earliest(t, 'status = 2')}, ${earliest(t, 'status = 5')}, ${earliest(t, 'status = 0 AND token IS NOT NULL')})`,
)}, (SELECT 1 FROM ${t.deliveries} WHERE ${pending('(SELECT last FROM whole)')} ORDER BY seq LIMIT 1), NULL, pg_snapshot_xmin(pg_current_snapshot())::text,
  NULL, NULL, pg_snapshot_xmax(pg_current_snapshot())::text,
  ${existsBy('available_at', `${t.deliveries} WHERE destination = $1 AND status = 5 AND available_at <= (SELECT now FROM t) AND ${inLanes('$2')}`)},
  ${unroutedExists(t, 0, 'u.seq')} OR ${unroutedExists(t, 5, 'u.available_at')}, NULL, ${NO_EVENT_FIELDS}`

/** Limits that are written into the text; the first covers what the core asks for by default. */
const BOUNDS = [1_024, 16_384, 1_048_576] as const

const READ = BOUNDS.map((bound) => ({ bound, text: sqlText((t) => readText(t, bound)) }))

const textFor = (limit: number): ((t: PostgresTables) => string) => {
  const found = READ.find(({ bound }) => limit < bound)
  if (found === undefined) throw new RangeError(`a read of ${limit} rows is too much at once`)
  return found.text
}

const BY_IDS = sqlText(
  (t) => `${part(t, String(KIND.fresh), 'NULL', t.deliveries, 'd.event_id', '', `${NOW} - ${DUE_SINCE}`)}
WHERE d.id = ANY($1::uuid[]) AND ${unindexed('d.destination')} = $2 AND ${PENDING} AND ${unclaimed(NOW)}
ORDER BY d.seq`,
)

const orElse = (value: unknown, usual: number): number => (value === null ? usual : Number(value))

/** No literal, because there are thousands: see "Memory" in ARCHITECTURE.md. */
const DeliveryOfRow = plain<
  [row: Row, destination: string, status: StoredDelivery['status']],
  StoredDelivery
>(function (row, destination, status) {
  const { event, problem } = decodeEvent(row, EVENT_AT)
  this.id = asText(row[2])
  this.seq = asBigInt(row[3])
  this.destination = destination
  this.run = orElse(row[4], 1)
  this.lane = asNumber(row[5])
  this.key = asTextOrNull(row[6])
  this.attempts = orElse(row[7], 0)
  this.suspicions = orElse(row[8], 0)
  this.status = status
  this.token = asTextOrNull(row[9])
  this.holdsKey = isTrue(row[10])
  this.size = event?.size ?? 0
  this.behind = isTrue(row[11])
  this.dueForMs = asNumber(row[12])
  this.event = event
  this.problem = problem
})

const byNumber = (a: Row, b: Row): number => asNumber(a[1]) - asNumber(b[1])

const compareSeqs = (a: { readonly seq: bigint }, b: { readonly seq: bigint }): number =>
  a.seq < b.seq ? -1 : a.seq > b.seq ? 1 : 0

export const read = async (
  db: PostgresDatabase,
  t: PostgresTables,
  request: ReadRequest,
): Promise<ReadResult> => {
  const { destination, limit, sweep, sweepLimit } = request
  const rows = await db.rows(textFor(limit)(t), [
    destination,
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
  const parts: [Row[], Row[], Row[], Row[], Row[]] = [[], [], [], [], []]
  for (const row of rows) parts[asNumber(row[0]) as 0 | 1 | 2 | 3 | 4].push(row)
  const swept = parts[KIND.swept].map((row) => ({ id: asText(row[2]), seq: asBigInt(row[3]) }))
  const [outlook = []] = parts[KIND.outlook]
  const nextDueInMs = asNumberOrNull(outlook[3])
  // Parts of a union come in no particular order, so their positions decide.
  return {
    due: parts[KIND.due].sort(byNumber).map((row) => new DeliveryOfRow(row, destination, 'retry')),
    fresh: parts[KIND.fresh].map((row) => new DeliveryOfRow(row, destination, 'pending')).sort(compareSeqs),
    swept: sweep ? swept.sort(compareSeqs).slice(0, sweepLimit) : null,
    sweptMore: swept.length > sweepLimit,
    more: parts[KIND.more].length > 0 || outlook[4] === '1',
    nextDueInMs: nextDueInMs === null ? null : Math.max(0, nextDueInMs),
    activatable: isTrue(outlook[10]),
    unrouted: isTrue(outlook[11]),
    snapshot: { oldest: asBigInt(outlook[6]), next: asBigInt(outlook[9]) },
  }
}

export const readByIds = async (
  db: PostgresDatabase,
  t: PostgresTables,
  destination: string,
  ids: readonly string[],
): Promise<readonly StoredDelivery[]> =>
  (await db.rows(BY_IDS(t), [idList(ids), destination])).map(
    (row) => new DeliveryOfRow(row, destination, 'pending'),
  )
