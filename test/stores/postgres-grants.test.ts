/** The grants of docs/postgres.md are enough for each role, and not more than that. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Store } from '../../src/core/spi/index.ts'
import { type PostgresHandle, postgresStore, type SqlExecutor } from '../../src/stores/postgres/index.ts'
import type { StoreHarness } from '../../src/testing/suites/index.ts'
import { StoreFixture } from '../../src/testing/suites/store-fixture.ts'
import { createWorld, type World } from './postgres-words.ts'
import { newPostgresUrl } from './servers.ts'
import { testContext } from './sqlite-files.ts'

const PAGE = readFileSync(join(import.meta.dirname, '..', '..', 'docs', 'postgres.md'), 'utf8')

/** The statements that the page has for this role, as they stand there. */
const grantsFor = (role: string): string[] =>
  [...PAGE.matchAll(/^GRANT [^;]+;$/gm)].map(([text]) => text).filter((text) => text.endsWith(` TO ${role};`))

let world: World
const opened: Store<PostgresHandle, SqlExecutor>[] = []

beforeEach(async () => {
  world = await createWorld(newPostgresUrl(), { layout: 'partitioned', period: 'month' })
})

afterEach(async () => {
  for (const store of opened.splice(0)) await store.close()
  for (const role of ['publisher', 'worker', 'viewer']) {
    const name = roleName(role)
    await world.hand.query(
      `DO $$ BEGIN IF EXISTS (SELECT 1 FROM pg_roles WHERE rolname = '${name}') THEN EXECUTE 'DROP OWNED BY ${name}; DROP ROLE ${name}'; END IF; END $$`,
    )
  }
  await world.close()
})

/** Roles belong to the whole server, so each test has its own. */
const roleName = (role: string): string => `${world.schema}_${role}`

const fixtureAs = async (role: string): Promise<StoreFixture> => {
  const name = roleName(role)
  await world.hand.query(`CREATE ROLE ${name} LOGIN PASSWORD 'secret'`)
  // The server lets everybody call functions unless somebody takes that away, as careful owners do.
  await world.hand.query(`REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA ${world.schema} FROM PUBLIC`)
  const grants = grantsFor(role)
  expect(grants.length).toBeGreaterThan(0)
  for (const text of grants) {
    await world.hand.query(
      text
        .replaceAll('outbox.', `${world.schema}.`)
        .replaceAll('SCHEMA outbox', `SCHEMA ${world.schema}`)
        .replace(` TO ${role};`, ` TO ${name}`),
    )
  }
  const url = new URL(world.url)
  url.username = name
  url.password = 'secret'
  const store = postgresStore({
    connectionString: url.href,
    schema: world.schema,
    layout: 'partitioned',
    period: 'month',
    listen: false,
  })
  await store.open(testContext())
  opened.push(store)
  return new StoreFixture({ store } as unknown as StoreHarness)
}

const REFUSED = { code: 'POSTHASTE_STORE_READ_ONLY', transient: false }

