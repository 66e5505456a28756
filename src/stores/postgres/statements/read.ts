/**
 * The cold path's read: one statement, so that all parts see one snapshot. Bytes are bounded by a running sum in
 * the database, so payloads beyond the bound are never even loaded.
 */
import { LANES, plain, UNROUTED } from '../../../core/model/index.ts'
import type { ReadRequest, ReadResult, StoredDelivery } from '../../../core/spi/index.ts'
import { type FindEvents, lookAgain } from '../../sql/look-again.ts'
import type { PostgresDatabase, Row } from '../database.ts'
import type { PostgresTables } from '../tables.ts'
import { decodeEvent, EVENT_FIELDS, NO_EVENT_FIELDS } from './event-row.ts'
import {
  asBigInt,
  asMs,
  asNumber,
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
const heldBack = (t: PostgresTables, destination: string): string =>
  [2, 3, 6]
    .map((status) =>
      existsBy(
        'h.seq',
        `${t.deliveries} AS h WHERE ${holders('h', 'd', status, destination)} AND h.seq < d.seq`,
      ),
    )
    .join(' OR ')

/** Nearly always nobody holds the key, which one look tells. */
const isHeld = (t: PostgresTables, destination: string): string =>
  existsBy(
    'h.status, h.seq',
    `${t.deliveries} AS h WHERE h.destination = ${destination} AND h.key = d.key AND h.holds_key`,
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
const behind = (t: PostgresTables, destination: string): string => `d.key IS NOT NULL AND (
    (${isHeld(t, destination)} AND (${heldBack(t, destination)}))
    OR (${someUnrouted(t)} AND ${unroutedBefore(t)}))`

const STORED = 'id, event_id, seq, key, run, attempts, suspicions, token, holds_key'

/** What is kept of a row between looking for it and sending it. Parts of a union whose types differ are copied once more. */
const ROW = `${STORED}, lane::smallint AS lane, size, created_at`

const SENT = `${STORED}, lane, due_since`

/** A claim that ran out says nothing about when the row could be sent: that was at its commit. */
const DUE_SINCE = 'CASE WHEN d.token IS NULL THEN d.available_at ELSE d.created_at END'

/**
 * What most rows have in common is one null, which costs least on the way: a first run of which nothing was tried, that
 * nobody claimed, and that could be sent since its event was stored. A missing event was stored at no time.
 */
const RARE = `CASE WHEN d.fits AND (d.run <> 1 OR d.attempts <> 0 OR d.suspicions <> 0 OR d.token IS NOT NULL OR d.holds_key OR d.due_since IS DISTINCT FROM e.created_at)
    THEN json_build_array(d.run, d.attempts, d.suspicions, d.token, d.holds_key, ${asMs('d.due_since')}) END`

type Rare = readonly [
  run: number,
  attempts: number,
  suspicions: number,
  token: string | null,
  holdsKey: boolean,
  dueSinceMs: number | null,
]

const USUAL: Rare = [1, 0, 0, null, false, null]

/**
 * Rows with their events; `destination` binds the one of all. Those that do not fit come back without: they only say that
 * there is more.
 */
const withEvents = (
  t: PostgresTables,
  destination: string,
  from: string,
): string => `d.id, d.seq, d.lane, d.key, ${RARE}, CASE WHEN d.fits AND ${behind(t, destination)} THEN true END, ${EVENT_FIELDS}
FROM (
  ${from}
) AS d LEFT JOIN ${eventOf(t, 'CASE WHEN d.fits THEN d.event_id END')} ON true`

/** Where these are, behind kind and number. */
const RARE_AT = 6
const EVENT_AT = 8
const STORED_AT = EVENT_AT + 8

/**
 * What a row of the answer is about; null, as most are, for fresh ones. The last are rows that did not fit, of which nothing
 * else is said.
 */
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
    SELECT ${columns} FROM ${t.deliveries} AS d WHERE ${where} ORDER BY ${order} LIMIT ${bound}
  ) AS b LIMIT ${limit}) AS b LIMIT ${limit}) AS b LIMIT ${limit}`

const WINDOW = (order: string): string => `WINDOW w AS (ORDER BY ${order} ROWS UNBOUNDED PRECEDING)`

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
 * Whatever is looked up for a row is written once, for all parts together: every node of a plan is started for every read,
 * also of an empty queue. The last row has the outlook where others have what is rare.
 */
const readText = (
  t: PostgresTables,
  bound: number,
): string => `WITH t AS MATERIALIZED (SELECT clock_timestamp() AS now),
due AS MATERIALIZED (
  SELECT *, n <= $5::int AND (total <= $6::bigint OR n = 1) AS fits FROM (
    SELECT *, row_number() OVER w AS n, sum(size) OVER w AS total FROM (${first(
      t,
      `${ROW}, available_at AS due_since`,
      'available_at',
      `destination = $1 AND status = 2 AND available_at <= (SELECT now FROM t) AND ${inLanes('$2')}`,
      bound,
      '$5::int + 1',
    )}) AS c ${WINDOW('due_since')}
  ) AS x
),
taken AS MATERIALIZED (
  SELECT $4::int - count(*) AS rows, $6::bigint - coalesce(sum(size), 0) AS bytes, count(*) = 0 AS nothing FROM due WHERE fits
),
fresh AS MATERIALIZED (${first(t, `${ROW}, ${DUE_SINCE} AS due_since`, 'seq', pending('$3::bigint'), bound, '(SELECT rows FROM taken)')}),
whole AS MATERIALIZED (
  SELECT coalesce(sum(size), 0) <= (SELECT bytes FROM taken) AND ${OLD_ENOUGH('max(created_at)')} IS NOT FALSE AS fits,
    coalesce(max(seq), $3::bigint) AS last
  FROM fresh
)
SELECT d.kind, d.n, ${withEvents(
  t,
  '$1',
  `SELECT CASE WHEN fits THEN ${KIND.due} ELSE ${KIND.more} END AS kind, n, fits, ${SENT} FROM due
  UNION ALL
  SELECT NULL::int, NULL::bigint, true, ${SENT} FROM fresh WHERE (SELECT fits FROM whole)
  UNION ALL
  SELECT CASE WHEN fits THEN NULL ELSE ${KIND.more} END, NULL::bigint, fits, ${SENT} FROM (
    SELECT *, (total <= (SELECT bytes FROM taken) OR (n = 1 AND (SELECT nothing FROM taken))) AND ${OLD_ENOUGH('youngest')} AS fits FROM (
      SELECT *, row_number() OVER w AS n, sum(size) OVER w AS total, max(created_at) OVER w AS youngest FROM fresh ${WINDOW('seq')}
    ) AS x
  ) AS y WHERE NOT (SELECT fits FROM whole)`,
)}
UNION ALL
SELECT ${KIND.swept}, NULL, s.id, s.seq, NULL, NULL, NULL, NULL, ${NO_EVENT_FIELDS}
FROM (
  SELECT id, seq FROM ${t.deliveries}
  WHERE $9::bigint IS NOT NULL AND destination = $1 AND status = 0 AND seq > $9::bigint AND seq <= $3::bigint
    AND ${unclaimed('(SELECT now FROM t)')} AND ${inLanes('$2')}
  ORDER BY seq LIMIT $10::int
) AS s
UNION ALL
SELECT ${KIND.outlook}, NULL, NULL, NULL, NULL, NULL, json_build_array(${asMs('(SELECT now FROM t)')}, ${msBetween(
  '(SELECT now FROM t)',
  `least(${earliest(t, 'status = 2')}, ${earliest(t, 'status = 5')}, ${earliest(t, 'status = 0 AND token IS NOT NULL')})`,
)}, pg_snapshot_xmin(pg_current_snapshot())::text, pg_snapshot_xmax(pg_current_snapshot())::text,
  ${existsBy('seq', `${t.deliveries} WHERE ${pending('(SELECT last FROM whole)')}`)},
  ${existsBy('available_at', `${t.deliveries} WHERE destination = $1 AND status = 5 AND available_at <= (SELECT now FROM t) AND ${inLanes('$2')}`)},
  ${unroutedExists(t, 0, 'u.seq')} OR ${unroutedExists(t, 5, 'u.available_at')}), NULL, ${NO_EVENT_FIELDS}`

type Outlook = readonly [
  nowMs: number,
  nextDueInMs: number | null,
  oldest: string,
  next: string,
  more: boolean,
  activatable: boolean,
  unrouted: boolean,
]

/** Limits that are written into the text; the first covers what the core asks for by default. */
const BOUNDS = [1_024, 16_384, 1_048_576] as const

const READ = BOUNDS.map((bound) => ({ bound, text: sqlText((t) => readText(t, bound)) }))

const textFor = (limit: number): ((t: PostgresTables) => string) => {
  const found = READ.find(({ bound }) => limit < bound)
  if (found === undefined) throw new RangeError(`a read of ${limit} rows is too much at once`)
  return found.text
}

/** Each row has the time where the others have their number. */
const BY_IDS = sqlText(
  (t) => `SELECT NULL, ${asMs(NOW)}, ${withEvents(
    t,
    '$2',
    `SELECT *, true AS fits, ${DUE_SINCE} AS due_since FROM ${t.deliveries} AS d
  WHERE d.id = ANY($1::uuid[]) AND ${unindexed('d.destination')} = $2 AND ${PENDING} AND ${unclaimed(NOW)}`,
  )}
