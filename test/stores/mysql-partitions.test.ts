/** Partitions: made ahead, dropped as a whole, and never in anybody's way for long. */
import mysql from 'mysql2/promise'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { lowestIdAt } from '../../src/stores/mysql/periods.ts'
import { createWorld, rowsOf, SERVERS, untilTableWaiting, type World } from './mysql-words.ts'
import { DAY_MS, dropCases, idsFrom, maintain, type PartitionHands, publishAt } from './partition-cases.ts'
import { serverUrl } from './servers.ts'

let world: World

const monthName = (ms: number): string => `p${new Date(ms).toISOString().slice(0, 7).replace('-', '')}`
const monthAfter = (ms: number): number =>
  Date.UTC(new Date(ms).getUTCFullYear(), new Date(ms).getUTCMonth() + 1, 1)

const named = (table: string, name: string): string => `${world.harness.prefix}${table}.${name}`

const partitions = async (table: string): Promise<string[]> => {
  const rows = await rowsOf(
    world.hand,
    `SELECT PARTITION_NAME AS name FROM information_schema.PARTITIONS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = '${world.harness.prefix}${table}' ORDER BY PARTITION_ORDINAL_POSITION`,
  )
  return rows.map((row) => String(row.name))
}

const countIn = async (table: string, partition: string | null = null): Promise<number> => {
  const from = `${world.table(table)}${partition === null ? '' : ` PARTITION (${partition})`}`
  const [row] = await rowsOf(world.hand, `SELECT COUNT(*) AS n FROM ${from}`)
  return Number(row?.n)
}

/** A month that is long past gets partitions of its own, and an event with a delivery. */
const oldMonth = async () => {
  const ms = Date.now() - 60 * DAY_MS
  const [first] = await partitions('events')
  const name = monthName(ms)
  for (const table of ['events', 'finished']) {
    await world.hand.query(
      `ALTER TABLE ${world.table(table)} REORGANIZE PARTITION ${first} INTO (
        PARTITION ${name} VALUES LESS THAN (X'${lowestIdAt(monthAfter(ms))}'), PARTITION ${first} VALUES LESS THAN (X'${lowestIdAt(monthAfter(Date.now()))}'))`,
    )
  }
  return {
    ms,
    ...(await publishAt(world.t, ms)),
    events: named('events', name),
    finished: named('finished', name),
  }
}

const hands = (): PartitionHands => ({
  t: world.t,
  oldPeriod: oldMonth,
  ageFinished: () =>
    world.hand.query(`UPDATE ${world.table('finished')} SET finished_at = UTC_TIMESTAMP(6) - INTERVAL 8 DAY`),
  deleteDeliveries: () => world.hand.query(`DELETE FROM ${world.table('deliveries')}`),
  countOf: countIn,
  hasTails: async () =>
    (await partitions('events')).at(-1) === 'pmax' && (await partitions('finished')).at(-1) === 'pmax',
  lockIsAwaited: async () => {
    const waiting = `SELECT 1 FROM information_schema.PROCESSLIST
      WHERE STATE LIKE 'Waiting for table%lock' AND INFO LIKE '%${world.harness.prefix}%'`
    return (await rowsOf(world.hand, waiting)).length > 0
  },
  readEvents: async () => {
    const reader = await mysql.createConnection({ uri: serverUrl(world.server), multipleStatements: true })
    await reader.query(`START TRANSACTION; SELECT COUNT(*) FROM ${world.table('events')}`)
    return reader
  },
})

