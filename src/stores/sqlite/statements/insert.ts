/**
 * Stage 1. Two statements however many events there are, three when one of them has an idempotency key. The
 * list is made by a pure function, so that the asynchronous and the synchronous insert cannot differ.
 *
 * An application may catch our error and commit, so a failed insert must leave nothing behind: an idempotency
 * key without its event would swallow every later try. Therefore keys are written last, and what was written
 * before a failure is taken back by `undoStatements`. A savepoint would cost two statements on every insert.
 */
import { Buffer } from 'node:buffer'
import { uuidFromBytes, uuidToHex } from '../../../core/model/index.ts'
import type { InsertRequest, InsertResult, NewDelivery, NewEvent } from '../../../core/spi/index.ts'
import type { Tables } from '../../sql/identifiers.ts'
import type { SqlRow, SqlStatement } from '../../sql/sql-executor.ts'
import { markStands } from './marks.ts'
import { NOW, sqlText } from './sql-text.ts'

/**
 * The first writer of a key keeps it; the update that changes nothing is there to learn who that was. A key of which
 * there is neither event nor first writer is that of an event which was rolled back before this could be sent.
 */
const DEDUP = sqlText(
  (t) => `INSERT INTO ${t.dedup} (type, idempotency_key, event_id, created_at)
SELECT j.value->>'type', j.value->>'ik', unhex(j.value->>'id'), ${NOW} FROM json_each(?) AS j
WHERE EXISTS (SELECT 1 FROM ${t.events} WHERE id = unhex(j.value->>'id'))
  OR EXISTS (SELECT 1 FROM ${t.dedup} WHERE type = j.value->>'type' AND idempotency_key = j.value->>'ik')
ORDER BY j.key
ON CONFLICT (type, idempotency_key) DO UPDATE SET event_id = event_id
RETURNING type, idempotency_key, lower(hex(event_id)) AS winner`,
)

/** Holds until DEDUP has run, for events that come with the first use of their key or without one. */
const isFirst = (t: Tables, type: string, key: string): string =>
  `(${key} IS NULL OR NOT EXISTS (SELECT 1 FROM ${t.dedup} WHERE type = ${type} AND idempotency_key = ${key}))`

const EVENT_COLUMNS =
  'id, type, version, key, aggregate_type, aggregate_id, tenant_id, occurred_at, created_at, routes_version, replaces_id, size, content_type, headers, payload'

/**
 * Rows travel as JSON arrays: SQLite finds a place in an array faster than a name in an object, which took a
 * third of the time of a large publish.
 */
const places =
  <Name extends string>(names: readonly Name[]): ((name: Name) => string) =>
  (name) =>
    `j.value->>${names.indexOf(name)}`

/** In the order of `eventRow`. */
const event = places([
  'id',
  'type',
  'version',
  'key',
  'aggregateType',
  'aggregateId',
  'tenantId',
  'occurredAt',
  'routesVersion',
  'replacesId',
  'size',
  'contentType',
  'headers',
  'text',
  'bytes',
  'idempotencyKey',
])

/** In the order of `deliveryRow`. */
const delivery = places([
  'id',
  'event',
  'destination',
  'lane',
  'key',
  'size',
  'token',
  'at',
  'in',
  'idempotencyKey',
])

const EVENT_VALUES = `unhex(${event('id')}), ${event('type')}, ${event('version')}, ${event('key')},
  ${event('aggregateType')}, ${event('aggregateId')}, ${event('tenantId')}, ${event('occurredAt')}, ${NOW},
  ${event('routesVersion')}, unhex(${event('replacesId')}), ${event('size')}, ${event('contentType')}, ${event('headers')},
  CASE WHEN ${event('bytes')} IS NULL THEN ${event('text')} ELSE unhex(${event('bytes')}) END`

/**
 * Positions are drawn in the order of the request: `json_each` walks its array from the front, and there is
 * nothing else in the FROM. An ORDER BY would say so, but copies every payload into a sorter first.
 */
const eventsText = (t: Tables): string => `INSERT INTO ${t.events} (${EVENT_COLUMNS})
SELECT ${EVENT_VALUES} FROM json_each(?) AS j`

const EVENTS = sqlText(eventsText)
const EVENTS_IF = sqlText((t) => `${eventsText(t)} WHERE ${markStands(t)}`)

/** Says what it wrote: a repeated event has the id of the first, so the winner of the key alone does not tell. */
const firstEventsText = (t: Tables, condition: string): string => `${eventsText(t)}
WHERE ${condition}${isFirst(t, event('type'), event('idempotencyKey'))} ORDER BY j.key
RETURNING lower(hex(id)) AS written`

const FIRST_EVENTS = sqlText((t) => firstEventsText(t, ''))
const FIRST_EVENTS_IF = sqlText((t) => firstEventsText(t, `${markStands(t)} AND `))

