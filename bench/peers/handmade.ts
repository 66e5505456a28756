/**
 * The outbox table that a good programmer writes in an afternoon: an INSERT in the business transaction, and a
 * relay that deletes a batch with SKIP LOCKED, handles it, and commits. No fan-out, retries, order or history.
 */
import pg from 'pg'
import { BATCH, type ByHand, openByHand, RELAY_SETTINGS } from './by-hand.ts'
import { EVENT_TYPE, keyOf, type Payload, payloadOf } from './payload.ts'
import type { Subject } from './subject.ts'

const TABLES = ['handmade.outbox']

const INSERT = 'INSERT INTO handmade.outbox (type, key, payload) VALUES ($1, $2, $3)'

const INSERT_MANY = `INSERT INTO handmade.outbox (type, key, payload)
  SELECT $1, e.key, e.payload::json FROM unnest($2::text[], $3::text[]) AS e (key, payload)`

const TAKE = `DELETE FROM handmade.outbox WHERE id IN (
    SELECT id FROM handmade.outbox ORDER BY id LIMIT ${BATCH} FOR UPDATE SKIP LOCKED)
  RETURNING id, type, key, payload`

const PARTS: ByHand = {
  channel: 'handmade',
  tables: TABLES,
  take: TAKE,
  numberOf: ({ payload }) => (payload as Payload).n,
  insert: (client, n, keyed) =>
    client.query(INSERT, [EVENT_TYPE, keyed ? keyOf(n) : null, JSON.stringify(payloadOf(n))]),
  insertMany(client, numbers) {
    const payloads = numbers.map((n) => JSON.stringify(payloadOf(n)))
    return client.query(INSERT_MANY, [EVENT_TYPE, numbers.map(keyOf), payloads])
  },
}

export const handmade: Subject = {
  name: 'handmade',
  label: 'hand-written table',
  settings: RELAY_SETTINGS,
  unordered: 'it keeps no order: two relays take batches beside each other',
  tables: TABLES,
  unfinished: 'SELECT EXISTS (SELECT FROM handmade.outbox) AS unfinished',
  async install(url) {
    const client = new pg.Client(url)
    await client.connect()
    await client.query(`CREATE SCHEMA handmade;
      CREATE TABLE handmade.outbox (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, type text NOT NULL, key text,
        payload json NOT NULL, created_at timestamptz NOT NULL DEFAULT now())`)
    await client.end()
  },
  open: (options) => openByHand(options, PARTS),
  history: { none: 'what was handled is deleted' },
}
