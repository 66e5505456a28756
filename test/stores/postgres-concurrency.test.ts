/** What only shows when two do something at once: fences, holders of a key, lanes. Every wait is a lock that somebody has. */
import pg from 'pg'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { PostgresDatabase } from '../../src/stores/postgres/database.ts'
import { resolvePostgresOptions } from '../../src/stores/postgres/options.ts'
import { OPERATOR } from '../../src/testing/suites/store-fixture.ts'
import { createWorld, untilBlocking, untilWaiting, type World } from './postgres-words.ts'
import { newPostgresUrl } from './servers.ts'
import { testContext } from './sqlite-files.ts'

let world: World

beforeEach(async () => {
  world = await createWorld(newPostgresUrl())
})

afterEach(() => world.close())

const lockDelivery = (id: string) =>
  world.hand.query(`BEGIN; SELECT 1 FROM ${world.schema}.deliveries WHERE id = '${id}' FOR UPDATE`)

/** A settle that is under way: it has its worker's row, and waits for a delivery that somebody else has. */
const settleUnderWay = async (leaseMs: number) => {
  const { t } = world
  const worker = await t.worker({ leaseMs })
  const published = await t.publish()
  await lockDelivery(published.delivery.id)
  const settled = t.done(published, worker.right)
  await untilBlocking(world.url, world.hand)
  return { worker, published, settled }
}

describe('fences', () => {
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
    await world.hand.query('COMMIT')
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
    await world.hand.query(`BEGIN; UPDATE ${world.schema}.workers
      SET expires_at = expires_at - interval '1 microsecond' WHERE id = '${worker.id}'`)
    const survey = t.store.lanes.survey(other.id, ['alpha'], silent)
    await untilBlocking(world.url, world.hand)
    await world.hand.query('COMMIT')
    expect((await survey).others).toMatchObject([{ workerId: worker.id }])
    expect(await t.store.lanes.renew(worker.id, 1_000)).toBe(true)
  })

  it('a settle waits for a fence that is under way, and is then lost', async () => {
    const { t } = world
    const worker = await t.worker()
    const published = await t.publish()
    await world.hand.query(`BEGIN; SELECT 1 FROM ${world.schema}.workers WHERE id = '${worker.id}' FOR UPDATE;
      UPDATE ${world.schema}.workers SET fenced = true WHERE id = '${worker.id}'`)
    const settled = t.done(published, worker.right)
    await untilBlocking(world.url, world.hand)
    await world.hand.query('COMMIT')
    expect((await settled).lost).toEqual([published.delivery.id])
    expect(await t.status(published)).toBe('pending')
  })

  it.each(['retry', 'dead', 'release'] as const)('%s waits for a fence like done does', async (outcome) => {
    const { t } = world
    const worker = await t.worker()
    const published = await t.publish()
    await world.hand.query(`BEGIN; SELECT 1 FROM ${world.schema}.workers WHERE id = '${worker.id}' FOR UPDATE;
      UPDATE ${world.schema}.workers SET fenced = true WHERE id = '${worker.id}'`)
    const settled = t[outcome](published, worker.right)
    await untilBlocking(world.url, world.hand)
    await world.hand.query('COMMIT')
    expect((await settled).lost).toEqual([published.delivery.id])
  })

  it('a worker renews its lease while it settles', async () => {
    const { worker, settled } = await settleUnderWay(60_000)
    expect(await world.t.store.lanes.renew(worker.id, 60_000)).toBe(true)
    await world.hand.query('COMMIT')
    expect((await settled).lost).toEqual([])
  })

  it('a lane that somebody took in the meantime is not taken again', async () => {
    const { t } = world
    await t.declare('alpha')
    const me = await t.worker()
    // Another worker, unknown to the snapshot of our take, gets the lane while the take waits for its own row.
    await world.hand.query(`BEGIN; SELECT 1 FROM ${world.schema}.workers WHERE id = '${me.id}' FOR UPDATE`)
    const taken = t.store.lanes.take(me.id, 'alpha', 1)
    await untilBlocking(world.url, world.hand)
    const other = await t.worker()
    const theirs = await t.store.lanes.take(other.id, 'alpha', 64)
    expect(theirs.length).toBe(64)
    await world.hand.query('COMMIT')
    expect(await taken).toEqual([])
  })
})

describe('a transaction in which the server waits for the store', () => {
  it('ends within seconds when the process is suspended, because others wait for its locks', async () => {
    const database = new PostgresDatabase(resolvePostgresOptions({ connectionString: world.url }))
    await database.open(testContext())
    const timeout = await database.transaction((session) =>
      session.rows('SHOW idle_in_transaction_session_timeout'),
    )
    expect(timeout).toEqual([['10s']])
    await database.close()
  })
})

