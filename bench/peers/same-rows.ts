/**
 * The rows that Posthaste writes, in its own tables, written and moved by hand: what part of the cost is the rows
 * themselves. A relay takes a batch with SKIP LOCKED and keeps its history; no lanes, retries, order or fan-out.
 */
import { randomUUID } from 'node:crypto'
import type { ClientBase } from 'pg'
import { BATCH, type ByHand, openByHand, RELAY_SETTINGS } from './by-hand.ts'
import { DESTINATION } from './outbox.ts'
import { EVENT_TYPE, keyOf, type Payload, payloadOf } from './payload.ts'
import { posthaste } from './posthaste.ts'
import type { Subject } from './subject.ts'

const LANES = 64

/** A UUID of version 7, as Posthaste makes them: new rows come at the end of every index, but for those of the same millisecond. */
const newId = (): string => {
  const time = Date.now().toString(16).padStart(12, '0')
  return `${time.slice(0, 8)}-${time.slice(8)}-7${randomUUID().slice(15)}`
}

/** As long as the id of a worker, which Posthaste notes there. */
const SETTLED_BY = '0'.repeat(36)

/** Prepared, as the one of Posthaste is. */
const INSERT = {
  name: 'same_rows_one',
  text: `WITH e AS (
    INSERT INTO outbox.events (id, occurred_at, created_at, version, routes_version, size, type, key, content_type, payload)
    VALUES ($1, now(), now(), 1, 1, octet_length($4), $2, $3, 'application/json', $4::text::json)
    RETURNING id, seq, key, size
  )
  INSERT INTO outbox.deliveries (id, event_id, seq, available_at, created_at, size, run, lane, status, destination, key)
  SELECT $5, id, seq, now(), now(), size, 1, $6, 0, '${DESTINATION}', key FROM e`,
}

const INSERT_MANY = {
  name: 'same_rows_many',
  text: `WITH e AS (
    INSERT INTO outbox.events (id, occurred_at, created_at, version, routes_version, size, type, key, content_type, payload)
    SELECT r.id, now(), now(), 1, 1, octet_length(r.payload), $1, r.key, 'application/json', r.payload::json
    FROM unnest($2::uuid[], $3::text[], $4::text[]) AS r (id, key, payload)
    RETURNING id, seq, key, size
  )
  INSERT INTO outbox.deliveries (id, event_id, seq, available_at, created_at, size, run, lane, status, destination, key)
  SELECT d.id, e.id, e.seq, now(), now(), e.size, 1, d.lane, 0, '${DESTINATION}', e.key
  FROM unnest($2::uuid[], $5::uuid[], $6::smallint[]) AS d (event_id, id, lane) JOIN e ON e.id = d.event_id`,
}

const insertOne = (client: ClientBase, n: number, keyed: boolean): Promise<unknown> => {
  const key = keyed ? keyOf(n) : null
  return client.query({
    ...INSERT,
    values: [newId(), EVENT_TYPE, key, JSON.stringify(payloadOf(n)), newId(), n % LANES],
  })
}

const insertMany = (client: ClientBase, numbers: readonly number[]): Promise<unknown> =>
  client.query({
    ...INSERT_MANY,
    values: [
      EVENT_TYPE,
      numbers.map(newId),
      numbers.map(() => null),
      numbers.map((n) => JSON.stringify(payloadOf(n))),
      numbers.map(newId),
      numbers.map((n) => n % LANES),
    ],
  })

/** The payload as it lies there: Posthaste does not parse one that nobody reads, either. */
const TAKE = `WITH taken AS (
    DELETE FROM outbox.deliveries WHERE id IN (
      SELECT id FROM outbox.deliveries WHERE destination = '${DESTINATION}' AND status = 0
      ORDER BY seq LIMIT ${BATCH} FOR UPDATE SKIP LOCKED)
    RETURNING id, event_id, seq, created_at, size, run, attempts, suspicions, lane, destination, key
  ), kept AS (
    INSERT INTO outbox.finished (id, event_id, seq, created_at, finished_at, size, run, attempts, suspicions, lane, status, destination, key, settled_by)
    SELECT id, event_id, seq, created_at, now(), size, run, attempts + 1, suspicions, lane, 1, destination, key, '${SETTLED_BY}' FROM taken
  )
  SELECT e.id, e.type, e.key, e.payload::text AS payload
  FROM taken CROSS JOIN LATERAL (SELECT * FROM outbox.events WHERE id = taken.event_id LIMIT 1) AS e`

const PARTS: ByHand = {
  channel: 'same_rows',
  tables: posthaste.tables,
  take: TAKE,
  numberOf: ({ payload }) => (JSON.parse(String(payload)) as Payload).n,
  insert: insertOne,
  insertMany,
}

export const sameRows: Subject = {
  name: 'samerows',
  label: 'the same rows by hand',
  settings: RELAY_SETTINGS,
  sections: ['drain', 'publish'],
  unordered: 'it keeps no order: two relays take batches beside each other',
  tables: posthaste.tables,
  unfinished: posthaste.unfinished,
  install: posthaste.install,
  open: (options) => openByHand(options, PARTS),
  history: { none: 'growth is measured with the tables of others' },
}
