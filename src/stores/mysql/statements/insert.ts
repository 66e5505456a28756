/**
 * Stage 1. Two statements however many events there are, three when one of them has an idempotency key; more only
 * where one packet would become too large. Other people's libraries run them, so there is one statement per call
 * and nothing but `?` for texts, numbers and bytes; ids travel as digits.
 *
 * An application may catch our error and commit, so a failed insert must leave nothing behind: an idempotency
 * key without its event would swallow every later try. So each step says how it is taken back. A savepoint would
 * cost two statements on every insert.
 */
import { Buffer } from 'node:buffer'
import { laneOf, UNROUTED, uuidFromBytes, uuidToHex } from '../../../core/model/index.ts'
import type { InsertRequest, InsertResult, NewEvent } from '../../../core/spi/index.ts'
import type { Tables } from '../../sql/identifiers.ts'
import type { SqlRow, SqlStatement, SqlValue } from '../../sql/sql-executor.ts'
import { deliveryStep } from './insert-deliveries.ts'
import { checkedTime, type InsertStep, isOurs } from './insert-step.ts'
import { type Condition, markStands, rowsIf } from './marks.ts'
import { KEY, NOW, one } from './sql-text.ts'

/** One packet: escaped or as digits it is at most twice as large. */
const MAX_BYTES = 2 * 1_048_576
const MAX_ROWS = 1_000

const EVENT_COLUMNS = `id, type, version, ${KEY}, aggregate_type, aggregate_id, tenant_id, occurred_at, created_at, routes_version, replaces_id, size, content_type, headers, payload, payload_bytes`

/** Bytes are said to be bytes, or a prepared statement could take them for text. */
const EVENT_VALUES = `UNHEX(?), ?, ?, ?, ?, ?, ?, ?, ${NOW}, ?, UNHEX(?), ?, ?, ?, ?, CAST(? AS BINARY)`

const eventParams = (event: NewEvent): SqlValue[] => [
  uuidToHex(event.id),
  event.type,
  event.version,
  event.key,
  event.aggregateType,
  event.aggregateId,
  event.tenantId,
  checkedTime('occurredAt', event.occurredAtMs),
  event.routesVersion,
  event.replacesId === null ? null : uuidToHex(event.replacesId),
  event.size,
  event.contentType,
  Object.keys(event.headers).length === 0 ? null : JSON.stringify(event.headers),
  typeof event.data === 'string' ? event.data : null,
  typeof event.data === 'string' ? null : event.data,
]

const eventStep = (
  t: Tables,
  events: readonly NewEvent[],
  claim: string | null,
  mark: Condition | null = null,
): InsertStep => {
  const rows = events.map((event) => {
    const conditions = mark === null ? [] : [mark]
    if (claim !== null && event.idempotencyKey !== null) {
      conditions.push({ text: isOurs(t), params: [event.type, event.idempotencyKey, claim] })
    }
    return { values: EVENT_VALUES, conditions, params: eventParams(event) }
  })
  const isPlain = claim === null && mark === null
  const ours = written(t, events, claim)
  const source = isPlain ? `VALUES ${events.map(() => `(${EVENT_VALUES})`).join(', ')}` : rowsIf(rows)
  return {
    ...one(
      `INSERT INTO ${t.events} (${EVENT_COLUMNS})\n${source}`,
      rows.flatMap(({ params, conditions }) => [...params, ...conditions.flatMap((each) => each.params)]),
    ),
    events: events.length,
    undo: one(`DELETE FROM ${t.events} WHERE ${ours.text}`, ours.params),
    removal: one(`DELETE FROM ${t.events} WHERE (${ours.text}) AND ${isUndelivered(t)}`, ours.params),
  }
}

/** An event that was there before has our id and not our claim. */
const written = (t: Tables, events: readonly NewEvent[], claim: string | null): Condition => {
  const parts = events.map(({ id, type, idempotencyKey }) =>
    claim === null || idempotencyKey === null
      ? { text: 'id = UNHEX(?)', params: [uuidToHex(id)] }
      : { text: `(id = UNHEX(?) AND ${isOurs(t)})`, params: [uuidToHex(id), type, idempotencyKey, claim] },
  )
  return { text: parts.map(({ text }) => text).join(' OR '), params: parts.flatMap(({ params }) => params) }
}

/**
 * Our deliveries are gone when this runs, so an event that has some is that of another try with the same id, stored
 * meanwhile. Locks, because its snapshot may be older than the commit that the row of the event was waited for.
 */
const isUndelivered = (t: Tables): string =>
  [t.deliveries, t.finished]
    .map(
      (table) =>
        `NOT EXISTS (SELECT 1 FROM ${table} AS d WHERE d.event_id = ${t.events}.id LOCK IN SHARE MODE)`,
    )
    .join(' AND ')

/** The statement that writes one event outside a publish, for an operator's edit. */
export const eventStatement = (t: Tables, event: NewEvent): SqlStatement => {
  const { sql, params } = eventStep(t, [event], null)
  return { sql, params }
}

const identityOf = (type: unknown, idempotencyKey: unknown): string => JSON.stringify([type, idempotencyKey])

const hexOf = (text: string): string => Buffer.from(text).toString('hex')

/** The first event of each idempotency key in the request. */
const firstByKey = (events: readonly NewEvent[]): ReadonlyMap<string, NewEvent> => {
  const first = new Map<string, NewEvent>()
  for (const event of events) {
    if (event.idempotencyKey === null) continue
    const identity = identityOf(event.type, event.idempotencyKey)
    if (!first.has(identity)) first.set(identity, event)
  }
  return first
}

/**
 * The first writer of a key keeps it; a second one waits for the first one's end, and changes nothing. Sorted, so
 * that two transactions with the same keys wait for each other rather than for ever.
 */
