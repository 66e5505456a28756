/** The SQL function for triggers and other languages: what it stores is what the library would have stored. */
import { afterEach, beforeEach, expect, it } from 'vitest'
import { laneOf, uuidTimestampMs } from '../../src/core/model/index.ts'
import { createWorld, type World } from './postgres-words.ts'
import { newPostgresUrl } from './servers.ts'

let world: World

beforeEach(async () => {
  world = await createWorld(newPostgresUrl())
})

afterEach(() => world.close())

const call = async (args: string, params: unknown[] = []): Promise<string> =>
  (await world.hand.query(`SELECT ${world.schema}.publish_event(${args}) AS id`, params)).rows[0].id

it('stores one unrouted event that any worker can expand', async () => {
  const id = await call(
    `type => 'order.placed', payload => $1::text::json, key => 'k-é', headers => '{"a":"b"}', aggregate_type => 'order', aggregate_id => 'o-1', tenant_id => 'acme', version => 3`,
    ['{"b": 1, "a":2.0}'],
  )
  const [row] = await world.t.store.queue.readUnrouted(10)
  expect(row).toMatchObject({ eventId: id, type: 'order.placed', key: 'k-é', size: 17 })
  const detail = await world.t.store.inspection.event(id)
  expect(detail?.event).toMatchObject({
    id,
    data: '{"b": 1, "a":2.0}',
    contentType: 'application/json',
    aggregateType: 'order',
    aggregateId: 'o-1',
    tenantId: 'acme',
    version: 3,
    replacesId: null,
  })
  expect({ ...detail?.event.headers }).toEqual({ a: 'b' })
  expect(Math.abs((uuidTimestampMs(id) ?? 0) - Date.now())).toBeLessThan(60_000)
  expect(detail?.deliveries).toMatchObject([{ destination: '*', status: 'pending', run: 1 }])
})

it('computes the lane as the library does', async () => {
  for (const key of ['', 'a', 'customer-17', 'é', '漢字', '🙂', 'x'.repeat(255)]) {
    const id = await call(`'t', '1'::json, key => $1`, [key])
    const detail = await world.t.store.inspection.event(id)
    expect(detail?.deliveries[0]?.lane).toBe(laneOf(key))
  }
  const id = await call(`'t', '1'::json`)
  expect((await world.t.store.inspection.event(id))?.deliveries[0]?.lane).toBe(laneOf(id))
})

it('rolls back with its transaction', async () => {
  await world.hand.query('BEGIN')
  const id = await call(`'t', '1'::json`)
  await world.hand.query('ROLLBACK')
  expect(await world.t.store.inspection.event(id)).toBeNull()
})

it('delays', async () => {
  const id = await call(`'t', '1'::json, delay => interval '1 hour'`)
  const [delivery] = (await world.t.store.inspection.event(id))!.deliveries
  expect(delivery?.status).toBe('scheduled')
  expect(delivery!.availableAtMs! - Date.now()).toBeGreaterThan(3_500_000)
})

it('publishes an idempotency key once and returns the first id', async () => {
  const first = await call(`'t', '1'::json, idempotency_key => 'once'`)
  expect(await call(`'t', '2'::json, idempotency_key => 'once'`)).toBe(first)
  expect(await call(`'u', '2'::json, idempotency_key => 'once'`)).not.toBe(first)
  expect((await world.t.store.queue.readUnrouted(10)).length).toBe(2)
  const again = world.t.prepare({ type: 't', idempotencyKey: 'once' })
  const { duplicates } = await world.t.insert({ events: [again.event], deliveries: [again.delivery] })
  expect([...duplicates.values()]).toEqual([first])
})

it('refuses what the library would refuse', async () => {
  await expect(call(`NULL, '1'::json`)).rejects.toThrow('needs a type')
  await expect(call(`'t', NULL`)).rejects.toThrow('needs a type')
  await expect(call(`'t', to_json(repeat('x', 1048577))`)).rejects.toThrow('more than 1048576')
})

it('serves a trigger', async () => {
  const { schema } = world
  await world.hand.query(`
    CREATE TABLE ${schema}.orders (id int, total int);
    CREATE FUNCTION ${schema}.say() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
      PERFORM ${schema}.publish_event('order.placed', to_json(NEW), key => NEW.id::text); RETURN NEW; END $$;
    CREATE TRIGGER say AFTER INSERT ON ${schema}.orders FOR EACH ROW EXECUTE FUNCTION ${schema}.say()`)
  await world.hand.query(`INSERT INTO ${schema}.orders VALUES (1, 10), (2, 20)`)
  const rows = await world.t.store.queue.readUnrouted(10)
  expect(rows.map((row) => row.key)).toEqual(['1', '2'])
})

it.each([
  "occurred_at => 'infinity'",
  "occurred_at => '-infinity'",
  "occurred_at => '20000-01-01'",
  "delay => '9000 years'",
])('refuses %s: a time that no reader can hold would be in the way of all other rows', async (argument) => {
  await expect(call(`'t', '1'::json, ${argument}`)).rejects.toMatchObject({ code: '22008' })
})

it.each([
  [`'t', '1'::json, version => 0`],
  [`'order.*', '1'::json`],
  [`'t', '1'::json, headers => '[]'`],
  [`'t', '1'::json, headers => '{"a":1}'`],
  [`'t', '1'::json, key => repeat('x', 256)`],
  [`repeat('t', 129), '1'::json`],
])('refuses what the library refuses: %s', async (args) => {
  await expect(call(args)).rejects.toMatchObject({ message: expect.stringContaining('publish_event') })
})
