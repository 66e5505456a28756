/** What the core measures when it matters: lags of both paths, lost leases, takeovers, settles that fail. */
import { describe, expect, it } from 'vitest'
import {
  createCountingMetrics,
  createOutbox,
  ERROR_CODES,
  type LogLevel,
  NOOP_METRICS,
  PermanentError,
  type Store,
  StoreError,
} from '../../src/index.ts'
import { createFakeRuntime, createMemoryDatabase, memoryStore } from '../../src/testing/index.ts'

const LEASE_MS = 1_000

const processOn = (
  database: ReturnType<typeof createMemoryDatabase>,
  runtime: ReturnType<typeof createFakeRuntime>,
) => {
  const metrics = createCountingMetrics()
  const store = memoryStore({ database }) as unknown as Store
  const outbox = createOutbox({
    store,
    metrics,
    runtime,
    laneLeaseMs: LEASE_MS,
    destinations: { x: { events: ['*'] } },
  })
  outbox.on('x', '*', () => undefined)
  return { metrics, store, outbox }
}

describe('what is measured', () => {
  it('lag counts from the commit on the hot path, and from when it was due on the cold one', async () => {
    const database = createMemoryDatabase()
    const runtime = createFakeRuntime()
    const { metrics, outbox } = processOn(database, runtime)
    await outbox.transaction((tx) => outbox.publish(tx, { type: 'early', payload: 1 }))
    await outbox.transaction((tx) => outbox.publish(tx, { type: 'delayed', payload: 1, delayMs: 40_000 }))
    await runtime.advance(30_000)
    await outbox.start()
    await runtime.advance(20_000)
    const lags = metrics.observations('observeLag', 'x')
    expect(lags.count).toBe(2)
    // The first waited for the start; the second for nobody, once it was due.
    expect(lags.max).toBeGreaterThanOrEqual(30_000)
    expect(lags.max).toBeLessThan(36_000)
    expect(lags.sum - lags.max).toBeLessThan(6_000)
    expect(metrics.observations('observeLatency', 'x').count).toBe(0)
    await outbox.transaction((tx) => outbox.publish(tx, { type: 'hot', payload: 1 }))
    await runtime.advance(10)
    expect(metrics.observations('observeLag', 'x').count).toBe(3)
    expect(metrics.observations('observeLatency', 'x').count).toBe(1)
    expect(metrics.observations('observeAttempts', 'x')).toEqual({ count: 3, sum: 3, max: 1 })
    expect(metrics.count('published')).toBe(3)
    expect(metrics.count('published', 'hot')).toBe(1)
    await Promise.all([outbox.close(), runtime.advance(1_000)])
    expect(metrics.gauge('lanesOwned', 'x')).toBe(0)
  })

  it('a process that is suspended past its lease lost its lanes, and the other took them over', async () => {
    const database = createMemoryDatabase()
    const [sleepy, other] = [createFakeRuntime({ seed: 1 }), createFakeRuntime({ seed: 2 })]
    const [first, second] = [processOn(database, sleepy), processOn(database, other)]
    await first.outbox.start()
    expect(first.metrics.gauge('lanesOwned', 'x')).toBe(64)
    // The database's clock is the first one's, who does not look at it.
    sleepy.stall(5 * LEASE_MS)
    await second.outbox.start()
    await other.advance(LEASE_MS)
    expect(second.metrics.count('lanesTakenOver', 'x')).toBe(64)
    await sleepy.advance(LEASE_MS)
    expect(first.metrics.count('lanesLost', 'x')).toBe(64)
    expect(second.metrics.count('lanesLost', 'x')).toBe(0)
    await Promise.all([
      first.outbox.close(),
      second.outbox.close(),
      sleepy.advance(9_000),
      other.advance(9_000),
    ])
  })

  it('settles are counted with their size, also those that fail', async () => {
    const runtime = createFakeRuntime()
    const { metrics, store, outbox } = processOn(createMemoryDatabase(), runtime)
    const { settle } = store.queue
    let failures = 2
    Object.assign(store.queue, {
      settle: async (request: never) => {
        if (failures-- > 0) throw new StoreError(ERROR_CODES.storeUnavailable, 'away', { transient: true })
        return await settle.call(store.queue, request)
      },
    })
    await outbox.start()
    await outbox.transaction((tx) =>
      outbox.publishMany(
        tx,
        Array.from({ length: 5 }, () => ({ type: 'a', payload: 1 })),
      ),
    )
    await runtime.advance(1_000)
    expect(metrics.settlesFailed).toBe(2)
    expect(metrics.observations('observeSettle').sum).toBe(5)
    expect(metrics.count('published', 'a')).toBe(5)
    await Promise.all([outbox.close(), runtime.advance(1_000)])
  })

  it('pauses and what is in each state are shown', async () => {
    const metrics = createCountingMetrics()
    const outbox = createOutbox({
      store: memoryStore(),
      metrics,
      pendingIntervalMs: 10,
      destinations: { x: { events: ['*'] } },
    })
    outbox.on('x', '*', () => {
      throw new PermanentError('no')
    })
    await outbox.start()
    await outbox.transaction((tx) => outbox.publish(tx, { type: 'a', payload: 1 }))
    await outbox.flush()
    await expect.poll(() => metrics.backlog('x')?.dead).toBe(1)
    expect(metrics.gauge('setPaused', 'x')).toBe(0)
    await outbox.operator.pause('x')
    expect(metrics.gauge('setPaused', 'x')).toBe(1)
    await outbox.close()
  })

  it('statistics of the last minutes can be asked for', async () => {
    const runtime = createFakeRuntime()
    const { outbox } = processOn(createMemoryDatabase(), runtime)
    await outbox.start()
    await outbox.transaction((tx) => outbox.publish(tx, { type: 'a', payload: 1 }))
    await runtime.advance(3 * 60_000)
    const minutes = await outbox.inspect.statistics({ destination: 'x', minutes: 10 })
    expect(minutes.map(({ done }) => done).reduce((a, b) => a + b)).toBe(1)
    expect(minutes.length).toBeGreaterThanOrEqual(2)
    await expect(outbox.inspect.statistics({ minutes: 0 })).rejects.toThrow('minutes must be')
    await expect(outbox.inspect.statistics({ minute: 5 } as never)).rejects.toThrow('minute')
    await Promise.all([outbox.close(), runtime.advance(1_000)])
  })
})

