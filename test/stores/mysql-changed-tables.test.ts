/**
 * Publishing in a transaction that has read before a partition was made. What the transaction sees is older than that, so
 * the server refuses to read the new partition in it, and on MariaDB whatever might.
 */
import mysql from 'mysql2/promise'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { createOutbox } from '../../src/index.ts'
import { mysqlStore } from '../../src/stores/mysql/index.ts'
import { createWorld, rowsOf, SERVERS, type World } from './mysql-words.ts'
import { DAY_MS, maintain } from './partition-cases.ts'
import { serverUrl } from './servers.ts'

let world: World

interface Handle {
  query(sql: string): Promise<unknown>
}

const countOf = async (...tables: readonly string[]): Promise<readonly number[]> => {
  const counts: number[] = []
  for (const name of tables) {
    const [row] = await rowsOf(world.hand, `SELECT COUNT(*) AS n FROM ${world.table(name)}`)
    counts.push(Number(row?.n))
  }
  return counts
}

/** From now on the transaction sees what there is at this moment. */
const look = (tx: unknown) => (tx as Handle).query(`SELECT COUNT(*) FROM ${world.table('workers')}`)

const makeAhead = async (): Promise<void> => {
  const { created } = await maintain(world.t, { lookAheadMs: 100 * DAY_MS })
  expect(created.length).toBeGreaterThan(0)
}

/** As if nobody had looked after them for long: what is published now goes to the tail. */
const loseAll = async (): Promise<void> => {
  const rows = await rowsOf(
    world.hand,
    `SELECT PARTITION_NAME AS name FROM information_schema.PARTITIONS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = '${world.harness.prefix}events' AND PARTITION_NAME <> 'pmax'`,
  )
  const names = rows.map(({ name }) => String(name)).join(', ')
  await world.hand.query(`ALTER TABLE ${world.table('events')} DROP PARTITION ${names}`)
}

const makeLate = async (): Promise<void> => {
  const { created } = await maintain(world.t)
  expect(created.length).toBeGreaterThan(0)
}

describe.each(SERVERS)('%s: a transaction that has read before a partition was made', (server) => {
  beforeEach(async () => {
    world = await createWorld(server, { layout: 'partitioned', period: 'month' })
  })

  afterEach(() => world.close())

  it.each([
    ['one event for one destination', 1, 1, false],
    ['one event for several', 1, 3, false],
    ['several events', 3, 1, false],
    ['several events for several', 3, 3, false],
    ['several with idempotency keys', 3, 3, true],
  ])('ahead of its time publishes as ever: %s', async (_, eventCount, destinationCount, isKeyed) => {
    const { t } = world
    const events = Array.from({ length: eventCount }, (_, i) =>
      t.event({ idempotencyKey: isKeyed ? `key ${i}` : null }),
    )
    const deliveries = Array.from({ length: destinationCount }, (_, i) =>
      events.map((event) => t.delivery(event, { destination: `d${i}` })),
    ).flat()
    await t.transactions.run(async (tx) => {
      await look(tx)
      await makeAhead()
      await t.insertIn(tx, { events, deliveries })
    })
    expect(await countOf('events', 'deliveries')).toEqual([eventCount, eventCount * destinationCount])
  })

  it.each([1, 2])('too late is told to be run again, as a whole: %i destinations', async (count) => {
    const { t } = world
    await loseAll()
    const event = t.event()
    const request = {
      events: [event],
      deliveries: Array.from({ length: count }, (_, i) => t.delivery(event, { destination: `d${i}` })),
    }
    const running = t.transactions.run(async (tx) => {
      await look(tx)
      await makeLate()
      await t.insertIn(tx, request)
    })
    await expect(running).rejects.toMatchObject({
      code: 'POSTHASTE_STORE_BUSY',
      transient: true,
      detail: { isHalfStored: true },
      message: expect.stringMatching(/Run the whole transaction again\. .*roll the transaction back/),
    })
    await t.insert(request)
    expect(await countOf('events', 'deliveries')).toEqual([1, count])
  })

  describe('too late', () => {
    const ID = '0198c3a4-0000-7000-8000-0123456789ab'
    const draft = { type: 'order.placed', id: ID, payload: {} }
    let pool: mysql.Pool

    const create = () =>
      createOutbox({
        store: mysqlStore({ pool, prefix: world.harness.prefix, layout: 'partitioned', period: 'month' }),
        destinations: { alpha: { events: ['*'] }, beta: { events: ['*'] } },
      })

    beforeEach(async () => {
      pool = mysql.createPool({ uri: serverUrl(server), multipleStatements: true })
      await world.hand.query(`CREATE TABLE ${world.table('shop')} (id INT PRIMARY KEY) ENGINE = InnoDB`)
      await loseAll()
    })

    afterEach(async () => {
      await world.hand.query(`DROP TABLE ${world.table('shop')}`)
      await pool.end()
    })

    const buy = (id: number) => `INSERT INTO ${world.table('shop')} VALUES (${id})`

    it('commits no event that nobody would hear, although the application goes on', async () => {
      await using outbox = create()
      const running = outbox.transaction(async (tx) => {
        await look(tx)
        await makeLate()
        await tx.query(buy(1))
        await expect(outbox.publish(tx, draft)).rejects.toMatchObject({ code: 'POSTHASTE_STORE_BUSY' })
      })
      await expect(running).rejects.toMatchObject({ code: 'POSTHASTE_COMMIT_ROLLED_BACK' })
      expect(await countOf('shop', 'events', 'deliveries')).toEqual([0, 0, 0])
      await outbox.transaction((tx) => outbox.publish(tx, draft))
      const [events = 0, deliveries = 0] = await countOf('events', 'deliveries')
      expect([events, deliveries > 0]).toEqual([1, true])
    })

    it('keeps what is outside of a nested transaction that was undone with the event', async () => {
      await using outbox = create()
      await outbox.transaction(async (tx) => {
        await look(tx)
        await makeLate()
        await tx.query(buy(1))
        const nested = outbox.transaction(async (inner) => {
          await inner.query(buy(2))
          await outbox.publish(inner, draft)
        })
        await expect(nested).rejects.toMatchObject({ code: 'POSTHASTE_STORE_BUSY' })
      })
      expect(await countOf('shop', 'events', 'deliveries')).toEqual([1, 0, 0])
    })
  })
})
