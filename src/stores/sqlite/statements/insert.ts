/**
 * Stage 1. Two statements however many events there are, three when one of them has an idempotency key. The
 * list is made by a pure function, so that the asynchronous and the synchronous insert cannot differ.
 */
import { Buffer } from 'node:buffer'
import { uuidFromBytes, uuidToHex } from '../../../core/model/uuid.ts'
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

const EVENT_VALUES = `unhex(j.value->>'id'), j.value->>'type', j.value->>'v', j.value->>'k', j.value->>'at', j.value->>'ai',
  j.value->>'tn', j.value->>'oc', ${NOW}, j.value->>'rv', unhex(j.value->>'rp'), j.value->>'s', j.value->>'ct', j.value->>'h',
  CASE WHEN j.value->>'b' IS NULL THEN j.value->>'p' ELSE unhex(j.value->>'b') END`

/** In the order of the request, because that is the order in which positions are drawn. */
const EVENTS = sqlText(
  (t) => `INSERT INTO ${t.events} (${EVENT_COLUMNS})
SELECT ${EVENT_VALUES} FROM json_each(?) AS j ORDER BY j.key`,
)

const EVENTS_UNLESS_DUPLICATE = sqlText(
  (t) => `INSERT INTO ${t.events} (${EVENT_COLUMNS})
SELECT ${EVENT_VALUES} FROM json_each(?) AS j
WHERE j.value->>'ik' IS NULL OR EXISTS (
  SELECT 1 FROM ${t.dedup} WHERE type = j.value->>'type' AND idempotency_key = j.value->>'ik' AND event_id = unhex(j.value->>'id')
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
  SELECT unhex(j.value->>'id') AS id, unhex(j.value->>'e') AS event_id, j.value->>'d' AS destination, j.value->>'l' AS lane,
    j.value->>'k' AS key, j.value->>'s' AS size, j.value->>'t' AS token, ${NOW} AS now,
    coalesce(j.value->>'at', ${NOW} + (j.value->>'in')) AS due
  FROM json_each(?) AS j
) AS n CROSS JOIN ${t.events} AS e ON e.id = n.event_id`,
)

const eventJson = (event: NewEvent): object => ({
  id: uuidToHex(event.id),
  type: event.type,
  v: event.version,
  k: event.key,
  at: event.aggregateType,
  ai: event.aggregateId,
  tn: event.tenantId,
  oc: Math.trunc(event.occurredAtMs),
  rv: event.routesVersion,
  rp: event.replacesId === null ? null : uuidToHex(event.replacesId),
  s: event.size,
  ct: event.contentType,
  h: Object.keys(event.headers).length === 0 ? null : JSON.stringify(event.headers),
  ik: event.idempotencyKey,
  ...(typeof event.data === 'string'
    ? { p: event.data }
    : { b: Buffer.from(event.data.buffer, event.data.byteOffset, event.data.byteLength).toString('hex') }),
})

const deliveryJson = (delivery: NewDelivery): object => ({
  id: uuidToHex(delivery.id),
  e: uuidToHex(delivery.eventId),
  d: delivery.destination,
  l: delivery.lane,
  k: delivery.key,
  s: delivery.size,
  t: delivery.token,
  ...('atMs' in delivery.due
    ? { at: Math.trunc(delivery.due.atMs) }
    : { in: Math.max(0, Math.trunc(delivery.due.afterMs)) }),
})

/** The statement that writes one event outside a publish, for an operator's edit. */
export const eventStatement = (tables: Tables, event: NewEvent): SqlStatement => ({
  sql: EVENTS(tables),
  params: [JSON.stringify([eventJson(event)])],
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
  statements.push({ sql: insert(tables), params: [JSON.stringify(request.events.map(eventJson))] })
  if (request.deliveries.length > 0) {
    const deliveries = JSON.stringify(request.deliveries.map(deliveryJson))
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