/** Joined to the events just written, which know their position. */
const deliveriesText = (
  t: Tables,
): string => `INSERT INTO ${t.deliveries} (id, event_id, seq, destination, run, lane, key, status, available_at, token, size, created_at)
SELECT n.id, e.id, e.seq, n.destination, 1, n.lane, n.key,
  CASE WHEN n.due > n.now THEN 5 ELSE 0 END,
  CASE WHEN n.due > n.now THEN n.due WHEN n.token IS NOT NULL THEN n.now + ? ELSE n.now END,
  CASE WHEN n.due > n.now THEN NULL ELSE n.token END, n.size, n.now
FROM (
  SELECT unhex(${delivery('id')}) AS id, unhex(${delivery('event')}) AS event_id, ${delivery('destination')} AS destination,
    ${delivery('lane')} AS lane, ${delivery('key')} AS key, ${delivery('size')} AS size, ${delivery('token')} AS token,
    ${NOW} AS now, coalesce(${delivery('at')}, ${NOW} + (${delivery('in')})) AS due, ${delivery('idempotencyKey')} AS ik
  FROM json_each(?) AS j
) AS n CROSS JOIN ${t.events} AS e ON e.id = n.event_id`

const DELIVERIES = sqlText(deliveriesText)

/** A repeated event may have the id of the first; that one must not be delivered again. */
const FIRST_DELIVERIES = sqlText((t) => `${deliveriesText(t)} WHERE ${isFirst(t, 'e.type', 'n.ik')}`)

/** Ids of what FIRST_EVENTS or EVENTS wrote, as long as DEDUP has not run. */
const writtenEvents = (t: Tables): string =>
  `(SELECT unhex(${event('id')}) FROM json_each(?) AS j WHERE ${isFirst(t, event('type'), event('idempotencyKey'))})`

const UNDO_DELIVERIES = sqlText((t) => `DELETE FROM ${t.deliveries} WHERE event_id IN ${writtenEvents(t)}`)

const UNDO_EVENTS = sqlText((t) => `DELETE FROM ${t.events} WHERE id IN ${writtenEvents(t)}`)

const TAKE_BACK_DELIVERIES = sqlText(
  (t) => `DELETE FROM ${t.deliveries} WHERE event_id IN (SELECT unhex(value) FROM json_each(?))`,
)

const TAKE_BACK_EVENTS = sqlText(
  (t) => `DELETE FROM ${t.events} WHERE id IN (SELECT unhex(value) FROM json_each(?))`,
)

const hexOf = (data: Uint8Array): string =>
  Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString('hex')

const eventRow = (event: NewEvent): readonly unknown[] => [
  uuidToHex(event.id),
  event.type,
  event.version,
  event.key,
  event.aggregateType,
  event.aggregateId,
  event.tenantId,
  Math.trunc(event.occurredAtMs),
  event.routesVersion,
  event.replacesId === null ? null : uuidToHex(event.replacesId),
  event.size,
  event.contentType,
  Object.keys(event.headers).length === 0 ? null : JSON.stringify(event.headers),
  typeof event.data === 'string' ? event.data : null,
  typeof event.data === 'string' ? null : hexOf(event.data),
  event.idempotencyKey,
]

const deliveryRow = (
  { id, eventId, destination, lane, key, size, token, due }: NewDelivery,
  idempotencyKey: string | null,
): readonly unknown[] => [
  uuidToHex(id),
  uuidToHex(eventId),
  destination,
  lane,
  key,
  size,
  token,
  'atMs' in due ? Math.trunc(due.atMs) : null,
  'atMs' in due ? null : Math.max(0, Math.trunc(due.afterMs)),
  idempotencyKey,
]

/** The statement that writes one event outside a publish, for an operator's edit. */
export const eventStatement = (tables: Tables, event: NewEvent): SqlStatement => ({
  sql: EVENTS(tables),
  params: [JSON.stringify([eventRow(event)])],
})

const identityOf = (type: unknown, idempotencyKey: unknown): string => JSON.stringify([type, idempotencyKey])

/** The first event of each idempotency key in the request: one statement cannot see what it writes itself. */
const firstByKey = (events: readonly NewEvent[]): ReadonlyMap<string, NewEvent> => {
  const first = new Map<string, NewEvent>()
  for (const one of events) {
    if (one.idempotencyKey === null) continue
    const identity = identityOf(one.type, one.idempotencyKey)
    if (!first.has(identity)) first.set(identity, one)
  }
  return first
}

