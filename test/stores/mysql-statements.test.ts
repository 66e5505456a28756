/** How many round trips an operation costs, and what one statement may carry. Both are easy to lose by a small change. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Published } from '../../src/testing/suites/store-fixture.ts'
import { createWorld, SERVERS, type World } from './mysql-words.ts'

let world: World
let sent: string[] = []

/** Round trips of `work`, without those that begin and end the application's transaction. */
const trips = async (work: () => Promise<unknown>): Promise<number> => {
  sent = []
  await work()
  return sent.filter((sql) => !/^(START TRANSACTION|COMMIT)$/.test(sql)).length
}

const insertAll = (all: readonly Published[], over: object = {}) =>
  world.t.insert({
    events: all.map(({ event }) => event),
    deliveries: all.map(({ delivery }) => delivery),
    ...over,
  })

describe.each(SERVERS)('%s', (server) => {
  beforeEach(async () => {
    world = await createWorld(server, { onStatement: (sql) => sent.push(sql) })
  })

  afterEach(() => world.close())

  it('publishing one event is two round trips, and a hundred are no more', async () => {
    const { t } = world
    expect(await trips(() => t.publish())).toBe(2)
    const many = Array.from({ length: 100 }, (_, i) => t.prepare({ key: `k${i}` }))
    expect(await trips(() => insertAll(many))).toBe(2)
    expect(await t.readableIds()).toHaveLength(101)
  })

  it('events of one call that lie around one of somebody else do not wait for its commit', async () => {
    const { t } = world
    const [before, between, after] = [t.prepare(), t.prepare(), t.prepare()] as const
    const open = await t.begin()
    await t.publishIn(open.tx, between)
    await insertAll([before, after])
    await open.commit()
    expect(await t.readableIds()).toHaveLength(3)
  })

  it('with an idempotency key it is three, also when the event is there already', async () => {
    const { t } = world
    expect(await trips(() => t.publish({ idempotencyKey: 'once' }))).toBe(3)
    const many = Array.from({ length: 100 }, (_, i) => t.prepare({ idempotencyKey: `k${i}` }))
    expect(await trips(() => insertAll(many))).toBe(3)
    expect(await trips(() => t.publish({ idempotencyKey: 'once' }))).toBe(3)
  })

  it('locking keys costs one more', async () => {
    const { t } = world
    const one = t.prepare({ key: 'k' })
    expect(await trips(() => insertAll([one], { lockKeys: true }))).toBe(3)
  })

  it('reading, claiming a head and settling are one round trip each', async () => {
    const { t } = world
    const me = await t.worker()
    const all = await t.publishMany(20, { key: null })
    const keyed = await t.publish({ key: 'k' })
    expect(await trips(() => t.read({ sweep: true }))).toBe(1)
    expect(await trips(() => t.store.queue.claim(me.id, [keyed.delivery.id], 16))).toBe(1)
    const settlements = [...all, keyed].map((each) => t.settlement(each, me.right, { kind: 'done' }))
    expect(await trips(() => t.settle(settlements))).toBe(1)
    expect(await t.readableIds()).toEqual([])
  })

  it('events that are too much for one packet go in several', async () => {
    const { t } = world
    const data = JSON.stringify('"\\'.repeat(200_000))
    const all = Array.from({ length: 12 }, () => t.prepare({ data }))
    expect(await trips(() => insertAll(all))).toBeGreaterThan(2)
    const { fresh } = await t.read()
    expect(fresh.map(({ id }) => id)).toEqual(all.map(({ delivery }) => delivery.id))
    expect(fresh.every(({ event }) => event?.data === data)).toBe(true)
  })

  it('a second packet that fails takes the first one back', async () => {
    const { t } = world
    const there = await t.publish()
    const data = JSON.stringify('x'.repeat(900_000))
    const all = Array.from({ length: 5 }, () => t.prepare({ data }))
    const clash = { ...t.prepare(), event: t.event({ id: there.event.id }) }
    const open = await t.begin()
    const request = { events: [...all.map(({ event }) => event), clash.event], deliveries: [] }
    await expect(t.insertIn(open.tx, request)).rejects.toMatchObject({ code: 'POSTHASTE_CONFLICT' })
    await open.commit()
    for (const { event } of all) expect(await t.store.inspection.event(event.id)).toBeNull()
    expect(await t.store.inspection.event(there.event.id)).not.toBeNull()
  })

  it('a flush full of long failures is settled, and all of it', async () => {
    const { t } = world
    const me = await t.worker()
    const all = Array.from({ length: 300 }, (_, i) => t.prepare({ key: `k${i}` }))
    await insertAll(all)
    const long = "ü?'".repeat(1_300)
    const settlements = all.map((each, i) =>
      t.settlement(
        each,
        me.right,
        i % 3 === 0
          ? { kind: 'done' }
          : {
              kind: 'retry',
              delayMs: 60_000,
              counted: true,
              failure: { ...t.failure(1, long), stack: long },
            },
      ),
    )
    expect(await t.settle(settlements)).toEqual({ lost: [], promoted: [] })
    const [counts] = await t.store.inspection.counts()
    expect(counts?.counts).toMatchObject({ done: 100, retry: 200 })
    const { attempts } = await t.detail(all[1]!)
    expect(attempts[0]?.message).toBe(long.slice(0, 4_000))
  })

  it('times that the server cannot store are refused before any statement', async () => {
    const { t } = world
    const open = await t.begin()
    for (const over of [{ occurredAtMs: 8.64e15 }, { occurredAtMs: -1e14 }, { due: { atMs: 8.64e15 } }]) {
      const published = t.prepare(over)
      expect(
        await trips(() =>
          expect(t.publishIn(open.tx, published)).rejects.toMatchObject({ code: 'POSTHASTE_INVALID_EVENT' }),
        ),
      ).toBe(0)
    }
    await t.publishIn(open.tx, t.prepare())
    await open.commit()
    expect(await t.readableIds()).toHaveLength(1)
  })

  it('keys may be as long as the core allows, in the widest characters', async () => {
    const { t } = world
    const me = await t.worker()
    const key = '🚀'.repeat(127)
    const wide = { key, type: 'ж'.repeat(128), idempotencyKey: '漢'.repeat(255), tenantId: 'é'.repeat(64) }
    const head = await t.publish({ ...wide, destination: 'd'.repeat(64) })
    await t.retry(head, me.right, { delayMs: 0 })
    const next = await t.publish({ ...wide, idempotencyKey: null, destination: 'd'.repeat(64) })
    expect((await t.readOne(next)).behind).toBe(true)
    expect((await t.readOne(next)).key).toBe(key)
  })

  it('inserts through prepared statements of a library that returns neither rows nor counts', async () => {
    const { t } = world
    const { insert } = world.harness.store
    await world.hand.query('START TRANSACTION')
    const executor = {
      run: async (sql: string, params: readonly unknown[]) => {
        const values = params.map((value) => (value instanceof Uint8Array ? Buffer.from(value) : value))
        await world.hand.execute(sql, values as never)
        return undefined
      },
    }
    const data = Uint8Array.from({ length: 256 }, (_, i) => i)
    const bytes = t.prepare({ data, contentType: 'application/octet-stream', idempotencyKey: 'bytes' })
    const all = [
      t.prepare({ key: 'ключ', headers: { a: 'b' }, tenantId: 't' }),
      t.prepare({ due: { afterMs: 60_000 } }),
      t.prepare({ due: { atMs: Date.UTC(2100, 0, 1) } }),
      t.prepare({ token: t.newId() }),
      bytes,
    ]
    const requestOf = (some: readonly Published[]) => ({
      events: some.map(({ event }) => event),
      deliveries: some.map(({ delivery }) => delivery),
      hotLeaseMs: 60_000,
      lockKeys: true,
    })
    const publish = (some: readonly Published[]) =>
      insert.call(world.harness.store, executor, requestOf(some))
    await publish(all)
    await publish([t.prepare({ idempotencyKey: 'bytes' })])
    const alone = t.prepare({ due: { atMs: 1 }, idempotencyKey: 'alone' })
    await publish([alone])
    await world.hand.query('COMMIT')
    expect(await t.readableIds()).toEqual([all[0]!, bytes, alone].map(({ delivery }) => delivery.id))
    expect(await Promise.all(all.map((each) => t.status(each)))).toEqual([
      'pending',
      'scheduled',
      'scheduled',
      'pending',
      'pending',
    ])
    expect((await t.readOne(bytes)).event?.data).toEqual(data)
    expect((await t.view(all[2]!)).availableAtMs).toBe(Date.UTC(2100, 0, 1))
  })
})
