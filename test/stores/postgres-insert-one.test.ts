/** One plain event is written in two ways: by a statement that is planned once, and by a function where nothing is prepared. */
import { afterEach, describe, expect, it } from 'vitest'
import { createWorld, type World } from './postgres-words.ts'
import { newPostgresUrl } from './servers.ts'

const LEASE_MS = 30_000

let world: World
const sent: string[] = []

afterEach(() => world.close())

const open = async (prepare: boolean): Promise<World> => {
  world = await createWorld(newPostgresUrl(), { prepare, onStatement: (sql) => sent.push(sql) })
  sent.length = 0
  return world
}

const FULL = {
  data: '{"a": 1,  "b":"é"}',
  key: 'k-é',
  headers: { trace: 'x' },
  version: 3,
  aggregateType: 'order',
  aggregateId: 'o-1',
  tenantId: 'acme',
}

describe.each([true, false])('prepared: %s', (prepare) => {
  it('stores what was published, all at one time', async () => {
    const { t, hand, schema } = await open(prepare)
    const plain = await t.publish(FULL)
    expect(sent.some((sql) => sql.includes('insert_one'))).toBe(!prepare)
    const [event] = (await hand.query(`SELECT *, payload::text AS data FROM ${schema}.events`)).rows
    expect(event).toMatchObject({
      id: plain.event.id,
      data: FULL.data,
      key: FULL.key,
      headers: FULL.headers,
      version: 3,
      aggregate_type: 'order',
      aggregate_id: 'o-1',
      tenant_id: 'acme',
      timed_id: true,
      replaces_id: null,
      size: plain.event.size,
    })
    const [delivery] = (
      await hand.query(
        `SELECT d.*, d.created_at = e.created_at AND d.available_at = e.created_at AS at_once, d.seq = e.seq AS in_place
         FROM ${schema}.deliveries AS d JOIN ${schema}.events AS e ON e.id = d.event_id`,
      )
    ).rows
    expect(delivery).toMatchObject({
      id: plain.delivery.id,
      destination: 'alpha',
      lane: plain.delivery.lane,
      key: FULL.key,
      run: 1,
      status: 0,
      token: null,
      size: plain.event.size,
      at_once: true,
      in_place: true,
    })
  })

  it('gives a claim as long as was asked for', async () => {
    const { t, hand, schema } = await open(prepare)
    const token = t.newId()
    const { event, delivery } = t.prepare({ token })
    await t.insert({ events: [event], deliveries: [delivery], hotLeaseMs: LEASE_MS })
    const { rows } = await hand.query(
      `SELECT token, (extract(epoch FROM available_at - created_at) * 1000)::int AS lease FROM ${schema}.deliveries`,
    )
    expect(rows).toEqual([{ token, lease: LEASE_MS }])
  })
})

it('its transaction has an id before it draws a position', async () => {
  const { t, hand, schema } = await open(true)
  await hand.query(`CREATE FUNCTION ${schema}.drawn() RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN
      IF pg_current_xact_id_if_assigned() IS NULL THEN RAISE 'a position without a transaction'; END IF;
      RETURN nextval('${schema}.events_seq');
    END $$;
    ALTER TABLE ${schema}.events ALTER COLUMN seq SET DEFAULT ${schema}.drawn()`)
  const published = await t.publish()
  expect(await t.status(published)).toBe('pending')
})