export const insertStatements = (tables: Tables, request: InsertRequest): readonly SqlStatement[] => {
  const { events, deliveries } = request
  if (events.length === 0) return []
  const lease = Math.trunc(request.hotLeaseMs)
  const first = firstByKey(events)
  const write = (
    rows: readonly NewEvent[],
    [plain, looking]: readonly [(t: Tables) => string, (t: Tables) => string],
  ): SqlStatement => {
    const list = JSON.stringify(rows.map(eventRow))
    return request.mark === undefined
      ? { sql: plain(tables), params: [list] }
      : { sql: looking(tables), params: [list, request.mark] }
  }
  if (first.size === 0) {
    const statements = [write(events, [EVENTS, EVENTS_IF])]
    if (deliveries.length === 0) return statements
    const rows = JSON.stringify(deliveries.map((one) => deliveryRow(one, null)))
    return [...statements, { sql: DELIVERIES(tables), params: [lease, rows] }]
  }
  const candidates = events.filter(
    (one) => one.idempotencyKey === null || first.get(identityOf(one.type, one.idempotencyKey)) === one,
  )
  const statements = [write(candidates, [FIRST_EVENTS, FIRST_EVENTS_IF])]
  if (deliveries.length > 0) {
    const keyOf = new Map(candidates.map((one) => [one.id, one.idempotencyKey]))
    const rows = deliveries.flatMap((one) => {
      const idempotencyKey = keyOf.get(one.eventId)
      return idempotencyKey === undefined ? [] : [deliveryRow(one, idempotencyKey)]
    })
    statements.push({ sql: FIRST_DELIVERIES(tables), params: [lease, JSON.stringify(rows)] })
  }
  const claims = [...first.values()].map(({ id, type, idempotencyKey }) => ({
    id: uuidToHex(id),
    type,
    ik: idempotencyKey,
  }))
  return [...statements, { sql: DEDUP(tables), params: [JSON.stringify(claims)] }]
}

const LOOK = sqlText((t) => `SELECT 1 FROM ${t.events} WHERE id = unhex(?)`)

/**
 * One row where an event is seen that the first of `insertStatements`, which was answered so, has written for certain. Null
 * where it wrote none, or nobody knows which.
 */
export const writtenStatement = (
  tables: Tables,
  { events }: InsertRequest,
  answer: readonly SqlRow[] | undefined,
): SqlStatement | null => {
  const plain = events.find(({ idempotencyKey }) => idempotencyKey === null)
  const id = plain === undefined ? answer?.[0]?.written : uuidToHex(plain.id)
  return typeof id === 'string' ? { sql: LOOK(tables), params: [id] } : null
}

const takeBack = (tables: Tables, ids: readonly string[]): readonly SqlStatement[] =>
  [TAKE_BACK_DELIVERIES, TAKE_BACK_EVENTS].map((text) => ({
    sql: text(tables),
    params: [JSON.stringify(ids)],
  }))

/** Removes what the first of `insertStatements`, which was answered so, has written, and nothing that others have. */
export const removalStatements = (
  tables: Tables,
  { events }: InsertRequest,
  answer: readonly SqlRow[] | undefined,
): readonly SqlStatement[] => {
  const plain = events.filter(({ idempotencyKey }) => idempotencyKey === null).map(({ id }) => uuidToHex(id))
  const keyed = (answer ?? []).flatMap(({ written }) => (typeof written === 'string' ? [written] : []))
  return takeBack(tables, [...plain, ...keyed])
}

/** Takes back what was written, when a statement of `insertStatements` after the first one failed. */
export const undoStatements = (tables: Tables, [events]: readonly SqlStatement[]): readonly SqlStatement[] =>
  events === undefined
    ? []
    : [UNDO_DELIVERIES, UNDO_EVENTS].map((text) => ({ sql: text(tables), params: events.params.slice(0, 1) }))

/**
 * Of two publishes of one transaction with a new key both may have written before the first of them had the key: an
 * asynchronous client sends their statements in turns. The second takes back what it wrote.
 */
export const overtakenStatements = (
  tables: Tables,
  { duplicates }: InsertResult,
  [written]: readonly (readonly SqlRow[] | undefined)[],
): readonly SqlStatement[] => {
  if (duplicates.size === 0 || written === undefined) return []
  const losers = new Set([...duplicates.keys()].map((id) => uuidToHex(id).toLowerCase()))
  const ids = written.map((row) => String(row.written)).filter((id) => losers.has(id))
  return ids.length === 0 ? [] : takeBack(tables, ids)
}

const NO_DUPLICATES: InsertResult = { duplicates: new Map() }

/** `answers` are the rows of each statement, in order; undefined where the client's library returns none. */
export const insertResult = (
  request: InsertRequest,
  answers: readonly (readonly SqlRow[] | undefined)[],
): InsertResult => {
  const first = firstByKey(request.events)
  const [written, winners] = [answers[0], answers.at(-1)]
  if (first.size === 0 || written === undefined || winners === undefined) return NO_DUPLICATES
  const writtenIds = new Set(written.map((row) => row.written))
  const winnerOf = new Map(
    winners.map((row) => [
      identityOf(row.type, row.idempotency_key),
      uuidFromBytes(Buffer.from(String(row.winner), 'hex')),
    ]),
  )
  const duplicates = new Map<string, string>()
  for (const one of request.events) {
    if (one.idempotencyKey === null) continue
    const winner = winnerOf.get(identityOf(one.type, one.idempotencyKey))
    const isWinner = winner === one.id.toLowerCase() && writtenIds.has(uuidToHex(one.id).toLowerCase())
    if (winner !== undefined && !isWinner) duplicates.set(one.id, winner)
  }
  return { duplicates }
}
