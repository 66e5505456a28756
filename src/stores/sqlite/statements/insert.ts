/**
 * Stage 1. Two statements however many events there are, three when one of them has an idempotency key. The
 * list is made by a pure function, so that the asynchronous and the synchronous insert cannot differ.
 */
import { Buffer } from 'node:buffer'
import { uuidFromBytes, uuidToHex } from '../../../core/model/index.ts'
import type { InsertRequest, InsertResult, NewDelivery, NewEvent } from '../../../core/spi/index.ts'
import type { Tables } from '../../sql/identifiers.ts'
import type { SqlRow, SqlStatement } from '../../sql/sql-executor.ts'
import { NOW, sqlText } from './sql-text.ts'

/** The first writer of a key keeps it; the update that changes nothing is there to learn who that was. */
const DEDUP = sqlText(
  (t) => `INSERT INTO ${t.dedup} (type, idempotency_key, event_id, created_at)
SELECT j.value->>'type', j.value->>'ik', unhex(j.value->>'id'), ${NOW} FROM json_each(?) AS j
WHERE true ORDER BY j.key
ON CONFLICT (type, idempotency_key) DO UPDATE SET event_id = event_id
RETURNING type, idempotency_key, lower(hex(event_id)) AS winner`,
)

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
const delivery = places(['id', 'event', 'destination', 'lane', 'key', 'size', 'token', 'at', 'in'])

const EVENT_VALUES = `unhex(${event('id')}), ${event('type')}, ${event('version')}, ${event('key')},
  ${event('aggregateType')}, ${event('aggregateId')}, ${event('tenantId')}, ${event('occurredAt')}, ${NOW},
  ${event('routesVersion')}, unhex(${event('replacesId')}), ${event('size')}, ${event('contentType')}, ${event('headers')},
  CASE WHEN ${event('bytes')} IS NULL THEN ${event('text')} ELSE unhex(${event('bytes')}) END`

/** In the order of the request, because that is the order in which positions are drawn. */
const EVENTS = sqlText(
  (t) => `INSERT INTO ${t.events} (${EVENT_COLUMNS})
SELECT ${EVENT_VALUES} FROM json_each(?) AS j ORDER BY j.key`,
)

const EVENTS_UNLESS_DUPLICATE = sqlText(
  (t) => `INSERT INTO ${t.events} (${EVENT_COLUMNS})
SELECT ${EVENT_VALUES} FROM json_each(?) AS j
WHERE ${event('idempotencyKey')} IS NULL OR EXISTS (
  SELECT 1 FROM ${t.dedup} WHERE type = ${event('type')} AND idempotency_key = ${event('idempotencyKey')}
    AND event_id = unhex(${event('id')})
) ORDER BY j.key`,
)

/** Joined to the events just written, so that deliveries of a duplicate fall away by themselves. */
const DELIVERIES = sqlText(
  (
    t,
  ) => `INSERT INTO ${t.deliveries} (id, event_id, seq, destination, run, lane, key, status, available_at, token, size, created_at)
SELECT n.id, e.id, e.seq, n.destination, 1, n.lane, n.key,
  CASE WHEN n.due > n.now THEN 5 ELSE 0 END,
  CASE WHEN n.due > n.now THEN n.due WHEN n.token IS NOT NULL THEN n.now + ? ELSE n.now END,
  CASE WHEN n.due > n.now THEN NULL ELSE n.token END, n.size, n.now
FROM (
  SELECT unhex(${delivery('id')}) AS id, unhex(${delivery('event')}) AS event_id, ${delivery('destination')} AS destination,
    ${delivery('lane')} AS lane, ${delivery('key')} AS key, ${delivery('size')} AS size, ${delivery('token')} AS token,
    ${NOW} AS now, coalesce(${delivery('at')}, ${NOW} + (${delivery('in')})) AS due
  FROM json_each(?) AS j
) AS n CROSS JOIN ${t.events} AS e ON e.id = n.event_id`,
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

const deliveryRow = ({
  id,
  eventId,
  destination,
  lane,
  key,
  size,
  token,
  due,
}: NewDelivery): readonly unknown[] => [
  uuidToHex(id),
  uuidToHex(eventId),
  destination,
  lane,
  key,
  size,
  token,
  'atMs' in due ? Math.trunc(due.atMs) : null,
  'atMs' in due ? null : Math.max(0, Math.trunc(due.afterMs)),
]

/** The statement that writes one event outside a publish, for an operator's edit. */
export const eventStatement = (tables: Tables, event: NewEvent): SqlStatement => ({
  sql: EVENTS(tables),
  params: [JSON.stringify([eventRow(event)])],
})

export const insertStatements = (tables: Tables, request: InsertRequest): readonly SqlStatement[] => {
  if (request.events.length === 0) return []
  const keyed = request.events.filter((event) => event.idempotencyKey !== null)
  const statements: SqlStatement[] = []
  if (keyed.length > 0) {
    const claims = keyed.map((event) => ({
      id: uuidToHex(event.id),
      type: event.type,
      ik: event.idempotencyKey,
    }))
    statements.push({ sql: DEDUP(tables), params: [JSON.stringify(claims)] })
  }
  const insert = keyed.length > 0 ? EVENTS_UNLESS_DUPLICATE : EVENTS
  statements.push({ sql: insert(tables), params: [JSON.stringify(request.events.map(eventRow))] })
  if (request.deliveries.length > 0) {
    const deliveries = JSON.stringify(request.deliveries.map(deliveryRow))
    statements.push({ sql: DELIVERIES(tables), params: [Math.trunc(request.hotLeaseMs), deliveries] })
  }
  return statements
}

const NO_DUPLICATES: InsertResult = { duplicates: new Map() }

/** `answers` are the rows of each statement, in order; undefined where the client's library returns none. */
export const insertResult = (
  request: InsertRequest,
  answers: readonly (readonly SqlRow[] | undefined)[],
): InsertResult => {
  const keyed = request.events.filter((event) => event.idempotencyKey !== null)
  const winners = keyed.length === 0 ? undefined : answers[0]
  if (winners === undefined) return NO_DUPLICATES
  const nameOf = (type: unknown, key: unknown): string => JSON.stringify([type, key])
  const winnerOf = new Map(
    winners.map((row) => [
      nameOf(row.type, row.idempotency_key),
      uuidFromBytes(Buffer.from(String(row.winner), 'hex')),
    ]),
  )
  const duplicates = new Map<string, string>()
  for (const event of keyed) {
    const winner = winnerOf.get(nameOf(event.type, event.idempotencyKey))
    if (winner !== undefined && winner !== event.id.toLowerCase()) duplicates.set(event.id, winner)
  }
  return { duplicates }
}
