/** Bounds under pressure: a database that does not answer, payloads that are large, numbers that are high. */
import { describe, expect, it } from 'vitest'
import { createCountingMetrics, type Store, StoreError } from '../../src/index.ts'
import {
  createFakeRuntime,
  createTestOutbox,
  failingDestination,
  memoryStore,
  recordingDestination,
} from '../../src/testing/index.ts'
import { KINDS, World } from './world.ts'

const event = (payload: unknown = {}, more: object = {}) => ({ type: 'order.placed', payload, ...more })
const MIB = 1_048_576

/** A store of which single methods are replaced. */
const withQueue = (store: Store, replace: (queue: Store['queue']) => Partial<Store['queue']>): Store => ({
  ...store,
  queue: { ...store.queue, ...replace(store.queue) },
})

describe('a database that does not take outcomes', () => {
  it('[72] holds the senders back at a bound; afterwards everything is written, and nothing was sent twice', async () => {
    await using world = new World('memory')
    let down = true
    const store = withQueue(memoryStore({ database: world.database }) as unknown as Store, (queue) => ({
      settle: async (request) => {
        if (down) throw new StoreError('POSTHASTE_STORE_UNAVAILABLE', 'no database', { transient: true })
        return await queue.settle(request)
      },
    }))
    const broker = recordingDestination()
    const [capacity, concurrency] = [10, 4]
    const outbox = world.outbox({
      store,
      destinations: { broker: { to: broker, events: ['*'], concurrency } },
      hotQueueCapacity: capacity,
      coldQueueCapacity: capacity,
      pollIntervalMs: 10,
      pollIdleMaxMs: 10,
    })
    await outbox.start()
    for (let n = 0; n < 500; n += 1) await outbox.transaction((tx) => outbox.publish(tx, event(n)))
    for (let turns = 0; turns < 200; turns += 1) await new Promise((resolve) => setImmediate(resolve))
    expect(broker.accepted.length).toBeLessThanOrEqual(2 * (capacity + capacity) + concurrency)
    down = false
    await broker.waitForAccepted(500)
    await outbox.flush()
    expect(broker.accepted).toHaveLength(500)
    expect(new Set(broker.accepted.map((sent) => sent.event.id)).size).toBe(500)
    const [counts] = await outbox.inspect.counts()
    expect(counts?.counts).toMatchObject({ done: 500, pending: 0 })
  })

  it('[72] whose answer was lost is asked again, and the outcome counts once', async () => {
    await using world = new World('memory')
    let lost = 3
    const store = withQueue(memoryStore({ database: world.database }) as unknown as Store, (queue) => ({
      settle: async (request) => {
        const result = await queue.settle(request)
        if (lost-- > 0)
          throw new StoreError('POSTHASTE_STORE_UNAVAILABLE', 'the answer was lost', { transient: true })
        return result
      },
    }))
    const metrics = createCountingMetrics()
    const broker = failingDestination({ times: 1, events: 'bad' })
    const outbox = world.outbox({ store, metrics, destinations: { broker: { to: broker, events: ['*'] } } })
    await outbox.start()
    await outbox.transaction((tx) =>
      outbox.publishMany(tx, [event(1), event(2, { key: 'k' }), { type: 'bad', payload: 3 }]),
    )
    await broker.waitForAccepted(3)
    await outbox.flush()
    expect(broker.received).toHaveLength(4)
    expect(metrics.count('rightsLost')).toBe(0)
    const { deliveries } = await outbox.inspect.list({ limit: 10, order: 'oldest' })
    expect(deliveries.map(({ status }) => status)).toEqual(['done', 'done', 'done'])
  })

  it('that cannot be read is asked again at growing distances, and delivers when it is back', async () => {
    await using world = new World('memory')
    const runtime = createFakeRuntime()
    let [down, reads] = [false, 0]
    const store = withQueue(memoryStore({ database: world.database }) as unknown as Store, (queue) => ({
      read: (request) => {
        reads += 1
        return down ? Promise.reject(new Error('connection lost')) : queue.read(request)
      },
    }))
    const broker = recordingDestination()
    const outbox = world.outbox({ store, runtime, destinations: { broker: { to: broker, events: ['*'] } } })
    await outbox.start()
    down = true
    const writer = world.outbox({ runtime: createFakeRuntime({ seed: 2 }) })
    await writer.transaction((tx) => writer.publish(tx, event()))
    reads = 0
    await runtime.advance(120_000)
    expect(broker.accepted).toEqual([])
    expect(reads).toBeGreaterThan(10)
    expect(reads).toBeLessThan(100)
    down = false
    await runtime.advance(10_000)
    expect(broker.accepted).toHaveLength(1)
  })
})