describe.each(SERVERS)('%s: partitions are made', (server) => {
  beforeEach(async () => {
    world = await createWorld(server, { layout: 'partitioned', period: 'month' })
  })

  afterEach(() => world.close())

  it('by the migration, before the tails', async () => {
    const all = await partitions('events')
    expect(all[0]).toBe(monthName(Date.now()))
    expect(all.at(-1)).toBe('pmax')
    expect(all).toContain(monthName(Date.now() + 30 * DAY_MS))
    expect(await partitions('finished')).toEqual(all)
  })

  it('as far ahead as asked, and only once', async () => {
    const { created } = await maintain(world.t, { lookAheadMs: 100 * DAY_MS })
    expect(created).toContain(named('events', monthName(Date.now() + 100 * DAY_MS)))
    expect(created.length % 2).toBe(0)
    expect((await maintain(world.t, { lookAheadMs: 100 * DAY_MS })).created).toEqual([])
    expect((await partitions('events')).at(-1)).toBe('pmax')
  })

  it('and used: an event and its finished delivery lie in the partition of their month', async () => {
    const me = await world.t.worker()
    const published = await world.t.publish()
    expect(await countIn('events', monthName(Date.now()))).toBe(1)
    await world.t.done(published, me.right)
    expect(await countIn('finished', monthName(Date.now()))).toBe(1)
  })

  it('with the rows that came too early: they are moved out of the tail', async () => {
    const ms = Date.now() + 100 * DAY_MS
    const event = world.t.event({ id: idsFrom(ms)() })
    await world.t.insert({ events: [event], deliveries: [world.t.delivery(event)] })
    expect(await countIn('events', 'pmax')).toBe(1)
    await maintain(world.t, { lookAheadMs: 100 * DAY_MS })
    expect(await countIn('events', 'pmax')).toBe(0)
    expect(await countIn('events', monthName(ms))).toBe(1)
    expect((await world.t.read()).fresh.map((row) => row.event?.id)).toEqual([event.id])
  })

  it('[44] without a read, begun before, that takes what is moved meanwhile for lost', async () => {
    const { t, hand, table } = world
    const { inspection } = t.store
    const { event } = await publishAt(t, Date.now() + 1_000 * DAY_MS)
    await hand.query(`LOCK TABLES ${table('events')} WRITE`)
    const read = t.read()
    const shown = inspection.event(event.id)
    const listed = inspection.list({ type: event.type, limit: 10 })
    await untilTableWaiting(world, 3)
    // What stays in the tail is moved as well.
    await hand.query(
      `ALTER TABLE ${table('events')} REORGANIZE PARTITION pmax INTO (PARTITION early VALUES LESS THAN (X'${lowestIdAt(Date.now() + 101 * DAY_MS)}'), PARTITION pmax VALUES LESS THAN (MAXVALUE)); UNLOCK TABLES`,
    )
    expect((await read).fresh.map((row) => [row.event?.id, row.problem])).toEqual([[event.id, null]])
    expect((await shown)?.event.id).toBe(event.id)
    expect((await listed).deliveries.map(({ eventId, type }) => [eventId, type])).toEqual([
      [event.id, event.type],
    ])
  })

  it('not where a partition that somebody made has their name, which is said', async () => {
    const { t, hand, table, harness } = world
    const last = (await partitions('finished')).at(-2) ?? ''
    const ms = monthAfter(Date.UTC(Number(last.slice(1, 5)), Number(last.slice(5)) - 1, 15))
    await hand.query(
      `ALTER TABLE ${table('finished')} REORGANIZE PARTITION pmax INTO (PARTITION ${monthName(ms).toUpperCase()} VALUES LESS THAN (X'${lowestIdAt(ms + DAY_MS)}'), PARTITION pmax VALUES LESS THAN (MAXVALUE))`,
    )
    const { created } = await maintain(t, { lookAheadMs: 100 * DAY_MS })
    expect(created).toContain(named('events', monthName(ms)))
    expect(created.every((name) => name.includes('events.'))).toBe(true)
    expect(harness.logged.filter(({ level }) => level === 'warn')).toMatchObject([
      {
        message: 'a partition could not be made; its rows go to the tail',
        fields: {
          partition: named('finished', monthName(ms)),
          reason: 'another table or partition has its name',
        },
      },
    ])
  })

  it('later, when a transaction has the table; nobody waits for that for long', async () => {
    const open = await world.t.begin()
    await world.t.insertIn(open.tx, { events: [world.t.event()] })
    const made = async (table: string): Promise<readonly string[]> =>
      (await partitions(table)).filter((name) => name !== 'pmax').map((name) => named(table, name))
    const there = await made('finished')
    const first = await maintain(world.t, { lookAheadMs: 100 * DAY_MS, lockTimeoutMs: 20 })
    const missing = (await made('finished')).slice(there.length)
    expect(missing).not.toEqual([])
    expect(first.created).toEqual(missing)
    await open.commit()
    const again = await maintain(world.t, { lookAheadMs: 100 * DAY_MS })
    expect(again.created).toEqual(missing.map((name) => name.replace('finished.', 'events.')))
  })
})

