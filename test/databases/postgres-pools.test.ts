/** The application's pool and the store's own. */
import pg from 'pg'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { postgresStore } from '../../src/stores/postgres/index.ts'
import { observeStore } from '../../src/testing/observed-store.ts'
import { gate } from '../journeys/world.ts'
import { newPostgresUrl } from '../stores/servers.ts'
import { PostgresWorld, publishTick, tick } from './postgres-world.ts'

let world: PostgresWorld

beforeEach(() => {
  world = new PostgresWorld(newPostgresUrl())
})

afterEach(() => world[Symbol.asyncDispose]())

describe('handlers that hold every connection of the pool', () => {
  it.each(['pool', 'address'] as const)(
    '[40] do not keep the store from its leases, its reads and its settles (given: %s)',
    async (given) => {
      const pool = new pg.Pool({ connectionString: world.url, max: 2 })
      const calls: string[] = []
      const inner =
        given === 'pool'
          ? postgresStore({ pool, schema: world.schema })
          : postgresStore({ connectionString: world.url, schema: world.schema, poolSize: 4 })
      const outbox = world.outbox({
        store: observeStore(inner as object, { changed: (call) => void calls.push(call) }),
        laneLeaseMs: 1_000,
        destinations: { greedy: { events: ['greedy'], concurrency: 4 }, modest: { events: ['tick'] } },
      })
      const hold = gate()
      let holding = 0
      outbox.on('greedy', 'greedy', () =>
        outbox.transaction(async (tx) => {
          await tx.query('SELECT 1')
          holding += 1
          world.ring()
          await hold.promise
        }),
      )
      outbox.on<{ n: number }>('modest', 'tick', ({ payload: { n } }) => {
        world.heard.push({ n, key: null, source: '' })
      })
      await outbox.start()
      await outbox.transaction(async (tx) => {
        for (let n = 0; n < 4; n += 1) await outbox.publish(tx, { type: 'greedy', payload: { n } })
        for (let n = 0; n < 20; n += 1) await outbox.publish(tx, tick(n, `k${n % 3}`))
      })
      await world.until(() => holding === 2)
      const renewals = (): number => calls.filter((call) => call === 'lanes.renew').length
      const before = renewals()
      // Three renewals last as long as the lease.
      await world.until(() => renewals() >= before + 4)
      const waiting = 'SELECT FROM {schema}.deliveries WHERE destination = $1'
      await world.until(async () => (await world.rows(waiting, ['modest'])).length === 0)
      expect(new Set(world.numbers).size).toBe(20)
      expect(holding).toBe(2)
      hold.open()
      await world.drained()
      expect(holding).toBe(4)
      expect(world.log.filter(({ level }) => level === 'warn' || level === 'error')).toEqual([])
      await outbox.close()
      await pool.end()
    },
  )

  it('[40] a pool that does not say how it was made is shared', async () => {
    const pool = new pg.Pool({ connectionString: world.url, max: 3 })
    const opaque = {
      connect: () => pool.connect(),
      on: (event: 'error', listener: (error: Error) => void) => pool.on(event, listener),
      removeListener: (event: 'error', listener: (error: Error) => void) =>
        pool.removeListener(event, listener),
      end: () => pool.end(),
    }
    const store = postgresStore({ pool: opaque, schema: world.schema })
    const outbox = world.listen(world.outbox({ store }))
    await outbox.start()
    await publishTick(outbox, 1)
    await world.drained()
    expect(world.numbers).toEqual([1])
    await outbox.close()
    expect(pool.ended).toBe(false)
    expect(pool.listenerCount('error')).toBe(0)
    await pool.end()
  })

  it('[40] the password of the pool reaches the store’s own pool, which ends with the store', async () => {
    const { username, password, hostname, port, pathname } = new URL(world.url)
    const pool = new pg.Pool({
      user: username,
      password,
      host: hostname,
      port: Number(port),
      database: pathname.slice(1),
      application_name: world.schema,
    })
    const store = postgresStore({ pool, schema: world.schema })
    const outbox = world.listen(world.outbox({ store }))
    await outbox.start()
    const connections = async (): Promise<number> =>
      (await world.rows('SELECT FROM pg_stat_activity WHERE application_name = $1', [world.schema])).length
    expect(pool.totalCount).toBe(0)
    expect(await connections()).toBeGreaterThan(0)
    await publishTick(outbox, 1)
    expect(pool.totalCount).toBe(1)
    await world.drained()
    await outbox.close()
    expect(pool.ended).toBe(false)
    await pool.end()
  })
})

