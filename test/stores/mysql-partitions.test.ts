/** Partitions: made ahead, dropped as a whole, and never in anybody's way for long. */
import mysql from 'mysql2/promise'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { createIdGenerator } from '../../src/core/model/index.ts'
import type { PartitionReport, PartitionRequest } from '../../src/core/spi/index.ts'
import { lowestIdAt } from '../../src/stores/mysql/periods.ts'
import { createWorld, rowsOf, SERVERS, type World } from './mysql-words.ts'
import { serverUrl } from './servers.ts'

const DAY_MS = 86_400_000

let world: World

const maintain = (over: Partial<PartitionRequest> = {}): Promise<PartitionReport> =>
  world.t.store.maintenance.partitions!({
    lookAheadMs: 30 * DAY_MS,
    doneOlderThanMs: 7 * DAY_MS,
    deadOlderThanMs: null,
    lockTimeoutMs: 100,
    ...over,
  })

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

/** Ids as they were made so long ago. */
const idsFrom = (ms: number): (() => string) =>
  createIdGenerator({
    wallNow: () => ms,
    randomBytes: (size) => crypto.getRandomValues(new Uint8Array(size)),
  })

/** A month that is long past gets partitions of its own, and an event with a delivery. */
const oldMonth = async (daysAgo = 60) => {
  const ms = Date.now() - daysAgo * DAY_MS
  const [first] = await partitions('events')
  const name = monthName(ms)
  for (const table of ['events', 'finished']) {
    await world.hand.query(
      `ALTER TABLE ${world.table(table)} REORGANIZE PARTITION ${first} INTO (
        PARTITION ${name} VALUES LESS THAN (X'${lowestIdAt(monthAfter(ms))}'), PARTITION ${first} VALUES LESS THAN (X'${lowestIdAt(monthAfter(Date.now()))}'))`,
    )
  }
  const newId = idsFrom(ms)
  const event = world.t.event({ id: newId() })
  const delivery = { ...world.t.delivery(event), id: newId() }
  await world.t.insert({ events: [event], deliveries: [delivery] })
  return { event, delivery, events: named('events', name), finished: named('finished', name) }
}

const byHand = (sql: string) => world.hand.query(sql)

const ageFinished = () =>
  byHand(`UPDATE ${world.table('finished')} SET finished_at = UTC_TIMESTAMP(6) - INTERVAL 8 DAY`)

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
    const { created } = await maintain({ lookAheadMs: 100 * DAY_MS })
    expect(created).toContain(named('events', monthName(Date.now() + 100 * DAY_MS)))
    expect(created.length % 2).toBe(0)
    expect((await maintain({ lookAheadMs: 100 * DAY_MS })).created).toEqual([])
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
    await maintain({ lookAheadMs: 100 * DAY_MS })
    expect(await countIn('events', 'pmax')).toBe(0)
    expect(await countIn('events', monthName(ms))).toBe(1)
    expect((await world.t.read()).fresh.map((row) => row.event?.id)).toEqual([event.id])
  })

  it('later, when a transaction has the table; nobody waits for that for long', async () => {
    const open = await world.t.begin()
    await world.t.insertIn(open.tx, { events: [world.t.event()] })
    const first = await maintain({ lookAheadMs: 100 * DAY_MS, lockTimeoutMs: 20 })
    expect(first.created.every((name) => name.includes('finished.'))).toBe(true)
    await open.commit()
    const again = await maintain({ lookAheadMs: 100 * DAY_MS })
    expect(again.created.length).toBe(first.created.length)
    expect(again.created.every((name) => name.includes('events.'))).toBe(true)
  })
})

