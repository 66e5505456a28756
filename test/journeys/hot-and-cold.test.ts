/** The two ways an event travels, and what each of them may ask of the database. */
import { describe, expect, it } from 'vitest'
import { createCountingMetrics, type Logger } from '../../src/index.ts'
import { createTestOutbox, failingDestination, recordingDestination } from '../../src/testing/index.ts'
import { deliveryOf, gate, KINDS, publishOne, World } from './world.ts'

const event = (payload: unknown = {}, more: object = {}) => ({ type: 'order.placed', payload, ...more })

describe.each(KINDS)('the hot path on %s', (kind) => {
  it('does no work in the database between commit and handler', async () => {
    await using world = new World(kind)
    const seen: number[] = []
    const outbox = world.outbox({ pollIntervalMs: 60_000, pollIdleMaxMs: 60_000 })
    const heard = gate()
    outbox.on('order.placed', () => {
      seen.push(world.calls.length, world.statements.length)
      heard.open()
    })
    await outbox.start()
    await outbox.flush()
    const transaction = await outbox.begin()
    await transaction.publish(event())
    const before = [world.calls.length, world.statements.length]
    await transaction.commit()
    await heard.promise
    const commitStatements = kind === 'sqlite' ? 1 : 0
    expect(seen[0]).toBe(before[0])
    expect((seen[1] as number) - (before[1] as number)).toBeLessThanOrEqual(commitStatements)
    expect(world.statements.slice(before[1], seen[1]).join()).toMatch(/^(COMMIT)?$/i)
  })

  it('hands over exactly the bytes that were stored, from memory and from the database', async () => {
    await using world = new World(kind)
    const json = '{"b":1.0,"a":[1e2, 2],"text":"ä\\u00e4\\n"}'
    const bytes = new Uint8Array([0, 255, 128, 10])
    const drafts = [
      { type: 'json', json },
      { type: 'binary', payload: bytes, contentType: 'application/octet-stream' },
    ]
    const [hot, cold] = [recordingDestination(), recordingDestination()]
    const outbox = world.outbox({
      destinations: { hot: { to: hot, events: ['*'] }, cold: { to: cold, events: ['*'] } },
      serve: ['hot'],
    })
    await outbox.start()
    await outbox.transaction((tx) => outbox.publishMany(tx, drafts))
    await outbox.flush()
    await outbox.close()
    const reader = world.outbox({ destinations: { cold: { to: cold, events: ['*'] } } })
    await reader.processOnce()
    for (const place of [hot, cold]) {
      const [text, binary] = place.accepted.map((sent) => sent.event.data)
      expect(text).toBe(json)
      expect([...(binary as Uint8Array)]).toEqual([...bytes])
      expect(place.accepted.map((sent) => sent.event.size)).toEqual([Buffer.byteLength(json), 4])
    }
  })

  it('claims keyed events by id in few calls, and delivers them hot and in order', async () => {
    await using world = new World(kind)
    const heard: unknown[] = []
    const outbox = world.outbox({ pollIntervalMs: 60_000, pollIdleMaxMs: 60_000 })
    outbox.on('order.placed', ({ payload }, { source }) => void heard.push([payload, source]))
    await outbox.start()
    await outbox.flush()
    const before = world.calls.length
    await outbox.transaction((tx) =>
      outbox.publishMany(
        tx,
        [1, 2, 3].map((n) => event(n, { key: 'k' })),
      ),
    )
    await world.until(() => heard.length === 3)
    expect(heard).toEqual([
      [1, 'hot'],
      [2, 'hot'],
      [3, 'hot'],
    ])
    expect(world.calls.slice(before).filter((call) => call === 'queue.claim').length).toBeLessThan(3)
  })

  it('leaves what others publish to the poller, which finds it by itself', async () => {
    await using world = new World(kind)
    const writer = world.outbox({
      destinations: { broker: { to: recordingDestination(), events: ['*'] } },
      serve: [],
    })
    await writer.start()
    const broker = recordingDestination()
    const worker = world.outbox({
      destinations: { broker: { to: broker, events: ['*'] } },
      pollIntervalMs: 10,
    })
    await worker.start()
    const id = await publishOne(writer, event())
    await world.until(() => broker.accepted.length === 1)
    expect(broker.accepted[0]?.event.id).toBe(id)
  })

  it('keeps destinations apart: one that hangs delays nobody else', async () => {
    await using world = new World(kind)
    const [stuck, fine] = [failingDestination({ fail: 'hang' }), recordingDestination()]
    const outbox = world.outbox({
      destinations: { stuck: { to: stuck, events: ['*'] }, fine: { to: fine, events: ['*'] } },
      drainMs: 50,
    })
    await outbox.start()
    const ids = []
    for (let n = 0; n < 50; n += 1) ids.push(await publishOne(outbox, event(n)))
    await world.until(() => fine.accepted.length === 50)
    const last = ids.at(-1) as string
    await world.until(async () => (await deliveryOf(outbox, last, 'fine')).status === 'done')
    expect((await deliveryOf(outbox, last, 'stuck')).status).toBe('pending')
    expect(stuck.accepted).toEqual([])
  })
})