describe('large payloads', () => {
  it('[75] are read and queued by bytes, not only by count', async () => {
    await using world = new World('memory')
    const reads: { readonly allowed: number; readonly got: number; readonly first: number }[] = []
    const broker = failingDestination({ fail: 'hang' })
    const store = withQueue(memoryStore({ database: world.database }) as unknown as Store, (queue) => ({
      read: async (request) => {
        const result = await queue.read(request)
        const sizes = [...result.due, ...result.fresh].map(({ size }) => size)
        const got = sizes.reduce((sum, size) => sum + size, 0)
        reads.push({ allowed: request.maxBytes, got, first: sizes[0] ?? 0 })
        return result
      },
    }))
    const writer = world.outbox()
    const payload = 'x'.repeat(300_000)
    for (let n = 0; n < 30; n += 1) await writer.transaction((tx) => writer.publish(tx, event(payload)))
    const metrics = createCountingMetrics()
    const outbox = world.outbox({
      store,
      metrics,
      destinations: { broker: { to: broker, events: ['*'], concurrency: 2 } },
      queueBytes: MIB,
    })
    await outbox.start()
    await broker.waitForReceived(2)
    for (let turns = 0; turns < 100; turns += 1) await new Promise((resolve) => setImmediate(resolve))
    expect(metrics.count('coldEnqueued')).toBeLessThanOrEqual(Math.ceil(MIB / 300_000))
    broker.release()
    await broker.waitForAccepted(30)
    await outbox.flush()
    expect(broker.accepted).toHaveLength(30)
    for (const { allowed, got, first } of reads) {
      expect(allowed).toBeLessThanOrEqual(MIB)
      expect(got).toBeLessThanOrEqual(Math.max(allowed, first))
    }
  })

  it.each(KINDS)('[75] one that is larger than the whole queue still passes, on %s', async (kind) => {
    await using world = new World(kind)
    const broker = recordingDestination()
    const outbox = world.outbox({
      destinations: { broker: { to: broker, events: ['*'] } },
      queueBytes: MIB,
      maxPayloadBytes: 4 * MIB,
    })
    await outbox.start()
    const payload = 'x'.repeat(3 * MIB)
    await outbox.transaction((tx) => outbox.publishMany(tx, [event(payload), event('small'), event(payload)]))
    await outbox.flush()
    expect(broker.accepted.map((sent) => sent.event.size).sort((a, b) => a - b)).toEqual([
      7,
      3 * MIB + 2,
      3 * MIB + 2,
    ])
  })

  it('[76] beyond the limit, and what JSON or a database would change, is refused before any SQL', async () => {
    await using world = new World('sqlite')
    // Not started, so that every statement is one of this transaction.
    const outbox = world.outbox()
    const cycle: Record<string, unknown> = {}
    cycle.self = cycle
    const refused = [
      'x'.repeat(MIB),
      { n: 1n },
      { n: Number.NaN },
      cycle,
      'a\u0000b',
      '\ud800',
      () => undefined,
      {
        toJSON: () => {
          throw new Error('toJSON')
        },
      },
      Array.from({ length: 100 }).reduce<unknown>((inner) => [inner], 0),
    ]
    await outbox.transaction(async (tx) => {
      const before = world.statements.length
      for (const payload of refused) {
        await expect(outbox.publish(tx, event(payload))).rejects.toMatchObject({
          code: 'POSTHASTE_INVALID_EVENT',
        })
      }
      expect(world.statements.slice(before)).toEqual([])
      await outbox.publish(tx, event('good'))
    })
    expect((await outbox.inspect.list({ limit: 10 })).deliveries).toHaveLength(1)
  })
})

describe('numbers beyond what a double can hold', () => {
  it('[77] keep the order of a key', async () => {
    const broker = recordingDestination()
    await using t = createTestOutbox({ destinations: { broker: { to: broker, events: ['*'] } } })
    t.database.setNextSeq(2n ** 53n - 5n)
    await t.outbox.transaction((tx) =>
      t.outbox.publishMany(
        tx,
        Array.from({ length: 20 }, (_, n) => event(n, { key: 'k' })),
      ),
    )
    await t.drain()
    expect(broker.accepted.map((sent) => Number(sent.event.data))).toEqual(
      Array.from({ length: 20 }, (_, n) => n),
    )
    expect((await t.deliveries()).at(-1)?.seq).toBe(2n ** 53n + 14n)
  })
})