describe.each(SERVERS)('%s: partitions are dropped', (server) => {
  beforeEach(async () => {
    world = await createWorld(server, { layout: 'partitioned', period: 'month' })
  })

  afterEach(() => world.close())

  it('when everything in them has finished before the retention, with the attempts', async () => {
    const me = await world.t.worker()
    const old = await oldMonth()
    await world.t.retry(old, me.right, { delayMs: 0 })
    await world.t.done(old, me.right)
    await ageFinished()
    const report = await maintain()
    expect(report.dropped).toEqual([old.finished, old.events])
    expect(await world.t.store.inspection.event(old.event.id)).toBeNull()
    expect(await countIn('attempts')).toBe(0)
    const [counts] = await world.t.store.inspection.counts()
    expect(counts?.counts.done).toBe(0)
    await world.t.publish()
  })

  it('not while a delivery is unfinished or dead', async () => {
    const me = await world.t.worker()
    const old = await oldMonth()
    const first = await maintain()
    expect(first.dropped).toEqual([old.finished])
    expect(first.kept).toEqual([{ name: old.events, reason: expect.stringContaining('unfinished or dead') }])
    await world.t.dead(old, me.right)
    expect((await maintain()).dropped).toEqual([])
    expect((await world.t.detail(old)).deliveries.length).toBe(1)
  })

  it('not while a delivery has finished within the retention, nor the events that it is about', async () => {
    const me = await world.t.worker()
    const old = await oldMonth()
    await world.t.done(old, me.right)
    const { dropped, kept } = await maintain()
    expect(dropped).toEqual([])
    expect(kept.map(({ name }) => name)).toEqual([old.finished, old.events])
  })

  it('not while a transaction writes into them, which then commits late', async () => {
    const old = await oldMonth()
    await byHand(`DELETE FROM ${world.table('deliveries')}`)
    const late = world.t.event({ id: idsFrom(Date.now() - 60 * DAY_MS)() })
    const open = await world.t.begin()
    await world.t.insertIn(open.tx, { events: [late], deliveries: [world.t.delivery(late)] })
    const first = await maintain({ lockTimeoutMs: 20 })
    expect(first.kept).toEqual([{ name: old.events, reason: expect.stringContaining('transactions') }])
    await open.commit()
    const second = await maintain()
    expect(second.kept).toEqual([{ name: old.events, reason: expect.stringContaining('unfinished') }])
    expect((await world.t.read()).fresh.map((row) => row.event?.id)).toEqual([late.id])
  })

  it('and never the tails, which are cleaned row by row', async () => {
    const me = await world.t.worker()
    const event = world.t.event({ id: 'f47ac10b-58cc-4372-a567-0e02b2c3d479' })
    const delivery = { ...world.t.delivery(event), id: 'f47ac10b-58cc-4372-a567-0e02b2c3d480' }
    await world.t.insert({ events: [event], deliveries: [delivery] })
    await world.t.done({ event, delivery }, me.right)
    await ageFinished()
    expect((await maintain()).dropped).toEqual([])
    const cleaned = await world.t.store.maintenance.cleanup({
      doneOlderThanMs: 7 * DAY_MS,
      deadOlderThanMs: null,
      dedupOlderThanMs: 7 * DAY_MS,
      limit: 100,
    })
    expect([cleaned.done, cleaned.events]).toEqual([1, 1])
    expect((await partitions('events')).at(-1)).toBe('pmax')
  })

  it('without keeping a publisher waiting behind a lock that cannot be had', async () => {
    const old = await oldMonth()
    await byHand(`DELETE FROM ${world.table('deliveries')}`)
    const reader = await mysql.createConnection({ uri: serverUrl(server), multipleStatements: true })
    await reader.query(`START TRANSACTION; SELECT COUNT(*) FROM ${world.table('events')}`)
    const maintaining = maintain({ lockTimeoutMs: 50 })
    // The reader has its lock to the end, so whatever is published meanwhile did not wait for it.
    let published = 0
    let done = false
    void maintaining.finally(() => {
      done = true
    })
    while (!done) {
      await world.t.publish()
      published += 1
    }
    const { kept } = await maintaining
    expect(kept.map(({ name }) => name)).toContain(old.events)
    expect(published).toBeGreaterThan(0)
    await reader.end()
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
