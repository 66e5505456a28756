/**
 * Stage 1: one statement however many events and deliveries there are, with or without idempotency keys. Other
 * people's libraries run it, so every value travels as text and is cast from text: libraries differ in what they
 * make of numbers, arrays and JSON, but not of texts. One statement is for our own driver alone.
 */
import { Buffer } from 'node:buffer'
import type { InsertRequest, InsertResult, NewDelivery, NewEvent } from '../../../core/spi/index.ts'
import type { SqlRow, SqlStatement } from '../../sql/sql-executor.ts'
import type { PostgresTables } from '../tables.ts'
import { dropMark, markStands } from './marks.ts'
import { fromMs, MS, sqlText } from './sql-text.ts'

export const EVENT_COLUMNS =
  'id, type, version, key, aggregate_type, aggregate_id, tenant_id, occurred_at, created_at, routes_version, replaces_id, size, content_type, timed_id, headers, payload, payload_bytes'

const DELIVERY_COLUMNS =
  'id, event_id, seq, destination, run, lane, key, status, available_at, token, size, created_at'

/**
 * The time, and the transaction's id, which must be there before a position is drawn: a snapshot in which no
 * transaction is running then proves that every position below the highest one is committed or given up.
 */
const CLOCK = 't AS MATERIALIZED (SELECT clock_timestamp() AS now, pg_current_xact_id() AS xid)'
const AT = 't.now'

/** The clock of a statement that writes nothing unless its mark stands. */
const clockIf = (mark: string): string =>
  `t AS MATERIALIZED (SELECT clock_timestamp() AS now, pg_current_xact_id() AS xid, ${dropMark(mark)} AS dropped WHERE ${markStands(mark)})`

/** One row of nothing says that the mark does not stand. */
const GONE =
  'SELECT NULL::text AS type, NULL::text AS idempotency_key, NULL::text AS winner WHERE NOT EXISTS (SELECT 1 FROM t)'

/** Names are short, because they are repeated for every row. */
export const EVENT_RECORD =
  'id uuid, ty text, ve int, ke text, at text, ai text, te text, oc float8, ro int, re uuid, si int, ct text, he text, tx text, by text, ik text, n int'

/** `from` has the records; `t` is the clock. Only ids of version 7 begin with their time. */
export const eventValues = (
  from: string,
  replaces = `${from}.re`,
): string => `${from}.id, ${from}.ty, ${from}.ve, ${from}.ke, ${from}.at, ${from}.ai, ${from}.te, ${fromMs(`${from}.oc`)}, ${AT},
    ${from}.ro, ${replaces}, ${from}.si, ${from}.ct, substr(${from}.id::text, 15, 1) = '7', ${from}.he::json, ${from}.tx::json, decode(${from}.by, 'hex')`

const DELIVERY_RECORD = 'id uuid, ev uuid, de text, la int, ke text, si int, tk text, du float8, af float8'

/** `d` is the delivery as given, `e` the event as written; `lease` binds the hot lease. */
const deliveryValues = (lease: string): string => {
  const due = `coalesce(${fromMs('d.du')}, ${AT} + d.af * ${MS})`
  return `d.id, e.id, e.seq, d.de, 1, d.la, d.ke,
  CASE WHEN ${due} > ${AT} THEN 5 ELSE 0 END,
  CASE WHEN ${due} > ${AT} THEN ${due} WHEN d.tk IS NOT NULL THEN ${AT} + ${lease}::text::float8 * ${MS} ELSE ${AT} END,
  CASE WHEN ${due} > ${AT} THEN NULL ELSE d.tk END, d.si, ${AT}`
}

/** Rows of a function come in the order of their list, and positions are drawn in the order of the rows. */
const eventsInserted = (t: PostgresTables): string => `e AS (
  INSERT INTO ${t.events} (${EVENT_COLUMNS})
  SELECT ${eventValues('r')}
  FROM t CROSS JOIN json_to_recordset($1::text::json) AS r(${EVENT_RECORD})
  RETURNING id, seq
)`

const deliveriesInserted = (t: PostgresTables): string => `INSERT INTO ${t.deliveries} (${DELIVERY_COLUMNS})
SELECT ${deliveryValues('$3')}
FROM t CROSS JOIN json_to_recordset($2::text::json) AS d(${DELIVERY_RECORD}) JOIN e ON e.id = d.ev`

const INSERT = sqlText((t) => `WITH ${CLOCK}, ${eventsInserted(t)}\n${deliveriesInserted(t)}`)

const INSERT_IF = sqlText(
  (t) => `WITH ${clockIf('$4')}, ${eventsInserted(t)}, d AS (\n${deliveriesInserted(t)}\n)\n${GONE}`,
)

/**
 * The same for what most publishes are: one event of JSON with one delivery that is due at once. Nothing is taken
 * out of JSON, and a function of the schema does it: libraries that prepare nothing would let the server plan two
 * inserts for every event.
 */
const INSERT_ONE = sqlText((t) => {
  const params = Array.from({ length: 18 }, (_, index) => `$${index + 1}::text`)
  return `SELECT ${t.insertOne}(${params.join(', ')})`
})

