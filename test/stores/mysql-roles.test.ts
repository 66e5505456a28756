/** What docs/mysql.md says about triggers and rights is run as it stands there. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { mysqlStore } from '../../src/stores/mysql/index.ts'
import type { StoreHarness } from '../../src/testing/suites/index.ts'
import { StoreFixture } from '../../src/testing/suites/store-fixture.ts'
import { runByHand } from './mysql-harness.ts'
import { createWorld, SERVERS, type World } from './mysql-words.ts'
import { serverUrl } from './servers.ts'
import { testContext } from './sqlite-files.ts'

const PAGE = readFileSync(join(import.meta.dirname, '..', '..', 'docs', 'mysql.md'), 'utf8')
const BLOCKS = [...PAGE.matchAll(/```sql\n([\s\S]*?)```/g)].map(([, block = '']) => block)

let world: World

/** The page's names, replaced by those of this test. */
const blockWith = (text: string): string => {
  const found = BLOCKS.find((block) => block.includes(text))
  if (found === undefined) throw new Error(`docs/mysql.md has no block with ${text}`)
  return found
    .replaceAll('outbox_', world.harness.prefix)
    .replaceAll('orders', `${world.harness.prefix}orders`)
}

const databaseOf = (): string => new URL(serverUrl(world.server)).pathname.slice(1)

/** A user with the rights that the page gives to this role, and a store as this user. */
const storeOf = async (role: string, layout: 'plain' | 'partitioned' = 'plain') => {
  const user = `${world.harness.prefix}${role}`.slice(0, 32)
  const grants = BLOCKS.flatMap((block) => block.split('\n'))
    .filter((line) => line.startsWith('GRANT') && line.includes(`'${role}'@`))
    .filter((line) => layout === 'partitioned' || !/LOCK TABLES|ALTER, CREATE, DROP, INSERT/.test(line))
    .map((line) =>
      line
        .replaceAll('outbox_', world.harness.prefix)
        .replaceAll('shop.', `${databaseOf()}.`)
        .replaceAll(`'${role}'@'%'`, `'${user}'@'%'`),
    )
  await runByHand(world.server, `CREATE USER '${user}'@'%' IDENTIFIED BY 'Secret-1'; ${grants.join('\n')}`)
  const url = new URL(serverUrl(world.server))
  url.username = user
  url.password = 'Secret-1'
  const store = mysqlStore({
    connectionString: url.toString(),
    prefix: world.harness.prefix,
    layout,
    period: 'month',
  })
  await store.open(testContext())
  return {
    store,
    t: new StoreFixture({ store, dispose: async () => undefined } as unknown as StoreHarness),
    close: async () => {
      await store.close()
      await runByHand(world.server, `DROP USER '${user}'@'%'`)
    },
  }
}

