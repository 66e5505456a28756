/** Partitions: made ahead, dropped as a whole, and never in anybody's way for long. */
import pg from 'pg'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { createIdGenerator } from '../../src/core/model/index.ts'
import type { PartitionReport, PartitionRequest } from '../../src/core/spi/index.ts'
import { lowestIdAt } from '../../src/stores/postgres/periods.ts'
import { createWorld, until, type World } from './postgres-words.ts'
import { newPostgresUrl } from './servers.ts'

const DAY_MS = 86_400_000

let world: World

beforeEach(async () => {
  world = await createWorld(newPostgresUrl(), { layout: 'partitioned' })
})

afterEach(() => world.close())

const maintain = (over: Partial<PartitionRequest> = {}): Promise<PartitionReport> =>
  world.t.store.maintenance.partitions!({
    lookAheadMs: 30 * DAY_MS,
    doneOlderThanMs: 7 * DAY_MS,
    deadOlderThanMs: null,
    lockTimeoutMs: 100,
    ...over,
  })

const dayName = (table: string, ms: number): string =>
  `${table}_p${new Date(ms).toISOString().slice(0, 10).replaceAll('-', '')}`

const partitions = async (): Promise<string[]> => {
  const { rows } = await world.hand.query(
    'SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relkind = $2 ORDER BY 1',
    [world.schema, 'r'],
  )
  return rows.map((row) => row.relname)
}

const countIn = async (table: string): Promise<number> =>
  (await world.hand.query(`SELECT count(*)::int AS n FROM ${world.schema}.${table}`)).rows[0].n

/** Ids as they were made so long ago. */
const idsFrom = (ms: number): (() => string) =>
  createIdGenerator({
    wallNow: () => ms,
    randomBytes: (size) => crypto.getRandomValues(new Uint8Array(size)),
  })

/** A day that is long past, with its partitions, and an event of that day. */
const oldDay = async (daysAgo = 20) => {
  const ms = Date.now() - daysAgo * DAY_MS
  const day = Math.floor(ms / DAY_MS) * DAY_MS
  for (const table of ['events', 'finished']) {
    await world.hand.query(
      `CREATE TABLE ${world.schema}.${dayName(table, day)} PARTITION OF ${world.schema}.${table} FOR VALUES FROM ('${lowestIdAt(day)}') TO ('${lowestIdAt(day + DAY_MS)}')`,
    )
  }
  const newId = idsFrom(ms)
  const event = world.t.event({ id: newId() })
  const delivery = { ...world.t.delivery(event), id: newId() }
  await world.t.insert({ events: [event], deliveries: [delivery] })
  return { event, delivery, events: dayName('events', day), finished: dayName('finished', day) }
}

const age = (sql: string): Promise<unknown> => world.hand.query(`UPDATE ${world.schema}.${sql}`)

describe('partitions are made', () => {
  it('by the migration, for today and thirty days, beside the tails', async () => {
    const all = await partitions()
    expect(all).toContain(dayName('events', Date.now()))
    expect(all).toContain(dayName('finished', Date.now() + 30 * DAY_MS))
    expect(all).toEqual(expect.arrayContaining(['events_tail', 'finished_tail']))
    expect(all.length).toBe(2 * 31 + 2)
  })

  it('as far ahead as asked, and only once', async () => {
    const { created } = await maintain({ lookAheadMs: 32 * DAY_MS })
    expect([...created].sort()).toEqual(
      [31, 32]
        .flatMap((days) => ['events', 'finished'].map((table) => dayName(table, Date.now() + days * DAY_MS)))
        .sort(),
    )
    expect((await maintain({ lookAheadMs: 32 * DAY_MS })).created).toEqual([])
  })

  it('and used: an event and its finished delivery lie in the partition of their day', async () => {
    const me = await world.t.worker()
    const published = await world.t.publish()
    expect(await countIn(dayName('events', Date.now()))).toBe(1)
    await world.t.done(published, me.right)
    expect(await countIn(dayName('finished', Date.now()))).toBe(1)
  })

  it('[44] without the rows that came too early: they are moved out of the tail', async () => {
    const ms = Date.now() + 31 * DAY_MS
    const event = world.t.event({ id: idsFrom(ms)() })
    await world.t.insert({ events: [event], deliveries: [world.t.delivery(event)] })
    expect(await countIn('events_tail')).toBe(1)
    const { created } = await maintain({ lookAheadMs: 31 * DAY_MS })
    expect(created).toContain(dayName('events', ms))
    expect(await countIn('events_tail')).toBe(0)
    expect(await countIn(dayName('events', ms))).toBe(1)
    expect((await world.t.read()).fresh.map((row) => row.event?.id)).toEqual([event.id])
  })

  it('[45] later, when somebody is writing to the tail; nobody waits for that for long', async () => {
    const event = world.t.event({ id: idsFrom(Date.now() + 60 * DAY_MS)() })
    const open = await world.t.begin()
    await world.t.insertIn(open.tx, { events: [event] })
    const { created } = await maintain({ lookAheadMs: 31 * DAY_MS, lockTimeoutMs: 20 })
    expect(created).toEqual([dayName('finished', Date.now() + 31 * DAY_MS)])
    await open.commit()
    const again = await maintain({ lookAheadMs: 31 * DAY_MS })
    expect(again.created).toEqual([dayName('events', Date.now() + 31 * DAY_MS)])
  })

  it('[44] for no id in particular: those of other kinds go to the tail', async () => {
    const event = world.t.event({ id: 'f47ac10b-58cc-4372-a567-0e02b2c3d479' })
    await world.t.insert({ events: [event], deliveries: [world.t.delivery(event)] })
    expect(await countIn('events_tail')).toBe(1)
    expect((await world.t.read()).fresh.map((row) => row.event?.id)).toEqual([event.id])
  })
})