/**
 * Where a connection keeps what it has prepared, a statement costs the server less than that function. Here the driver is known, so values may
 * be of the types that columns have. The filter gives the transaction its id before a position is drawn (see above). The
 * statement's time is the same wherever it is asked for: what a read sends of a row is least where all times are one.
 */
const INSERT_ONE_PREPARED = sqlText(
  (t) => `WITH e AS (
  INSERT INTO ${t.events} (id, occurred_at, created_at, version, routes_version, size, type, key,
    aggregate_type, aggregate_id, tenant_id, content_type, timed_id, headers, payload)
  SELECT $1::uuid, ${fromMs('$2')}, statement_timestamp(), $3::integer, $4::integer, $5::integer, $6::text, $7::text,
    $8::text, $9::text, $10::text, $11::text, substr($1::uuid::text, 15, 1) = '7', $12::json, $13::json
  WHERE pg_current_xact_id() IS NOT NULL
  RETURNING seq
)
INSERT INTO ${t.deliveries} (${DELIVERY_COLUMNS})
SELECT $14::uuid, $1::uuid, e.seq, $16::text, 1, $15::smallint, $7::text, 0,
  statement_timestamp() + coalesce($18::float8, 0) * ${MS}, $17::text, $5::integer, statement_timestamp()
FROM e`,
)

/**
 * The first writer of a key keeps it, and only what got its key is written. Keys are written in order, so that
 * two transactions with the same ones wait for each other rather than for ever. The answer is what was there
 * before; a winner that committed while we waited is not in our snapshot and has to be asked for again.
 */
const insertOnce = (t: PostgresTables, clock: string): string => `WITH ${clock}, k AS MATERIALIZED (
  SELECT * FROM json_to_recordset($4::text::json) AS k(id uuid, ty text, ik text)
), won AS (
  INSERT INTO ${t.dedup} (type, idempotency_key, event_id, created_at)
  SELECT k.ty, k.ik, k.id, ${AT} FROM t CROSS JOIN k ORDER BY k.ty COLLATE "C", k.ik COLLATE "C"
  ON CONFLICT DO NOTHING RETURNING type, idempotency_key
), e AS (
  INSERT INTO ${t.events} (${EVENT_COLUMNS})
  SELECT ${eventValues('r')}
  FROM t CROSS JOIN json_to_recordset($1::text::json) AS r(${EVENT_RECORD})
  WHERE r.ik IS NULL OR EXISTS (SELECT 1 FROM won WHERE won.type = r.ty AND won.idempotency_key = r.ik)
  ORDER BY r.n
  RETURNING id, seq
), d AS (
${deliveriesInserted(t)}
)
SELECT k.ty AS type, k.ik AS idempotency_key,
  (SELECT f.event_id::text FROM ${t.dedup} AS f WHERE f.type = k.ty AND f.idempotency_key = k.ik) AS winner
FROM t CROSS JOIN k WHERE NOT EXISTS (SELECT 1 FROM won WHERE won.type = k.ty AND won.idempotency_key = k.ik)`

const INSERT_ONCE = sqlText((t) => insertOnce(t, CLOCK))

const INSERT_ONCE_IF = sqlText((t) => `${insertOnce(t, clockIf('$5'))}\nUNION ALL ${GONE}`)

const WINNERS = sqlText(
  (t) => `SELECT f.type, f.idempotency_key, f.event_id::text AS winner
FROM json_to_recordset($1::text::json) AS k(ty text, ik text) JOIN ${t.dedup} AS f ON f.type = k.ty AND f.idempotency_key = k.ik`,
)

const whole = (value: number): string => String(Math.trunc(value))

const hexOf = (data: Uint8Array): string =>
  Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString('hex')

const headersOf = ({ headers }: NewEvent): string | null =>
  Object.keys(headers).length === 0 ? null : JSON.stringify(headers)

export const eventRecord = (event: NewEvent, n: number): object => ({
  id: event.id,
  ty: event.type,
  ve: event.version,
  ke: event.key,
  at: event.aggregateType,
  ai: event.aggregateId,
  te: event.tenantId,
  oc: Math.trunc(event.occurredAtMs),
  ro: event.routesVersion,
  re: event.replacesId,
  si: event.size,
  ct: event.contentType,
  he: headersOf(event),
  ...(typeof event.data === 'string' ? { tx: event.data } : { by: hexOf(event.data) }),
  ik: event.idempotencyKey,
  n,
})

const dueOf = ({ due }: NewDelivery): { readonly du: number | null; readonly af: number | null } =>
  'atMs' in due
    ? { du: Math.trunc(due.atMs), af: null }
    : { du: null, af: Math.max(0, Math.trunc(due.afterMs)) }

const deliveryRecord = (delivery: NewDelivery): object => ({
  id: delivery.id,
  ev: delivery.eventId,
  de: delivery.destination,
  la: delivery.lane,
  ke: delivery.key,
  si: delivery.size,
  tk: delivery.token,
  ...dueOf(delivery),
})