describe('holders of a key', () => {
  it('what is held while its holder is settled goes on with it', async () => {
    const { t } = world
    const me = await t.worker()
    const head = await t.publish({ key: 'k' })
    await t.retry(head, me.right)
    const follower = await t.publish({ key: 'k' })
    await lockDelivery(follower.delivery.id)
    // The hold has locked the head and waits for the follower; the settle of the head waits for the hold.
    const held = t.store.queue.hold(me.id, 'alpha', [follower.delivery.id])
    await untilBlocking(world.url, world.hand)
    const settled = t.done(head, me.right)
    await untilWaiting(world, 2)
    await world.hand.query('COMMIT')
    expect(await held).toEqual([follower.delivery.id])
    expect((await settled).promoted).toEqual(['alpha'])
    expect(await t.status(follower)).toBe('pending')
  })

  it('what is settled while it is about to hold others holds nothing', async () => {
    const { t } = world
    const me = await t.worker()
    const head = await t.publish({ key: 'k' })
    await t.retry(head, me.right)
    const follower = await t.publish({ key: 'k' })
    await world.hand.query(`BEGIN; DELETE FROM ${world.schema}.deliveries WHERE id = '${head.delivery.id}'`)
    const held = t.store.queue.hold(me.id, 'alpha', [follower.delivery.id])
    await untilBlocking(world.url, world.hand)
    await world.hand.query('COMMIT')
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
})

describe('declarations', () => {
  it('an event that is expanded while a destination is declared is not passed over by its reconciler', async () => {
    const { t } = world
    const { queue, registry } = t.store
    await t.declare('alpha')
    const me = await t.worker()
    const { version } = await registry.load()
    // The declaration of beta has its position and waits for one of its lanes.
    await world.hand.query(`BEGIN; INSERT INTO ${world.schema}.lanes (destination, lane) VALUES ('beta', 0)`)
    const declared = t.declare('beta')
    await untilBlocking(world.url, world.hand)
    const { event, delivery } = await t.publish({ destination: '*', routesVersion: 0 })
    // Its expansion begins before beta is known, and ends after beta's reconciler has come by.
    const other = new pg.Client({ connectionString: world.url })
    await other.connect()
    await other.query(
      `BEGIN; SELECT 1 FROM ${world.schema}.deliveries WHERE id = '${delivery.id}' FOR UPDATE`,
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

  it('what an older publisher stores while a pattern is declared is not passed over by the reconciler', async () => {
    const { t } = world
    const { registry } = t.store
    const { version } = await registry.declare([{ name: 'alpha', patterns: ['a.*'] }])
    // The declaration has the position from which the new pattern counts, and waits for a lane of beta.
    await world.hand.query(`BEGIN; INSERT INTO ${world.schema}.lanes (destination, lane) VALUES ('beta', 0)`)
    const declared = registry.declare([
      { name: 'alpha', patterns: ['a.*', 'b.*'] },
      { name: 'beta', patterns: ['c.*'] },
    ])
    await untilBlocking(world.url, world.hand)
    const missed = t.event({ routesVersion: version, type: 'b.stored' })
    await t.insert({ events: [missed] })
    const look = async () => {
      const { events, scannedTo } = await registry.findUnreconciled('alpha', 10)
      await registry.reconcile('alpha', [], scannedTo)
      return events.map(({ id }) => id)
    }
    const first = look()
    await untilWaiting(world, 2)
    await world.hand.query('ROLLBACK')
    await declared
    expect([...(await first), ...(await look())]).toEqual([missed.id])
  })
})

describe('the reconciler', () => {
  it.each([1, 2])('finds transactions with an id before they draw a position (%i at once)', async (count) => {
    const { t, hand, schema } = world
    const published = Array.from({ length: count }, () => t.prepare())
    const writer = await t.begin()
    await hand.query(`BEGIN; ALTER SEQUENCE ${schema}.events_seq CACHE 1`)
    const inserted = t.insertIn(writer.tx, {
      events: published.map(({ event }) => event),
      deliveries: published.map(({ delivery }) => delivery),
    })
    await untilBlocking(world.url, hand)
    const { rows } = await hand.query(
      'SELECT backend_xid IS NOT NULL AS known FROM pg_stat_activity WHERE pg_backend_pid() = ANY(pg_blocking_pids(pid))',
    )
    await hand.query('ROLLBACK')
    await inserted
    await writer.commit()
    expect(rows).toEqual([{ known: true }])
  })

  it('does not pass a position that was drawn before its event is written', async () => {
    const { t, hand, schema } = world
    const { registry } = t.store
    await t.declare('alpha')
    await t.declare('beta')
    const id = t.prepare().event.id
    // Step by step what `insert_one` does at once.
    await hand.query('BEGIN; SELECT pg_current_xact_id()')
    const { rows } = await hand.query<{ seq: string }>(`SELECT nextval('${schema}.events_seq') AS seq`)
    const { scannedTo } = await registry.findUnreconciled('beta', 10)
    await registry.reconcile('beta', [], scannedTo)
    await hand.query(
      `INSERT INTO ${schema}.events (id, seq, occurred_at, created_at, version, routes_version, size, type, content_type, payload)
       VALUES ($1, $2, now(), now(), 1, 1, 2, 't', 'application/json', '{}')`,
      [id, rows[0]?.seq],
    )
    await hand.query('COMMIT')
    const { events } = await registry.findUnreconciled('beta', 10)
    expect(events.map((event) => event.id)).toContain(id)
  })

  it('does not pass an open transaction, not even the newest one', async () => {
    const { t } = world
    const { registry } = t.store
    await t.declare('alpha')
    await t.declare('beta')
    // The one that commits is older than the open one, but its position is behind that one's.
    const [older, open] = [await t.begin(), await t.begin()]
    const [seen, missed] = [t.prepare({ routesVersion: 1 }), t.prepare({ routesVersion: 1 })]
    await (older.tx as pg.ClientBase).query('SELECT pg_current_xact_id()')
    await t.publishIn(open.tx, missed)
    await t.publishIn(older.tx, seen)
    await older.commit()
    for (let round = 0; round < 3; round++) {
      const { scannedTo } = await registry.findUnreconciled('beta', 10)
      await registry.reconcile('beta', [], scannedTo)
    }
    await open.commit()
    const { events } = await registry.findUnreconciled('beta', 10)
    expect(events.map(({ id }) => id)).toContain(missed.event.id)
  })
})

describe('cleaning', () => {
  /** A step of cleaning that has removed what is old and waits, before it commits, for a key that somebody has. */
  const cleaningUnderWay = async () => {
    await world.hand.query(`INSERT INTO ${world.schema}.dedup (type, idempotency_key, event_id, created_at)
      VALUES ('t', 'k', gen_random_uuid(), now() - interval '1 day')`)
    await world.hand.query(`BEGIN; SELECT 1 FROM ${world.schema}.dedup FOR UPDATE`)
    const limits = { doneOlderThanMs: 0, deadOlderThanMs: 0, dedupOlderThanMs: 0, limit: 100 }
    const cleaned = world.t.store.maintenance.cleanup(limits)
    await untilBlocking(world.url, world.hand)
    return { cleaned }
  }

  const orphans = async () =>
    (
      await world.hand.query(
        `SELECT id FROM ${world.schema}.deliveries WHERE event_id NOT IN (SELECT id FROM ${world.schema}.events)`,
      )
    ).rows

  it('what is replayed while it is cleaned away does not lose its event', async () => {
    const { t } = world
    const me = await t.worker()
    const published = await t.publish()
    await t.done(published, me.right)
    const { cleaned } = await cleaningUnderWay()
    const replayed = t.store.operations.replay({ eventIds: [published.event.id], limit: 10 }, OPERATOR)
    await Promise.race([replayed, untilWaiting(world, 2)])
    await world.hand.query('COMMIT')
    await Promise.all([cleaned, replayed])
    expect(await orphans()).toEqual([])
  })

  it('what is reconciled while it is cleaned away does not lose its event', async () => {
    const { t } = world
    const event = t.event({ routesVersion: 0 })
    await t.declare('alpha')
    await t.insert({ events: [event] })
    const { events, scannedTo } = await t.store.registry.findUnreconciled('alpha', 10)
    expect(events.map(({ id }) => id)).toEqual([event.id])
    const { cleaned } = await cleaningUnderWay()
    const delivery = { ...t.delivery(event), seq: scannedTo }
    const reconciled = t.store.registry.reconcile('alpha', [delivery], scannedTo)
    await Promise.race([reconciled, untilWaiting(world, 2)])
    await world.hand.query('COMMIT')
    await Promise.all([cleaned, reconciled])
    expect(await orphans()).toEqual([])
  })

  it('an unrouted row whose event is gone becomes dead, also when it is delayed', async () => {
    const { t } = world
    const { event } = await t.publish({ destination: '*', due: { afterMs: 3_600_000 } })
    await world.hand.query(`DELETE FROM ${world.schema}.events WHERE id = '${event.id}'`)
    await t.store.maintenance.cleanup({
      doneOlderThanMs: 0,
      deadOlderThanMs: null,
      dedupOlderThanMs: 0,
      limit: 100,
    })
    const { deliveries } = await t.store.inspection.list({ limit: 10 })
    expect(deliveries.map(({ status }) => status)).toEqual(['dead'])
  })
})
