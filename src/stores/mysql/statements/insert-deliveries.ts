/** The deliveries of an insert, joined to the events just written, which know their position. */
import { uuidToHex } from '../../../core/model/index.ts'
import type { NewDelivery, NewEvent } from '../../../core/spi/index.ts'
import type { Tables } from '../../sql/identifiers.ts'
import type { SqlStatement, SqlValue } from '../../sql/sql-executor.ts'
import { checkedTime, type InsertStep, isOurs } from './insert-step.ts'
import { KEY, later, NOW, one, TEXT } from './sql-text.ts'

const DELIVERY_COLUMNS = `id, event_id, seq, destination, run, lane, ${KEY}, size, created_at, status, available_at, token`

/** Status, time and token. Only a time of day has to be compared with the database's clock. */
const dueParts = ({ due, token }: NewDelivery, leaseMs: number): Text => {
  const claimed = token === null ? NOW : later(NOW, Math.trunc(leaseMs))
  if ('atMs' in due) {
    const at = checkedTime('dueAt', due.atMs)
    return {
      text: `IF(? > ${NOW}, 5, 0), IF(? > ${NOW}, ?, ${claimed}), IF(? > ${NOW}, NULL, ?)`,
      params: [at, at, at, at, token],
    }
  }
  const afterMs = Math.max(0, Math.trunc(due.afterMs))
  if (afterMs > 0) return { text: `5, ${later(NOW, afterMs)}, NULL`, params: [] }
  return { text: `0, ${claimed}, ?`, params: [token] }
}

type EventOf = ReadonlyMap<string, NewEvent>

interface Text {
  readonly text: string
  readonly params: readonly SqlValue[]
}

/** Of an event with an idempotency key: nothing is added when it is a duplicate. */
const onlyOurs = (t: Tables, event: NewEvent | undefined, claim: string | null): Text =>
  claim === null || event === undefined || event.idempotencyKey === null
    ? { text: '', params: [] }
    : { text: ` AND ${isOurs(t)}`, params: [event.type, event.idempotencyKey, claim] }

/** Most publishes are one event with one delivery, and then nothing is taken out of JSON. */
const oneDelivery = (
  t: Tables,
  delivery: NewDelivery,
  leaseMs: number,
  eventOf: EventOf,
  claim: string | null,
): SqlStatement => {
  const { id, eventId, destination, lane, key, size } = delivery
  const due = dueParts(delivery, leaseMs)
  const ours = onlyOurs(t, eventOf.get(eventId), claim)
  return one(
    `INSERT INTO ${t.deliveries} (${DELIVERY_COLUMNS})
SELECT UNHEX(?), e.id, e.seq, ?, 1, ?, ?, ?, ${NOW}, ${due.text} FROM ${t.events} AS e WHERE e.id = UNHEX(?)${ours.text}`,
    [uuidToHex(id), destination, lane, key, size, ...due.params, uuidToHex(eventId), ...ours.params],
  )
}

const DELIVERY_FIELDS = [
  'id CHAR(32)',
  'event_id CHAR(32)',
  `destination ${TEXT(64)}`,
  'lane INT',
  `${KEY} ${TEXT(255)}`,
  'size INT',
  `token ${TEXT(64)}`,
  'due_at CHAR(23)',
  'after_ms BIGINT',
  `type ${TEXT(128)}`,
  `idempotency_key ${TEXT(255)}`,
]

const deliveryRow = (
  { id, eventId, destination, lane, key, size, token, due }: NewDelivery,
  event: NewEvent | undefined,
): readonly unknown[] => [
  uuidToHex(id),
  uuidToHex(eventId),
  destination,
  lane,
  key,
  size,
  token,
  'atMs' in due ? checkedTime('dueAt', due.atMs) : null,
  'atMs' in due ? null : Math.max(0, Math.trunc(due.afterMs)),
  event?.type ?? null,
  event?.idempotencyKey ?? null,
]

/** The lowest and the highest of their events, as digits. */
const eventRange = (deliveries: readonly NewDelivery[]): readonly [string, string] => {
  const ids = deliveries.map(({ eventId }) => uuidToHex(eventId)).sort()
  return [ids[0] ?? '', ids.at(-1) ?? '']
}

/**
 * The text is the same however many there are, so that it can be prepared. The range of the events finds no row: they are
 * found by their ids. It names their partitions, because MariaDB opens all that are not ruled out, and refuses one that
 * was made since the transaction first read.
 */
const manyDeliveries = (
  t: Tables,
  deliveries: readonly NewDelivery[],
  leaseMs: number,
  eventOf: EventOf,
  claim: string | null,
): SqlStatement => {
  const due = `COALESCE(CAST(j.due_at AS DATETIME(6)), ${NOW} + INTERVAL (j.after_ms * 1000) MICROSECOND)`
  const columns = DELIVERY_FIELDS.map((field, place) => `${field} PATH '$[${place}]'`).join(', ')
  const ours =
    claim === null
      ? ''
      : ` AND (j.idempotency_key IS NULL OR EXISTS (SELECT 1 FROM ${t.dedup} AS k WHERE k.type = j.type AND k.idempotency_key = j.idempotency_key AND k.claim = UNHEX(?)))`
  return one(
    `INSERT INTO ${t.deliveries} (${DELIVERY_COLUMNS})
SELECT UNHEX(j.id), e.id, e.seq, j.destination, 1, j.lane, j.key, j.size, ${NOW}, IF(${due} > ${NOW}, 5, 0),
  CASE WHEN ${due} > ${NOW} THEN ${due} WHEN j.token IS NULL THEN ${NOW} ELSE ${later(NOW, Math.trunc(leaseMs))} END, IF(${due} > ${NOW}, NULL, j.token)
FROM JSON_TABLE(?, '$[*]' COLUMNS (${columns})) AS j STRAIGHT_JOIN ${t.events} AS e ON e.id = UNHEX(j.event_id)
WHERE e.id BETWEEN UNHEX(?) AND UNHEX(?)${ours}`,
    [
      JSON.stringify(deliveries.map((delivery) => deliveryRow(delivery, eventOf.get(delivery.eventId)))),
      ...eventRange(deliveries),
      ...(claim === null ? [] : [claim]),
    ],
  )
}

/** An event that is not there, because it is a duplicate, has no deliveries. */
export const deliveryStep = (
  t: Tables,
  deliveries: readonly NewDelivery[],
  leaseMs: number,
  eventOf: EventOf,
  claim: string | null,
): InsertStep => {
  const [only] = deliveries
  return {
    ...(deliveries.length === 1 && only !== undefined
      ? oneDelivery(t, only, leaseMs, eventOf, claim)
      : manyDeliveries(t, deliveries, leaseMs, eventOf, claim)),
    events: 0,
    undo: one(
      `DELETE FROM ${t.deliveries} WHERE id IN (${deliveries.map(() => 'UNHEX(?)').join(', ')})`,
      deliveries.map(({ id }) => uuidToHex(id)),
    ),
  }
}