describe('grants', () => {
  it('a publisher publishes, and does nothing else', async () => {
    const t = await fixtureAs('publisher')
    const { current, latest } = await t.store.schema.status()
    expect(current).toBe(latest)
    await t.publish()
    await t.insert({ ...many(t), lockKeys: true })
    await t.publish({ idempotencyKey: 'once' })
    const again = t.prepare({ idempotencyKey: 'once' })
    const { duplicates } = await t.insert({ events: [again.event], deliveries: [again.delivery] })
    expect(duplicates.size).toBe(1)
    await t.transactions.run(async (tx) => {
      await (tx as PostgresHandle).query(
        `SELECT ${world.schema}.publish_event('t', '1'::json, idempotency_key => 'x')`,
      )
    })
    await expect(t.read()).rejects.toMatchObject(REFUSED)
    await expect(t.worker()).rejects.toMatchObject(REFUSED)
    await expect(t.store.inspection.list({ limit: 1 })).rejects.toMatchObject(REFUSED)
    expect((await world.t.read()).fresh.length).toBe(4)
  })

  it('a worker does all that a worker and an operator do', async () => {
    const t = await fixtureAs('worker')
    const { store } = t
    const act = { actor: 'ops', reason: null }
    await t.declare('alpha', 'beta')
    const me = await t.worker()
    await store.lanes.take(me.id, 'alpha', 64)
    await store.lanes.survey(me.id, ['alpha'])
    await store.lanes.renew(me.id, 60_000)
    const [head] = await t.keyWithHeld(2, me)
    const [done, dead, hot] = [await t.publish(), await t.publish(), await t.publish({ token: t.newId() })]
    await t.done(done, me.right)
    await t.dead(dead, me.right)
    await t.done(head, me.right)
    await store.queue.extend([{ id: hot.delivery.id, token: hot.delivery.token! }], 1_000)
    await store.queue.suspect({ workerId: me.id, ids: [dead.delivery.id], token: t.newId(), spendFrom: 3 })
    await t.publish({ due: { afterMs: 1 } })
    await store.queue.activate({ workerId: me.id, destination: 'alpha', lanes: null, limit: 10 })
    await store.queue.claim(me.id, [dead.delivery.id], 5)
    await store.queue.expand({ workerId: me.id, registryVersion: 1, expansions: [] })
    await store.registry.configure('alpha', { paused: false }, act)
    const found = await store.registry.findUnreconciled('beta', 10)
    await store.registry.reconcile('beta', [], found.scannedTo)
    await store.operations.redrive({ deliveryIds: [dead.delivery.id], limit: 1 }, act)
    await store.operations.replay({ deliveryIds: [done.delivery.id], limit: 1 }, act)
    await store.operations.discard({ destination: 'beta', limit: 1 }, act)
    const another = await t.publish()
    await t.dead(another, me.right)
    await store.operations.edit(
      another.delivery.id,
      { ...t.event(), replacesId: another.event.id },
      t.newId(),
      act,
    )
    await store.maintenance.recordStatistics(10)
    await store.maintenance.takeDuty('cleanup', me.id)
    await store.maintenance.cleanup({
      doneOlderThanMs: 0,
      deadOlderThanMs: 0,
      dedupOlderThanMs: 0,
      limit: 100,
    })
    await store.maintenance.finishDuty('cleanup', me.id)
    await store.inspection.counts()
    await store.inspection.audit({ limit: 1 })
    await store.lanes.giveUp(me.id, 'alpha', [{ lane: 0, epoch: 1 }])
    await store.lanes.retire(me.id)
  })

  it('a worker makes and drops no tables', async () => {
    const t = await fixtureAs('worker')
    const request = { lookAheadMs: 9e10, doneOlderThanMs: 1e9, deadOlderThanMs: null, lockTimeoutMs: 50 }
    await expect(t.store.maintenance.partitions!(request)).rejects.toMatchObject(REFUSED)
  })

  it('a viewer looks, and changes nothing', async () => {
    const published = await world.t.publish()
    const t = await fixtureAs('viewer')
    const { inspection, operations } = t.store
    expect((await inspection.list({ limit: 10 })).deliveries.length).toBe(1)
    expect((await inspection.event(published.event.id))?.event.id).toBe(published.event.id)
    await inspection.counts()
    await inspection.workers()
    await inspection.blockedKeys({ limit: 1 })
    await inspection.audit({ limit: 1 })
    await expect(t.publish()).rejects.toMatchObject(REFUSED)
    const target = { deliveryIds: [published.delivery.id], limit: 1 }
    await expect(operations.discard(target, { actor: 'x', reason: null })).rejects.toMatchObject(REFUSED)
  })

  it('a server that cannot be written says so', async () => {
    const name = roleName('viewer')
    await fixtureAs('viewer')
    await world.hand.query(`ALTER ROLE ${name} SET default_transaction_read_only = on`)
    await world.hand.query(`GRANT ALL ON ALL TABLES IN SCHEMA ${world.schema} TO ${name}`)
    const url = new URL(world.url)
    url.username = name
    url.password = 'secret'
    const store = postgresStore({ connectionString: url.href, schema: world.schema, listen: false })
    await store.open(testContext())
    opened.push(store)
    const t = new StoreFixture({ store } as unknown as StoreHarness)
    await expect(t.worker()).rejects.toMatchObject({ code: 'POSTHASTE_STORE_READ_ONLY', transient: true })
  })
})

const many = (t: StoreFixture) => {
  const all = ['k', 'l'].map((key) => t.prepare({ key }))
  return { events: all.map(({ event }) => event), deliveries: all.map(({ delivery }) => delivery) }
}