describe.each(SERVERS)('%s', (server) => {
  beforeEach(async () => {
    world = await createWorld(server)
  })

  afterEach(() => world.close())

  it('a trigger publishes as the page shows, and what it published is routed like any other', async () => {
    const { t, hand } = world
    const orders = world.table('orders')
    await hand.query(`CREATE TABLE ${orders} (id VARCHAR(20) PRIMARY KEY, total INT)`)
    await hand.query(blockWith('CREATE TRIGGER'))
    await hand.query(`INSERT INTO ${orders} VALUES ('o-é', 5), ('o-2', 7)`)
    await hand.query(`START TRANSACTION; INSERT INTO ${orders} VALUES ('o-3', 9); ROLLBACK`)
    const unrouted = await t.store.queue.readUnrouted(10)
    expect(unrouted.map(({ type, key }) => [type, key])).toEqual([
      ['order.placed', 'o-é'],
      ['order.placed', 'o-2'],
    ])
    const detail = await t.store.inspection.event(unrouted[0]!.eventId)
    expect(JSON.parse(detail!.event.data as string)).toEqual({ orderId: 'o-é', total: 5 })
    expect(detail!.event.id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
    await hand.query(`DROP TABLE ${orders}`)
  })

  it('a publisher publishes with the rights of the page, and no more', async () => {
    const publisher = await storeOf('publisher')
    await publisher.t.publish({ key: 'k' })
    await publisher.t.publish({ idempotencyKey: 'once' })
    await publisher.t.publish({ idempotencyKey: 'once' })
    const one = publisher.t.prepare({ key: 'k' })
    await publisher.t.insert({ events: [one.event], deliveries: [one.delivery], lockKeys: true })
    await publisher.store.registry.load()
    await expect(publisher.t.worker()).rejects.toMatchObject({
      code: 'POSTHASTE_STORE_READ_ONLY',
      transient: false,
      message: expect.stringContaining('docs/mysql.md'),
    })
    expect(await world.t.readableIds()).toHaveLength(3)
    await publisher.close()
  })

  it('a worker does everything but change the tables', async () => {
    const { store, t, close } = await storeOf('worker')
    await t.declare('alpha')
    const me = await t.worker()
    await store.lanes.survey(me.id, ['alpha'])
    const lanes = await store.lanes.take(me.id, 'alpha', 5)
    await store.lanes.giveUp(me.id, 'alpha', lanes)
    const [head, , dead] = await t.keyWithHeld(2, me)
    await t.done(head, me.right)
    await t.dead(dead!, me.right)
    await store.operations.redrive({ destination: 'alpha', limit: 10 }, { actor: 'a', reason: null })
    await t.publish({ due: { afterMs: 1 } })
    await t.until(1, 'it is due', async () => (await t.read()).activatable)
    await store.queue.activate({ workerId: me.id, destination: 'alpha', lanes: null, limit: 10 })
    await store.inspection.counts()
    await store.maintenance.recordStatistics(5)
    await store.maintenance.takeDuty('x', me.id)
    await store.maintenance.cleanup({
      doneOlderThanMs: 0,
      deadOlderThanMs: 0,
      dedupOlderThanMs: 0,
      limit: 10,
    })
    await store.registry.findUnreconciled('alpha', 10)
    await store.lanes.retire(me.id)
    const { current, latest } = await store.schema.status()
    expect(current).toBe(latest)
    await close()
  })

  it('a viewer sees everything and changes nothing', async () => {
    await world.t.publish({ tenantId: 'acme' })
    const { store, t, close } = await storeOf('viewer')
    expect((await store.inspection.list({ limit: 10 })).deliveries).toHaveLength(1)
    await store.inspection.counts()
    await store.inspection.workers()
    await store.inspection.blockedKeys({ limit: 5 })
    await store.inspection.audit({ limit: 5 })
    const seen = await store.transactions.run(async (tx) => tx.query(`SELECT * FROM ${world.table('all')}`))
    expect(seen[0]).toMatchObject([{ tenant_id: 'acme' }])
    await expect(t.publish()).rejects.toMatchObject({ code: 'POSTHASTE_STORE_READ_ONLY' })
    await close()
  })

  it('a migrator makes the tables', async () => {
    await world.hand.query(`DROP VIEW ${world.table('all')}; DROP TABLE ${world.table('migrations')}`)
    const { store, close } = await storeOf('migrator')
    const { current, latest } = await store.schema.migrate()
    expect(current).toBe(latest)
    await close()
  })
})

describe.each(SERVERS)('%s, partitioned', (server) => {
  it('a worker looks after partitions with the rights of the page', async () => {
    world = await createWorld(server, { layout: 'partitioned', period: 'month' })
    const { store, close } = await storeOf('worker', 'partitioned')
    const report = await store.maintenance.partitions!({
      lookAheadMs: 100 * 86_400_000,
      doneOlderThanMs: 86_400_000,
      deadOlderThanMs: null,
      lockTimeoutMs: 100,
    })
    expect(report.created.length).toBeGreaterThan(0)
    await close()
    await world.close()
  })
})
