/** What only shows when two do something at once: fences, holders of a key, lanes. Every wait is a lock that somebody has. */
import mysql from 'mysql2/promise'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { MysqlDatabase } from '../../src/stores/mysql/database.ts'
import { resolveMysqlOptions } from '../../src/stores/mysql/options.ts'
import { idsOf, OPERATOR } from '../../src/testing/suites/store-fixture.ts'
import { runByHand } from './mysql-harness.ts'
import { createWorld, hex, SERVERS, untilTableWaiting, untilWaiting, type World } from './mysql-words.ts'
import { serverUrl } from './servers.ts'
import { testContext } from './sqlite-files.ts'

let world: World

const lockDelivery = (id: string) =>
  world.hand.query(
    `START TRANSACTION; SELECT 1 FROM ${world.table('deliveries')} WHERE id = ${hex(id)} FOR UPDATE`,
  )

const commit = () => world.hand.query('COMMIT')

/** A settle that is under way: it has its worker's row, and waits for a delivery that somebody else has. */
const settleUnderWay = async (leaseMs: number) => {
  const { t } = world
  const worker = await t.worker({ leaseMs })
  const published = await t.publish()
  await lockDelivery(published.delivery.id)
  const settled = t.done(published, worker.right)
  await untilWaiting(world)
  return { worker, published, settled }
}

const fenceByHand = (workerId: string) =>
  world.hand.query(
    `START TRANSACTION; UPDATE ${world.table('workers')} SET fenced = 1 WHERE id = '${workerId}'`,
  )