describe('partitions are dropped', () => {
  it('when everything in them has finished before the retention, with the attempts', async () => {
    const me = await world.t.worker()
    const old = await oldDay()
    await world.t.retry(old, me.right, { delayMs: 0 })
    await world.t.done(old, me.right)
    await age(`finished SET finished_at = now() - interval '8 days'`)
    const report = await maintain()
    expect(report.dropped).toEqual([old.finished, old.events])
    expect(await world.t.store.inspection.event(old.event.id)).toBeNull()
    expect(await countIn('attempts')).toBe(0)
    const [counts] = await world.t.store.inspection.counts()
    expect(counts?.counts.done).toBe(0)
  })

  it('not while a delivery is unfinished or dead', async () => {
    const me = await world.t.worker()
    const old = await oldDay()
    const first = await maintain()
    expect(first.dropped).toEqual([old.finished])
    expect(first.kept).toEqual([{ name: old.events, reason: expect.stringContaining('unfinished or dead') }])
    await world.t.dead(old, me.right)
    expect((await maintain()).dropped).toEqual([])
    expect((await world.t.detail(old)).deliveries.length).toBe(1)
  })

  it('not while a delivery has finished within the retention, nor the events that it is about', async () => {
    const me = await world.t.worker()
    const old = await oldDay()
    await world.t.done(old, me.right)
    const { dropped, kept } = await maintain()
    expect(dropped).toEqual([])
    expect(kept.map(({ name }) => name)).toEqual([old.finished, old.events])
  })

  it('not before their time', async () => {
    await oldDay(5)
    const { dropped, kept } = await maintain()
    expect([dropped, kept]).toEqual([[], []])
  })

  it('not while a transaction writes into them, which then commits late', async () => {
    const old = await oldDay()
    await age(`deliveries SET destination = 'gone'`)
    await world.hand.query(`DELETE FROM ${world.schema}.deliveries`)
    const late = world.t.event({ id: idsFrom(Date.now() - 20 * DAY_MS)() })
    const open = await world.t.begin()
    await world.t.insertIn(open.tx, { events: [late], deliveries: [world.t.delivery(late)] })
    const first = await maintain({ lockTimeoutMs: 20 })
    expect(first.kept).toEqual([{ name: old.events, reason: expect.stringContaining('transactions') }])
    await open.commit()
    const second = await maintain()
    expect(second.kept).toEqual([{ name: old.events, reason: expect.stringContaining('unfinished') }])
    expect((await world.t.read()).fresh.map((row) => row.event?.id)).toEqual([late.id])
  })

  it('not when what needs them is committed while their lock is waited for', async () => {
    const old = await oldDay()
    await world.hand.query(`DELETE FROM ${world.schema}.deliveries`)
    const late = world.t.event({ id: idsFrom(Date.now() - 20 * DAY_MS)() })
    const open = await world.t.begin()
    await world.t.insertIn(open.tx, { events: [late], deliveries: [world.t.delivery(late)] })
    const maintaining = maintain({ lockTimeoutMs: 20_000 })
    await until('the lock is waited for', async () => {
      const waiting = `SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%' || $1 || '%'`
      return (await world.hand.query(waiting, [world.schema])).rows.length > 0
    })
    await open.commit()
    expect((await maintaining).kept).toEqual([
      { name: old.events, reason: expect.stringContaining('unfinished') },
    ])
    expect((await world.t.read()).fresh.map((row) => row.event?.id)).toEqual([late.id])
  })

  it('and never the tails, which are cleaned row by row', async () => {
    const me = await world.t.worker()
    const event = world.t.event({ id: 'f47ac10b-58cc-4372-a567-0e02b2c3d479' })
    const delivery = { ...world.t.delivery(event), id: 'f47ac10b-58cc-4372-a567-0e02b2c3d480' }
    await world.t.insert({ events: [event], deliveries: [delivery] })
    await world.t.done({ event, delivery }, me.right)
    await age(`finished SET finished_at = now() - interval '8 days'`)
    expect((await maintain()).dropped).toEqual([])
    const cleaned = await world.t.store.maintenance.cleanup({
      doneOlderThanMs: 7 * DAY_MS,
      deadOlderThanMs: null,
      dedupOlderThanMs: 7 * DAY_MS,
      limit: 100,
    })
    expect([cleaned.done, cleaned.events]).toEqual([1, 1])
    expect(await partitions()).toEqual(expect.arrayContaining(['events_tail', 'finished_tail']))
  })

  it('[45] without keeping a publisher waiting behind a lock that cannot be had', async () => {
    const old = await oldDay()
    await world.hand.query(`DELETE FROM ${world.schema}.deliveries`)
    const reader = new pg.Client({ connectionString: world.url })
    await reader.connect()
    await reader.query(`BEGIN; SELECT count(*) FROM ${world.schema}.events`)
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

it('a plain layout has no partitions', async () => {
  const plain = await createWorld(newPostgresUrl())
  try {
    expect(plain.t.store.maintenance.partitions).toBeUndefined()
  } finally {
    await plain.close()
  }
})