ORDER BY d.seq`,
)

/** No literal, because there are thousands: see "Memory" in ARCHITECTURE.md. */
const DeliveryOfRow = plain<
  [row: Row, destination: string, status: StoredDelivery['status'], nowMs: number],
  StoredDelivery
>(function (row, destination, status, nowMs) {
  const { event, problem } = decodeEvent(row, EVENT_AT)
  const [run, attempts, suspicions, token, holdsKey, dueSinceMs] =
    row[RARE_AT] === null ? USUAL : (JSON.parse(asText(row[RARE_AT])) as Rare)
  this.id = asText(row[2])
  this.seq = asBigInt(row[3])
  this.destination = destination
  this.run = run
  this.lane = asNumber(row[4])
  this.key = asTextOrNull(row[5])
  this.attempts = attempts
  this.suspicions = suspicions
  this.status = status
  this.token = token
  this.holdsKey = holdsKey
  this.size = event?.size ?? 0
  this.behind = isTrue(row[7])
  this.dueForMs = nowMs - (dueSinceMs ?? asNumber(row[STORED_AT]))
  this.event = event
  this.problem = problem
})

const BY_DELIVERIES = sqlText(
  (t) =>
    `SELECT d.id, ${EVENT_FIELDS} FROM unnest($1::uuid[]) AS d (id) CROSS JOIN ${eventOf(
      t,
      `coalesce((SELECT event_id FROM ${t.deliveries} WHERE id = d.id), (SELECT event_id FROM ${t.finished} WHERE id = d.id))`,
    )}`,
)

const findEvents =
  (db: PostgresDatabase, t: PostgresTables): FindEvents =>
  async (ids) =>
    (await db.rows(BY_DELIVERIES(t), [idList(ids)])).map((row) => [asText(row[0]), decodeEvent(row, 1)])

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
  for (const row of rows) parts[asNumber(row[0] ?? KIND.fresh) as 0 | 1 | 2 | 3 | 4].push(row)
  const swept = parts[KIND.swept].map((row) => ({ id: asText(row[2]), seq: asBigInt(row[3]) }))
  const [last = []] = parts[KIND.outlook]
  const [nowMs, nextDueInMs, oldest, next, more, activatable, unrouted] = JSON.parse(
    asText(last[RARE_AT]),
  ) as Outlook
  // Parts of a union come in no particular order, so their positions decide.
  const due = parts[KIND.due].sort(byNumber).map((row) => new DeliveryOfRow(row, destination, 'retry', nowMs))
  const fresh = parts[KIND.fresh]
    .map((row) => new DeliveryOfRow(row, destination, 'pending', nowMs))
    .sort(compareSeqs)
  await lookAgain([...due, ...fresh], findEvents(db, t))
  return {
    due,
    fresh,
    swept: sweep ? swept.sort(compareSeqs).slice(0, sweepLimit) : null,
    sweptMore: swept.length > sweepLimit,
    more: parts[KIND.more].length > 0 || more,
    nextDueInMs: nextDueInMs === null ? null : Math.max(0, nextDueInMs),
    activatable,
    unrouted,
    snapshot: { oldest: asBigInt(oldest), next: asBigInt(next) },
  }
}

export const readByIds = async (
  db: PostgresDatabase,
  t: PostgresTables,
  destination: string,
  ids: readonly string[],
): Promise<readonly StoredDelivery[]> => {
  const answer = await db.rows(BY_IDS(t), [idList(ids), destination])
  const rows = answer.map((row) => new DeliveryOfRow(row, destination, 'pending', asNumber(row[1])))
  await lookAgain(rows, findEvents(db, t))
  return rows
}