describe.each(SERVERS)('%s: partitions are dropped', (server) => {
  beforeEach(async () => {
    world = await createWorld(server, { layout: 'partitioned', period: 'month' })
  })

  afterEach(() => world.close())

  dropCases(hands)
})

/** One read after another, so many at a time, until they are told to end. */
const keepReading = (count: number): { end(): Promise<unknown> } => {
  let isOver = false
  const readers = Array.from({ length: count }, async () => {
    while (!isOver) await world.t.read()
  })
  return {
    end: () => {
      isOver = true
      return Promise.all(readers)
    },
  }
}

describe.each(SERVERS.flatMap((server) => [2, 4].map((ownConnections) => ({ server, ownConnections }))))(
  '$server: partitions are looked after while reads fill all $ownConnections connections of the store,',
  ({ server, ownConnections }) => {
    let sent: string[]

    beforeEach(async () => {
      sent = []
      const onStatement = (sql: string) => sent.push(sql)
      world = await createWorld(server, {
        layout: 'partitioned',
        period: 'month',
        ownConnections,
        onStatement,
      })
    })

    afterEach(() => world.close())

    it('which wait for the lock and keep nobody from asking under it', async () => {
      const { t, oldPeriod, deleteDeliveries } = hands()
      const old = await oldPeriod()
      await deleteDeliveries()
      const reads = keepReading(2 * ownConnections)
      const report = await maintain(t).finally(() => reads.end())
      expect(report.dropped).toEqual([old.finished, old.events])
    })

    it('which wait behind a lock that cannot be had, and do not keep it from being given up', async () => {
      const { t, oldPeriod, deleteDeliveries, readEvents } = hands()
      const old = await oldPeriod()
      await deleteDeliveries()
      const reader = await readEvents()
      const reads = keepReading(2 * ownConnections)
      const { kept } = await maintain(t, { lockTimeoutMs: 50 }).finally(() =>
        Promise.all([reads.end(), reader.end()]),
      )
      expect(kept).toEqual([{ name: old.events, reason: expect.stringContaining('transactions') }])
      expect(sent.filter((sql) => sql.startsWith('KILL QUERY')).length).toBeGreaterThan(0)
    })
  },
)

describe.each(SERVERS)('%s: with one connection of the store left', (server) => {
  it('no table is locked, and its partition stays until another time', async () => {
    const sent: string[] = []
    const onStatement = (sql: string) => sent.push(sql)
    world = await createWorld(server, {
      layout: 'partitioned',
      period: 'month',
      ownConnections: 2,
      onStatement,
    })
    const { t, oldPeriod } = hands()
    const me = await t.worker()
    const old = await oldPeriod()
    // Whoever renews waits for the table, with one of the two.
    await world.hand.query(`LOCK TABLES ${world.table('workers')} WRITE`)
    const renewed = t.store.lanes.renew(me.id, 60_000)
    try {
      await untilTableWaiting(world)
      const { kept } = await maintain(t)
      expect(kept).toContainEqual({ name: old.finished, reason: expect.stringContaining('connections') })
      expect(sent.filter((sql) => sql.includes('LOCK TABLES'))).toEqual([])
    } finally {
      await world.hand.query('UNLOCK TABLES')
      await renewed
    }
    expect((await maintain(t)).dropped).toEqual([old.finished])
    await world.close()
  })
})

describe.each(SERVERS)('%s: a plain layout', (server) => {
  it('has no partitions', async () => {
    world = await createWorld(server)
    try {
      expect(world.t.store.maintenance.partitions).toBeUndefined()
      expect(await partitions('events')).toEqual(['null'])
    } finally {
      await world.close()
    }
  })
})