/** What both ways of inserting one can write: they have no parameters for the rest. */
const isPlain = (event: NewEvent, delivery: NewDelivery): boolean =>
  typeof event.data === 'string' &&
  event.replacesId === null &&
  delivery.eventId === event.id &&
  delivery.key === event.key &&
  delivery.size === event.size &&
  'afterMs' in delivery.due &&
  delivery.due.afterMs <= 0

const oneStatement = (
  tables: PostgresTables,
  event: NewEvent,
  delivery: NewDelivery,
  lease: string,
  isPrepared: boolean,
): SqlStatement => ({
  sql: (isPrepared ? INSERT_ONE_PREPARED : INSERT_ONE)(tables),
  params: [
    event.id,
    whole(event.occurredAtMs),
    whole(event.version),
    whole(event.routesVersion),
    whole(event.size),
    event.type,
    event.key,
    event.aggregateType,
    event.aggregateId,
    event.tenantId,
    event.contentType,
    headersOf(event),
    event.data as string,
    delivery.id,
    whole(delivery.lane),
    delivery.destination,
    delivery.token,
    delivery.token === null ? null : lease,
  ],
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

/** Statements that look for a mark have it as their last parameter. */
const marked = (
  tables: PostgresTables,
  [plain, looking]: readonly [(t: PostgresTables) => string, (t: PostgresTables) => string],
  params: readonly string[],
  mark: string | null,
): SqlStatement =>
  mark === null ? { sql: plain(tables), params } : { sql: looking(tables), params: [...params, mark] }

/** With a `mark` nothing is written unless that stands. `isPrepared`: connections keep what they have prepared. */
export const insertStatement = (
  tables: PostgresTables,
  request: InsertRequest,
  mark: string | null,
  isPrepared: boolean,
): SqlStatement | null => {
  const { events, deliveries } = request
  const [event] = events
  const [delivery] = deliveries
  if (event === undefined) return null
  const lease = whole(request.hotLeaseMs)
  const first = firstByKey(events)
  if (first.size === 0) {
    const isOne =
      delivery !== undefined && events.length === 1 && deliveries.length === 1 && isPlain(event, delivery)
    if (isOne && mark === null) return oneStatement(tables, event, delivery, lease, isPrepared)
    const rows = [JSON.stringify(events.map(eventRecord)), JSON.stringify(deliveries.map(deliveryRecord))]
    return marked(tables, [INSERT, INSERT_IF], [...rows, lease], mark)
  }
  const candidates = events.filter(
    (one) => one.idempotencyKey === null || first.get(identityOf(one.type, one.idempotencyKey)) === one,
  )
  const keys = [...first.values()].map(({ id, type, idempotencyKey }) => ({
    id,
    ty: type,
    ik: idempotencyKey,
  }))
  const rows = deliveriesOf(request, candidates).map(deliveryRecord)
  const lists = [candidates.map(eventRecord), rows].map((list) => JSON.stringify(list))
  const params = [...lists, lease, JSON.stringify(keys)]
  return marked(tables, [INSERT_ONCE, INSERT_ONCE_IF], params, mark)
}

export const isGone = (answer: readonly SqlRow[] | undefined): boolean =>
  answer?.some((row) => row.type === null) === true

const deliveriesOf = (
  { events, deliveries }: InsertRequest,
  candidates: readonly NewEvent[],
): readonly NewDelivery[] => {
  if (candidates.length === events.length) return deliveries
  const ids = new Set(candidates.map(({ id }) => id))
  return deliveries.filter(({ eventId }) => ids.has(eventId))
}

/** For keys whose winner committed while the insert waited for it; null when all winners are known. */
export const winnersStatement = (
  tables: PostgresTables,
  answer: readonly SqlRow[] | undefined,
): SqlStatement | null => {
  const unknown = (answer ?? []).filter((row) => row.winner === null && typeof row.type === 'string')
  if (unknown.length === 0) return null
  const keys = unknown.map((row) => ({ ty: row.type, ik: row.idempotency_key }))
  return { sql: WINNERS(tables), params: [JSON.stringify(keys)] }
}

/** `answers` are the rows of the insert and of the question for unknown winners. */
export const insertResult = (
  request: InsertRequest,
  answers: readonly (readonly SqlRow[] | undefined)[],
): InsertResult => {
  const duplicates = new Map<string, string>()
  const first = firstByKey(request.events)
  if (first.size === 0 || answers[0] === undefined) return { duplicates }
  const winners = new Map<string, string>()
  for (const row of answers.flatMap((rows) => rows ?? [])) {
    if (typeof row.winner === 'string') winners.set(identityOf(row.type, row.idempotency_key), row.winner)
  }
  for (const one of request.events) {
    if (one.idempotencyKey === null) continue
    const identity = identityOf(one.type, one.idempotencyKey)
    const winner =
      winners.get(identity) ?? (first.get(identity) === one ? undefined : first.get(identity)?.id)
    if (winner !== undefined) duplicates.set(one.id, winner)
  }
  return { duplicates }
}