const dedupStep = (
  t: Tables,
  events: readonly NewEvent[],
  claim: string,
  mark: Condition | null,
): InsertStep => {
  const values = `?, ?, UNHEX(?), UNHEX(?), ${NOW}`
  const source =
    mark === null
      ? `VALUES ${events.map(() => `(${values})`).join(', ')}`
      : rowsIf(events.map(() => ({ values, conditions: [mark] })))
  const params = events.flatMap(({ type, idempotencyKey, id }) => [
    type,
    idempotencyKey,
    uuidToHex(id),
    claim,
    ...(mark?.params ?? []),
  ])
  const keys = events.map(() => '(?, ?)').join(', ')
  return {
    ...one(
      `INSERT INTO ${t.dedup} (type, idempotency_key, event_id, claim, created_at) ${source}
ON DUPLICATE KEY UPDATE event_id = ${t.dedup}.event_id`,
      params,
    ),
    events: 0,
    undo: one(`DELETE FROM ${t.dedup} WHERE (type, idempotency_key) IN (${keys}) AND claim = UNHEX(?)`, [
      ...events.flatMap(({ type, idempotencyKey }) => [type, idempotencyKey]),
      claim,
    ]),
  }
}

/**
 * Locks, because a snapshot that is older than the winner's commit would not show it. Texts come back as digits, because
 * the connection's character set may not be able to carry them.
 */
export const winnersStatement = (t: Tables, request: InsertRequest): SqlStatement => {
  const first = [...firstByKey(request.events).values()]
  return one(
    `SELECT LOWER(HEX(type)) AS type, LOWER(HEX(idempotency_key)) AS idempotency_key, LOWER(HEX(event_id)) AS winner, LOWER(HEX(claim)) AS claim FROM ${t.dedup}
WHERE (type, idempotency_key) IN (${first.map(() => '(?, ?)').join(', ')}) FOR UPDATE`,
    first.flatMap(({ type, idempotencyKey }) => [type, idempotencyKey]),
  )
}

/** Writers of a key take turns: its lane of the destination that nobody serves is theirs until they commit. */
export const lockStatement = (t: Tables, { events }: InsertRequest): SqlStatement | null => {
  const lanes = new Set(events.flatMap(({ key }) => (key === null ? [] : [laneOf(key)])))
  if (lanes.size === 0) return null
  const list = [...lanes].sort((a, b) => a - b).join(', ')
  return one(
    `SELECT lane FROM ${t.lanes} WHERE destination = '${UNROUTED}' AND lane IN (${list}) ORDER BY lane FOR UPDATE`,
  )
}

const chunks = <T>(items: readonly T[], sizeOf: (item: T) => number): readonly (readonly T[])[] => {
  const all: T[][] = []
  let bytes = 0
  for (const item of items) {
    bytes += sizeOf(item)
    const last = all.at(-1)
    if (last !== undefined && bytes <= MAX_BYTES && last.length < MAX_ROWS) {
      last.push(item)
      continue
    }
    all.push([item])
    bytes = sizeOf(item)
  }
  return all
}

export interface InsertPlan {
  readonly steps: readonly InsertStep[]
  /** Null when there can be no duplicates. */
  readonly claim: string | null
}

/** `newClaim` is asked once per call. With a mark nothing is written unless that stands. */
export const insertPlan = (t: Tables, request: InsertRequest, newClaim: () => string): InsertPlan => {
  const first = firstByKey(request.events)
  const claim = first.size === 0 ? null : uuidToHex(newClaim())
  const mark = request.mark === undefined ? null : markStands(t, request.mark)
  const candidates = request.events.filter(
    (event) =>
      event.idempotencyKey === null || first.get(identityOf(event.type, event.idempotencyKey)) === event,
  )
  const eventOf = new Map(candidates.map((event) => [event.id, event]))
  const steps: InsertStep[] = []
  if (claim !== null) {
    const sorted = [...first.entries()].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, event]) => event)
    for (const chunk of chunks(sorted, () => 1)) steps.push(dedupStep(t, chunk, claim, mark))
  }
  for (const chunk of chunks(candidates, ({ size }) => size)) steps.push(eventStep(t, chunk, claim, mark))
  const deliveries = request.deliveries.filter(({ eventId }) => eventOf.has(eventId))
  for (const chunk of chunks(deliveries, () => 1))
    steps.push(deliveryStep(t, chunk, request.hotLeaseMs, eventOf, claim))
  return { steps, claim }
}

/** Of events whose key was used earlier in the same call; nobody else had it before. */
export const ownDuplicates = ({ events }: InsertRequest): InsertResult => {
  const duplicates = new Map<string, string>()
  const first = firstByKey(events)
  for (const event of events) {
    const winner = first.get(identityOf(event.type, event.idempotencyKey))
    if (winner !== undefined && winner !== event) duplicates.set(event.id, winner.id)
  }
  return { duplicates }
}

/** `winners` are the rows of `winnersStatement`; undefined where the client's library returns none. */
export const insertResult = (
  request: InsertRequest,
  claim: string,
  winners: readonly SqlRow[] | undefined,
): InsertResult => {
  const duplicates = new Map<string, string>()
  const first = firstByKey(request.events)
  const found = new Map((winners ?? []).map((row) => [identityOf(row.type, row.idempotency_key), row]))
  for (const event of request.events) {
    if (event.idempotencyKey === null) continue
    const identity = identityOf(event.type, event.idempotencyKey)
    const row = found.get(identityOf(hexOf(event.type), hexOf(event.idempotencyKey)))
    if (row === undefined || (row.claim === claim && first.get(identity) === event)) continue
    duplicates.set(event.id, uuidFromBytes(Buffer.from(String(row.winner), 'hex')))
  }
  return { duplicates }
}