describe('delayed events', () => {
  it('are delivered when they are due, not before', async () => {
    const broker = recordingDestination()
    await using t = createTestOutbox({ destinations: { broker: { to: broker, events: ['*'] } } })
    await t.outbox.start()
    const dueAt = new Date(t.runtime.wallNow() + 7_200_000)
    await t.outbox.transaction((tx) =>
      t.outbox.publishMany(tx, [
        event('due', { dueAt }),
        event('delayed', { delayMs: 3_600_000 }),
        event('now'),
      ]),
    )
    const payloads = () => broker.accepted.map((sent) => JSON.parse(sent.event.data as string))
    await t.advance(3_599_000)
    expect(payloads()).toEqual(['now'])
    await t.advance(2_000)
    expect(payloads()).toEqual(['now', 'delayed'])
    await t.advance(3_598_000)
    expect(payloads()).toEqual(['now', 'delayed'])
    await t.advance(2_000)
    expect(payloads()).toEqual(['now', 'delayed', 'due'])
  })

  it('do not hold their key while they wait', async () => {
    const broker = recordingDestination()
    await using t = createTestOutbox({ destinations: { broker: { to: broker, events: ['*'] } } })
    await t.outbox.start()
    await t.outbox.transaction((tx) =>
      t.outbox.publishMany(tx, [event('later', { key: 'k', delayMs: 60_000 }), event('now', { key: 'k' })]),
    )
    await t.drain()
    expect(broker.accepted).toHaveLength(1)
    await t.advance(61_000)
    expect(broker.accepted.map((sent) => sent.event.data)).toEqual(['"now"', '"later"'])
  })
})

describe('a full hot queue', () => {
  it('[73] spills to the poller: warned, counted, and nothing waits or is lost', async () => {
    const metrics = createCountingMetrics()
    const warnings: Record<string, unknown>[] = []
    const logger: Logger = {
      log: (level, message, fields) => {
        if (level === 'warn' && message.includes('left to the poller')) warnings.push({ ...fields })
      },
    }
    const broker = failingDestination({ fail: 'hang' })
    await using t = createTestOutbox({
      metrics,
      logger,
      hotQueueCapacity: 5,
      destinations: { broker: { to: broker, events: ['*'], concurrency: 2 } },
    })
    await t.outbox.start()
    for (let n = 0; n < 50; n += 1) await t.outbox.transaction((tx) => t.outbox.publish(tx, event(n)))
    expect(metrics.gauge('hotQueueDepth', 'broker') ?? 0).toBeLessThanOrEqual(5)
    expect(metrics.count('hotEnqueued')).toBeLessThanOrEqual(7)
    broker.release()
    await t.drain({ untilIdle: true })
    expect(new Set(broker.accepted.map((sent) => sent.event.id)).size).toBe(50)
    expect(broker.accepted).toHaveLength(50)
  })

  it('[73] says how many were left, at most once a second', async () => {
    const warnings: Record<string, unknown>[] = []
    const logger: Logger = {
      log: (level, _message, fields) => void (level === 'warn' && warnings.push({ ...fields })),
    }
    const metrics = createCountingMetrics()
    const broker = failingDestination({ fail: 'hang' })
    await using t = createTestOutbox({
      logger,
      metrics,
      hotQueueCapacity: 2,
      pollerEnabled: false,
      destinations: { broker: { to: broker, events: ['*'], concurrency: 1 } },
    })
    await t.outbox.start()
    // One transaction was planned while there was room for all of them; at commit there is room for two.
    await Promise.all(
      Array.from({ length: 20 }, (_, n) => t.outbox.transaction((tx) => t.outbox.publish(tx, event(n)))),
    )
    await t.advance(0)
    expect(metrics.count('hotDropped')).toBeGreaterThan(0)
    expect(warnings.length).toBeLessThanOrEqual(1)
    broker.release()
  })
})