describe.each(SERVERS)('%s', (server) => {
  beforeEach(async () => {
    world = await createWorld(server)
  })

  afterEach(() => world.close())

  it('a fence waits for a settle that is under way, which then counts', async () => {
    const { t } = world
    const { worker, published, settled } = await settleUnderWay(1)
    const other = await t.worker()
    let surveyed = false
    const silent = await t.leasesSeenBy(other)
    const survey = t.store.lanes.survey(other.id, ['alpha'], silent).then(() => {
      surveyed = true
    })
    await untilWaiting(world, 2)
    expect(surveyed).toBe(false)
    await commit()
    expect((await settled).lost).toEqual([])
    await survey
    expect(await t.status(published)).toBe('done')
    expect(await t.store.lanes.renew(worker.id, 1_000)).toBe(false)
  })

  it('[26] a fence that had to wait leaves alone who has renewed meanwhile', async () => {
    const { t } = world
    const [worker, other] = [await t.worker({ leaseMs: 1 }), await t.worker()]
    const silent = await t.leasesSeenBy(other)
    // Another lease, which is over as well: only what was seen tells the two apart.
    await world.hand.query(
      `START TRANSACTION; UPDATE ${world.table('workers')} SET expires_at = expires_at - INTERVAL 1 MICROSECOND WHERE id = '${worker.id}'`,
    )
    const survey = t.store.lanes.survey(other.id, ['alpha'], silent)
    await untilWaiting(world)
    await commit()
    expect((await survey).others).toMatchObject([{ workerId: worker.id }])
    expect(await t.store.lanes.renew(worker.id, 1_000)).toBe(true)
  })

  it.each(['done', 'retry', 'dead', 'release'] as const)(
    '%s waits for a fence that is under way, and is then lost',
    async (outcome) => {
      const { t } = world
      const worker = await t.worker()
      const published = await t.publish()
      await fenceByHand(worker.id)
      const settled = t[outcome](published, worker.right)
      await untilWaiting(world)
      await commit()
      expect((await settled).lost).toEqual([published.delivery.id])
      expect(await t.status(published)).toBe('pending')
    },
  )

  it('claims, suspicions, holds, activations, expansions and taking lanes wait for a fence too', async () => {
    const { t } = world
    await t.declare('alpha')
    const worker = await t.worker()
    const head = await t.publish({ key: 'k' })
    await t.retry(head, worker.right)
    const [follower, delayed] = [await t.publish({ key: 'k' }), await t.publish({ due: { afterMs: 1 } })]
    const unrouted = await t.publish({ destination: '*' })
    await t.until(1, 'it is due', async () => (await t.read()).activatable)
    const { version } = await t.store.registry.load()
    await fenceByHand(worker.id)
    const { queue, lanes } = t.store
    const ids = [follower.delivery.id]
    const expansion = { unroutedId: unrouted.delivery.id, deliveries: [t.delivery(unrouted.event)] }
    const waiting = Promise.all([
      queue.claim(worker.id, ids, 10),
      queue.suspect({ workerId: worker.id, ids, token: t.newId(), spendFrom: 3 }),
      queue.hold(worker.id, 'alpha', ids),
      queue.activate({ workerId: worker.id, destination: 'alpha', lanes: null, limit: 10 }),
    ])
    // The store has four connections of its own.
    await untilWaiting(world, 4)
    await commit()
    expect(await waiting).toEqual([[], [], [], 0])
    expect(await lanes.take(worker.id, 'alpha', 5)).toEqual([])
    expect(
      await queue.expand({ workerId: worker.id, registryVersion: version, expansions: [expansion] }),
    ).toBe(false)
    expect(await t.status(follower)).toBe('pending')
    expect(await t.status(delayed)).toBe('scheduled')
  })

  it('lanes that somebody is just taking are passed over', async () => {
    const { t } = world
    await t.declare('alpha')
    const me = await t.worker()
    await world.hand.query(
      `SET TRANSACTION ISOLATION LEVEL READ COMMITTED; START TRANSACTION; SELECT 1 FROM ${world.table('lanes')} WHERE destination = 'alpha' AND lane < 60 FOR UPDATE`,
    )
    const taken = await t.store.lanes.take(me.id, 'alpha', 64)
    expect(taken.map(({ lane }) => lane)).toEqual([60, 61, 62, 63])
    await commit()
  })

  it('rows that are held and their holder that is settled at once go on together', async () => {
    const { t } = world
    const me = await t.worker()
    for (let round = 0; round < 10; round++) {
      const key = `k${round}`
      const head = await t.publish({ key })
      await t.retry(head, me.right)
      const followers = [await t.publish({ key }), await t.publish({ key })]
      const ids = followers.map(({ delivery }) => delivery.id)
      const [held, settled] = await Promise.all([
        t.store.queue.hold(me.id, 'alpha', ids),
        t.done(head, me.right),
      ])
      expect(settled.promoted).toEqual(held.length > 0 ? ['alpha'] : [])
      for (const follower of followers) expect(await t.status(follower)).toBe('pending')
    }
  })

  it('what is settled while it is about to hold others holds nothing', async () => {
    const { t } = world
    const me = await t.worker()
    const head = await t.publish({ key: 'k' })
    await t.retry(head, me.right)
    const follower = await t.publish({ key: 'k' })
    await world.hand.query(
      `START TRANSACTION; DELETE FROM ${world.table('deliveries')} WHERE id = ${hex(head.delivery.id)}`,
    )
    const held = t.store.queue.hold(me.id, 'alpha', [follower.delivery.id])
    await untilWaiting(world)
    await commit()
    expect(await held).toEqual([])
    expect(await t.status(follower)).toBe('pending')
  })

  it('two that end the last two holders at once do not leave the rest waiting', async () => {
    const { t } = world
    const me = await t.worker()
    for (let round = 0; round < 10; round++) {
      const key = `k${round}`
      const [first, second] = [await t.publish({ key }), await t.publish({ key })]
      await t.retry(first, me.right)
      await t.retry(second, me.right)
      const last = await t.publish({ key })
      await t.store.queue.hold(me.id, 'alpha', [last.delivery.id])
      await Promise.all([t.done(first, me.right), t.done(second, me.right)])
      expect(await t.status(last)).toBe('pending')
    }
  })

  it('what somebody else is just replaying is not replayed once more', async () => {
    const { t } = world
    const me = await t.worker()
    const published = await t.publishMany(2)
    for (const one of published) await t.done(one, me.right)
    const [first = '', second = ''] = idsOf(published).sort()
    const finished = world.table('finished')
    await world.hand.query(
      `START TRANSACTION; SELECT 1 FROM ${finished} WHERE id = ${hex(second)} FOR UPDATE`,
    )
    const replayed = t.store.operations.replay({ deliveryIds: [first, second], limit: 10 }, OPERATOR)
    await untilWaiting(world)
    await world.hand.query(`INSERT INTO ${world.table('deliveries')} (id, event_id, seq, destination, run, lane, status, available_at, size, created_at)
      SELECT ${hex(t.newId())}, event_id, seq, destination, 2, lane, 0, UTC_TIMESTAMP(6), size, UTC_TIMESTAMP(6) FROM ${finished} WHERE id = ${hex(second)}; COMMIT`)
    expect(await replayed).toBe(1)
    expect((await t.readableIds()).length).toBe(2)
  })

  it('an event that is expanded while a destination is declared is not passed over by its reconciler', async () => {
    const { t } = world
    const { queue, registry } = t.store
    await t.declare('alpha')
    const me = await t.worker()
    const { version } = await registry.load()
    // The declaration of beta has its position and waits for one of its lanes.
    await world.hand.query(
      `START TRANSACTION; INSERT INTO ${world.table('lanes')} (destination, lane) VALUES ('beta', 0)`,
    )
    const declared = t.declare('beta')
    await untilWaiting(world)
    const { event, delivery } = await t.publish({ destination: '*', routesVersion: 0 })
    // Its expansion begins before beta is known, and ends after beta's reconciler has come by.
    const other = await mysql.createConnection({ uri: serverUrl(server), multipleStatements: true })
    await other.query(
      `START TRANSACTION; SELECT 1 FROM ${world.table('deliveries')} WHERE id = ${hex(delivery.id)} FOR UPDATE`,
    )
    const expanded = queue.expand({
      workerId: me.id,
      registryVersion: version,
      expansions: [
        { unroutedId: delivery.id, deliveries: [{ ...delivery, id: t.newId(), destination: 'alpha' }] },
      ],
    })
    await untilWaiting(world, 2)
    await world.hand.query('ROLLBACK')
    await declared
    const { scannedTo } = await registry.findUnreconciled('beta', 10)
    await registry.reconcile('beta', [], scannedTo)
    await other.query('COMMIT')
    await other.end()
    await expanded
    const unrouted = await queue.readUnrouted(10)
    const { events } = await registry.findUnreconciled('beta', 10)
    expect([...unrouted.map(({ eventId }) => eventId), ...events.map(({ id }) => id)]).toEqual([event.id])
  })

  it('the very first declaration waits for an expansion, too', async () => {
    const { t } = world
    const me = await t.worker()
    const { delivery } = await t.publish({ destination: '*', routesVersion: 0 })
    await lockDelivery(delivery.id)
    const expansions = [{ unroutedId: delivery.id, deliveries: [] }]
    const expanded = t.store.queue.expand({ workerId: me.id, registryVersion: 0, expansions })
    await untilWaiting(world)
    const declared = t.declare('beta')
    await untilWaiting(world, 2)
    await commit()
    expect(await expanded).toBe(true)
    await declared
  })

  it('a statement that waits between drawing its numbers and writing its rows is not passed over', async () => {
    const { t } = world
    const { registry } = t.store
    await t.declare('alpha')
    await t.declare('beta')
    const [taken, missed] = [t.prepare({ routesVersion: 1 }), t.prepare({ routesVersion: 1 })]
    // Somebody is just using the id of the first event.
    await world.hand.query(`START TRANSACTION;
INSERT INTO ${world.table('events')} (id, type, version, occurred_at, created_at, routes_version, size, content_type, payload)
VALUES (${hex(taken.event.id)}, 't', 1, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), 9, 1, 'application/json', '1')`)
    const both = [taken, missed]
    const inserted = t.insert({
      events: both.map(({ event }) => event),
      deliveries: both.map(({ delivery }) => delivery),
    })
    await untilWaiting(world)
    const seen = await t.publish({ routesVersion: 1 })
    await runByHand(
      server,
      `UPDATE ${world.table('events')} SET created_at = created_at - INTERVAL 10 SECOND WHERE id = ${hex(seen.event.id)}`,
    )
    const { scannedTo } = await registry.findUnreconciled('beta', 10)
    await registry.reconcile('beta', [], scannedTo)
    await world.hand.query('ROLLBACK')
    await inserted
    const { events } = await registry.findUnreconciled('beta', 10)
    expect(events.map(({ id }) => id)).toContain(missed.event.id)
  })

  it('a pattern that is declared while the reconciler is kept waiting is not passed over', async () => {
    const { t } = world
    const { registry } = t.store
    const { version } = await registry.declare([{ name: 'alpha', patterns: ['a.*'] }])
    const missed = t.newId()
    // Whoever reads events waits, as if the process were suspended between two statements.
    await world.hand.query(`LOCK TABLES ${world.table('events')} WRITE`)
    const looked = registry.findUnreconciled('alpha', 10)
    await untilTableWaiting(world)
    await runByHand(
      server,
      `UPDATE ${world.table('destinations')} SET patterns = '["a.*", "b.*"]', patterns_from = '["0", "0"]', version = ${version + 1} WHERE name = 'alpha'`,
    )
    await world.hand.query(`INSERT INTO ${world.table('events')} (id, type, version, occurred_at, created_at, routes_version, size, content_type, payload)
VALUES (${hex(missed)}, 'b.stored', 1, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) - INTERVAL 2 MINUTE, ${version}, 1, 'application/json', '1'); UNLOCK TABLES`)
    const { events, scannedTo } = await looked
    await registry.reconcile('alpha', [], scannedTo)
    const later = await registry.findUnreconciled('alpha', 10)
    expect([...events, ...later.events].map(({ id }) => id)).toEqual([missed])
  })

  it('what was stored after a destination was declared reaches it, also when the clock has stepped back', async () => {
    const { t } = world
    await t.declare('alpha')
    const { version } = await t.store.registry.load()
    await t.declare('beta')
    const published = t.prepare({ routesVersion: version })
    const open = await t.begin()
    await (open.tx as mysql.Connection).query('SET timestamp = UNIX_TIMESTAMP() - 2')
    await t.publishIn(open.tx, published)
    await (open.tx as mysql.Connection).query('SET timestamp = DEFAULT')
    await open.commit()
    const { events } = await t.store.registry.findUnreconciled('beta', 10)
    expect(events.map(({ id }) => id)).toEqual([published.event.id])
  })

  it('a key that a long transaction uses again does not keep anything else from being cleaned', async () => {
    const { t } = world
    const me = await t.worker()
    const [used, free] = [
      await t.publish({ idempotencyKey: 'used' }),
      await t.publish({ idempotencyKey: 'free' }),
    ]
    for (const one of [used, free]) await t.done(one, me.right)
    const open = await t.begin()
    await t.publishIn(open.tx, t.prepare({ idempotencyKey: 'used' }))
    const limits = { doneOlderThanMs: 0, deadOlderThanMs: 0, dedupOlderThanMs: 0, limit: 100 }
    expect(await t.store.maintenance.cleanup(limits)).toMatchObject({ done: 2, events: 2, dedup: 1 })
    await open.rollback()
    expect(await t.store.maintenance.cleanup(limits)).toMatchObject({ dedup: 1 })
  })

  it('an unrouted row whose event is gone becomes dead, also when it is delayed', async () => {
    const { t } = world
    const due = { afterMs: 3_600_000 }
    const { event } = await t.publish({ destination: '*', due })
    await world.hand.query(`DELETE FROM ${world.table('events')} WHERE id = ${hex(event.id)}`)
    await t.store.maintenance.cleanup({
      doneOlderThanMs: 0,
      deadOlderThanMs: null,
      dedupOlderThanMs: 0,
      limit: 100,
    })
    const { deliveries } = await t.store.inspection.list({ limit: 10 })
    expect(deliveries.map(({ status }) => status)).toEqual(['dead'])
  })

  it('a script that fails halfway leaves nothing behind, and its locks do not wait for us', async () => {
    const { t } = world
    const worker = await t.worker()
    const published = await t.publish()
    // The copy of the row is there already, so the settle fails after it has locked worker and delivery.
    await world.hand.query(
      `INSERT INTO ${world.table('finished')} (id, event_id, seq, destination, run, lane, status, attempts, suspicions, size, created_at, finished_at)
       SELECT id, event_id, seq, destination, run, lane, 4, 0, 0, size, created_at, created_at FROM ${world.table('deliveries')}`,
    )
    await expect(t.done(published, worker.right)).rejects.toMatchObject({ code: 'POSTHASTE_CONFLICT' })
    expect(await t.readableIds()).toEqual([published.delivery.id])
    expect(await t.store.lanes.renew(worker.id, 1_000)).toBe(true)
  })

  it('a process that is suspended in a transaction of the store keeps its locks for seconds, not for ever', async () => {
    const connectionString = serverUrl(server)
    const database = new MysqlDatabase(resolveMysqlOptions({ connectionString }))
    await database.open(testContext())
    const seconds = `SELECT @@SESSION.wait_timeout`
    const [usual, inside] = [await database.rows(seconds), await database.transaction((c) => c.rows(seconds))]
    expect(Number(inside[0]?.[0])).toBe(10)
    expect(await database.rows(seconds)).toEqual(usual)
    await expect(database.transaction((c) => c.rows('SELECT nothing'))).rejects.toThrow()
    expect(await database.rows(seconds)).toEqual(usual)
    await database.close()
  })

  it('a process that is suspended after such a failure keeps its locks for seconds, not for ever', async () => {
    const { t } = world
    const worker = await t.worker()
    // What the store sends, up to the failure; nobody rolls back afterwards.
    const packet = `SET SESSION wait_timeout = 1; START TRANSACTION;
      SELECT id FROM ${world.table('workers')} WHERE id = '${worker.id}' LOCK IN SHARE MODE; SELECT nothing`
    world.hand.on('error', () => undefined)
    await expect(world.hand.query(packet)).rejects.toMatchObject({ errno: 1054 })
    expect(await t.store.lanes.renew(worker.id, 1_000)).toBe(true)
  })
})
