/** Settings that an operator changes while processes run: everybody follows, and what is under way ends as it began. */
import { describe, expect, it } from 'vitest'
import { createOutbox, type Store } from '../../src/index.ts'
import {
  createFakeRuntime,
  createTestOutbox,
  failingDestination,
  memoryStore,
  recordingDestination,
} from '../../src/testing/index.ts'
import { observeStore } from '../../src/testing/observed-store.ts'
import { type Gate, gate, KINDS, World } from './world.ts'

const event = (payload: unknown = {}, more: object = {}) => ({ type: 'order.placed', payload, ...more })
const act = { actor: 'alice', reason: 'sale day' }

describe.each(KINDS)('an operator who tunes a destination on %s', (kind) => {
  it('gives it more workers at once, and fewer as soon as those that run have ended', async () => {
    await using world = new World(kind)
    const running: Gate[] = []
    let started = 0
    const outbox = world.outbox({ destinations: { slow: { events: ['*'], concurrency: 1 } } })
    outbox.on('slow', '*', async () => {
      const here = gate()
      running.push(here)
      started += 1
      world.ring()
      await here.promise
    })
    const end = (count: number): void => {
      for (const one of running.splice(0, count)) one.open()
    }
    const endOne = async (): Promise<void> => {
      const { length } = world.settled
      end(1)
      await world.until(() => world.settled.length > length)
    }
    await outbox.start()
    await outbox.transaction((tx) =>
      outbox.publishMany(
        tx,
        Array.from({ length: 8 }, (_, n) => event(n)),
      ),
    )
    await world.until(() => started === 1)
    await outbox.operator.tune('slow', { concurrency: 3 }, act)
    await world.until(() => started === 3)
    await outbox.operator.tune('slow', { concurrency: 1 }, act)
    expect(running).toHaveLength(3)
    await endOne()
    await endOne()
    expect([started, running.length]).toEqual([3, 1])
    end(1)
    await world.until(() => started === 4)
    expect(running).toHaveLength(1)
    await outbox.operator.tune('slow', { concurrency: 2 }, act)
    await world.until(() => started === 5)
    await outbox.operator.tune('slow', { concurrency: null }, act)
    await endOne()
    expect([started, running.length]).toEqual([5, 1])
    const drained = world.until(() => {
      end(running.length)
      return world.settled.length === 8
    })
    await drained
  })

  it('sees what is set, and who set it; null is what each process’s own options say', async () => {
    await using world = new World(kind)
    const outbox = world.outbox({
      destinations: { broker: { to: recordingDestination(), events: ['order.*'], concurrency: 2 } },
    })
    await outbox.start()
    await outbox.operator.tune('broker', { concurrency: 8, ratePerSecond: 2.5, pollBatchSize: 50 }, act)
    await outbox.operator.tune('broker', { pollBatchSize: null, pollIntervalMs: 200, batchSize: 20 }, act)
    const [broker] = await outbox.inspect.destinations()
    expect(broker).toEqual({
      name: 'broker',
      patterns: ['order.*'],
      startedAtMs: expect.any(Number),
      paused: false,
      ratePerSecond: 2.5,
      concurrency: 8,
      batchSize: 20,
      pollBatchSize: null,
      pollIntervalMs: 200,
      openBreakers: [],
    })
    const [second, first] = await outbox.inspect.audit()
    expect([first?.actor, first?.action, first?.reason]).toEqual(['alice', 'configure', 'sale day'])
    expect(JSON.parse(second?.target ?? '')).toEqual({
      destination: 'broker',
      pollBatchSize: null,
      pollIntervalMs: 200,
      batchSize: 20,
    })
    await expect(outbox.operator.tune('nowhere', { concurrency: 1 })).rejects.toMatchObject({
      code: 'POSTHASTE_NOT_FOUND',
    })
  })
})