describe('connections of a class of the application', () => {
  let asked = 0
  class Counted extends pg.Client {
    // The overloads of `pg` are not to be had for one that knows a single form.
    override query = (query: never): never => {
      asked += 1
      return super.query(query) as never
    }
  }
  class CountedPool extends pg.Pool {
    readonly Client = Counted
  }

  it.each<[string, (options: pg.PoolConfig) => pg.Pool]>([
    ['said in its options', (options) => new pg.Pool({ ...options, Client: Counted as never })],
    ['of a pool of its own', (options) => new CountedPool(options)],
  ])('may know promises alone: %s', async (_, poolWith) => {
    asked = 0
    const pool = poolWith({ connectionString: world.url, max: 2 })
    const store = postgresStore({ pool, schema: world.schema, queryTimeoutMs: 2_000 })
    const outbox = world.listen(world.outbox({ store }))
    await outbox.start()
    await publishTick(outbox, 1)
    await world.drained()
    expect(world.numbers).toEqual([1])
    expect(asked).toBeGreaterThan(5)
    await outbox.close()
    await pool.end()
  })
})

describe('prepared statements on the application’s pool', () => {
  it('of two stores do not get into each other’s way', async () => {
    const pool = new pg.Pool({ connectionString: world.url, max: 1 })
    await using other = new PostgresWorld(world.url)
    const outboxes = [world, other].map((each) =>
      each.listen(each.outbox({ store: postgresStore({ pool, schema: each.schema }) })),
    )
    for (const outbox of outboxes) await outbox.start()
    for (let n = 0; n < 2; n += 1) for (const outbox of outboxes) await publishTick(outbox, n)
    for (const each of [world, other]) {
      await each.drained()
      expect([...each.numbers].sort()).toEqual([0, 1])
    }
    for (const outbox of outboxes) await outbox.close()
    await pool.end()
  })

  it('that the application throws away cost one transaction, not all that follow', async () => {
    const pool = new pg.Pool({ connectionString: world.url, max: 1 })
    const outbox = world.listen(world.outbox({ store: postgresStore({ pool, schema: world.schema }) }))
    await outbox.start()
    await publishTick(outbox, 1)
    await pool.query('DISCARD ALL')
    await expect(publishTick(outbox, 2)).rejects.toThrow('prepared statement')
    await publishTick(outbox, 3)
    await world.drained()
    expect(world.numbers).toEqual([1, 3])
    await outbox.close()
    await pool.end()
  })
})

describe('plans of the read', () => {
  it('are not made anew for every batch of a backlog that follows an empty queue', async () => {
    await world.migrate()
    await world.rows('VACUUM ANALYZE {schema}.deliveries, {schema}.events')
    const connections: pg.Client[] = []
    class Noted extends pg.Client {
      constructor(config?: pg.ClientConfig) {
        super(config)
        connections.push(this)
      }
    }
    const pool = new pg.Pool({
      connectionString: world.url,
      max: 2,
      idleTimeoutMillis: 0,
      Client: Noted,
    } as pg.PoolConfig)
    const store = postgresStore({ pool, poolSize: 2, schema: world.schema })
    const outbox = world.listen(world.outbox({ store, pollBatchSize: 100 }))
    await outbox.start()
    // As many reads of an empty queue as a server plans anew before it compares.
    for (let n = 0; n < 12; n += 1) await outbox.processOnce()
    await outbox.transaction(async (tx) => {
      for (let n = 0; n < 10_000; n += 1_000)
        await outbox.publishMany(
          tx,
          Array.from({ length: 1_000 }, (_, i) => tick(n + i)),
        )
      await tx.query(`ANALYZE ${world.schema}.deliveries, ${world.schema}.events`)
    })
    await world.drained()
    expect(world.numbers).toHaveLength(10_000)
    const counts = await Promise.all(
      connections.map(async (connection) => {
        const { rows } = await connection.query<{ anew: string; reads: string }>(
          `SELECT coalesce(sum(custom_plans), 0) AS anew, coalesce(sum(custom_plans + generic_plans), 0) AS reads
           FROM pg_prepared_statements WHERE statement LIKE '%whole AS MATERIALIZED%'`,
        )
        return { anew: Number(rows[0]?.anew), reads: Number(rows[0]?.reads) }
      }),
    )
    const readers = counts.filter(({ reads }) => reads > 0)
    expect(readers.reduce((sum, { reads }) => sum + reads, 0)).toBeGreaterThan(50)
    // Five before the server compares.
    expect(Math.max(...readers.map(({ anew }) => anew))).toBe(5)
    await outbox.close()
    await pool.end()
  })
})