describe('levels', () => {
  it('what was found, stored and sent is said at debug, and not even put together otherwise', async () => {
    const at = async (lowest: LogLevel): Promise<string[]> => {
      const said: string[] = []
      const logger = {
        log: (level: LogLevel, message: string) => void said.push(`${level} ${message}`),
        isEnabled: (level: LogLevel) => lowest === 'debug' || level !== 'debug',
      }
      const database = createMemoryDatabase()
      const writer = createOutbox({ store: memoryStore({ database }), logger, serve: [] })
      await writer.transaction((tx) => writer.publish(tx, { type: 'a', payload: 1 }))
      const outbox = createOutbox({ store: memoryStore({ database }), logger })
      outbox.on('*', () => undefined)
      await outbox.start()
      await outbox.flush()
      await outbox.close()
      return [...new Set(said)]
    }
    const debug = [
      'debug events were taken; they are sent once their transaction commits',
      'debug deliveries were found',
      'debug a batch was sent',
    ]
    expect(await at('debug')).toEqual(expect.arrayContaining(debug))
    expect((await at('info')).filter((line) => line.startsWith('debug'))).toEqual([])
  })
})

describe('metrics that measure nothing', () => {
  it('are used as they are, without anything around them', async () => {
    expect(createOutbox({ store: memoryStore(), metrics: NOOP_METRICS })).toBeDefined()
    const { guardedMetrics } = await import('../../src/core/runtime/metrics.ts')
    expect(guardedMetrics(NOOP_METRICS)).toBe(NOOP_METRICS)
  })

  it('may lack methods that are newer than they are', async () => {
    const calls: string[] = []
    const old = Object.fromEntries(
      ['hotEnqueued', 'dispatchSuccess', 'dispatchFailure', 'dispatchDead'].map((name) => [
        name,
        () => void calls.push(name),
      ]),
    )
    const outbox = createOutbox({ store: memoryStore(), metrics: old as never })
    outbox.on('*', () => undefined)
    await outbox.start()
    await outbox.transaction((tx) => outbox.publish(tx, { type: 'a', payload: 1 }))
    await outbox.flush()
    await outbox.close()
    expect(calls).toEqual(['hotEnqueued', 'dispatchSuccess'])
  })
})