describe('another process', () => {
  it('follows at its next renewal, and one that starts later does from its start', async () => {
    const broker = failingDestination({ fail: 'hang' })
    const destinations = { broker: { to: broker, events: ['*'], concurrency: 1 } }
    await using worker = createTestOutbox({ destinations })
    await using desk = createTestOutbox({ database: worker.database, clock: worker.runtime as never })
    await worker.outbox.start()
    await worker.outbox.transaction((tx) =>
      worker.outbox.publishMany(
        tx,
        Array.from({ length: 10 }, (_, n) => event(n)),
      ),
    )
    await worker.advance(100)
    expect(broker.received).toHaveLength(1)
    await desk.outbox.operator.tune('broker', { concurrency: 4 }, act)
    await worker.advance(6_000)
    expect(broker.received).toHaveLength(4)
    broker.release()
    await worker.advance(1_000)
    expect(broker.accepted).toHaveLength(10)
    await worker.outbox.stop()
    const later = failingDestination({ fail: 'hang' })
    await using fresh = createTestOutbox({
      database: worker.database,
      clock: worker.runtime as never,
      destinations: { broker: { to: later, events: ['*'], concurrency: 1 } },
    })
    await fresh.outbox.start()
    await fresh.outbox.transaction((tx) =>
      fresh.outbox.publishMany(
        tx,
        Array.from({ length: 6 }, (_, n) => event(n)),
      ),
    )
    await fresh.advance(100)
    expect(later.received).toHaveLength(4)
    later.release()
  })
})

describe('a batch', () => {
  it('is as large as an operator says, and never larger than the publisher takes', async () => {
    const broker = recordingDestination({ maxBatch: 10 })
    await using t = createTestOutbox({
      destinations: { broker: { to: broker, events: ['*'], batchSize: 2, concurrency: 1, paused: true } },
    })
    await t.outbox.start()
    const sizesOf = async (count: number, batchSize: number | null): Promise<number[]> => {
      await t.outbox.operator.pause('broker')
      await t.outbox.operator.tune('broker', { batchSize }, act)
      await t.outbox.transaction((tx) =>
        t.outbox.publishMany(
          tx,
          Array.from({ length: count }, (_, n) => event(n)),
        ),
      )
      const before = broker.sends.length
      await t.outbox.operator.resume('broker')
      await t.drain()
      return broker.sends.slice(before).map((batch) => batch.length)
    }
    expect(await sizesOf(10, 5)).toEqual([5, 5])
    expect(await sizesOf(20, 1_000)).toEqual([10, 10])
    expect(await sizesOf(6, null)).toEqual([2, 2, 2])
  })
})

describe('reading', () => {
  it('happens as often, and brings as many rows, as an operator says', async () => {
    const runtime = createFakeRuntime()
    const limits: number[] = []
    const plain = memoryStore()
    const store = observeStore(
      {
        ...plain,
        queue: {
          ...plain.queue,
          read: (request: { limit: number }) => {
            limits.push(request.limit)
            return plain.queue.read(request as never)
          },
        },
      } as unknown as Store,
      { changed: () => undefined },
    )
    const outbox = createOutbox({
      store,
      runtime,
      destinations: { broker: { to: recordingDestination(), events: ['*'] } },
      pollIntervalMs: 1_000,
      pollIdleMaxMs: 1_000,
      maintain: false,
    })
    await outbox.start()
    await runtime.advance(2_000)
    const readsIn = async (ms: number): Promise<number> => {
      const before = limits.length
      await runtime.advance(ms)
      return limits.length - before
    }
    const usual = await readsIn(60_000)
    expect(usual).toBeGreaterThanOrEqual(55)
    await outbox.operator.tune('broker', { pollIntervalMs: 20_000, pollBatchSize: 7 }, act)
    await runtime.advance(1_000)
    const seldom = await readsIn(60_000)
    expect(seldom).toBeLessThanOrEqual(4)
    expect(limits.at(-1)).toBe(7)
    // A pause that has begun is not waited out.
    await outbox.operator.tune('broker', { pollIntervalMs: null, pollBatchSize: null }, act)
    expect(await readsIn(10_000)).toBeGreaterThanOrEqual(9)
    expect(limits.at(-1)).toBe(500)
    await outbox.close()
  })
})
