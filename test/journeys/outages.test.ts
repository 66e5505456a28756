/** A place that cannot be reached: events wait unspent, others are not disturbed, and the way back is gentle. */
import { describe, expect, it } from 'vitest'
import {
  createCountingMetrics,
  fixed,
  OutageError,
  type OutgoingDelivery,
  type Publisher,
} from '../../src/index.ts'
import { createTestOutbox, failingDestination } from '../../src/testing/index.ts'

const event = (payload: unknown = {}) => ({ type: payload === 'bad' ? 'bad' : 'good', payload })
const retry = fixed({ delayMs: 1_000, maxAttempts: 3 })
const payloadsOf = (deliveries: readonly OutgoingDelivery[]) =>
  deliveries.map((sent) => JSON.parse(sent.event.data as string) as unknown)

describe('an outage', () => {
  it('[67] of half an hour spends no attempt, buries nothing, and is over when it is over', async () => {
    const broker = failingDestination({ fail: 'outage' })
    const metrics = createCountingMetrics()
    await using t = createTestOutbox({
      metrics,
      destinations: { broker: { to: broker, events: ['*'], retry } },
    })
    await t.outbox.start()
    for (let n = 0; n < 20; n += 1) await t.outbox.transaction((tx) => t.outbox.publish(tx, event(n)))
    await t.advance(30 * 60_000)
    expect(metrics.breaker('broker')).not.toBe('closed')
    expect(new Set((await t.deliveries()).map(({ status, attempts }) => `${status} ${attempts}`))).toEqual(
      new Set(['pending 0']),
    )
    // Only probes, at growing distances: not a storm against a place that is down.
    expect(broker.received.length).toBeLessThan(200)
    broker.script({ fail: 'never' })
    await t.advance(60_000)
    expect(new Set(payloadsOf(broker.accepted)).size).toBe(20)
    expect(broker.accepted).toHaveLength(20)
    expect(broker.accepted.every(({ attempt }) => attempt === 1)).toBe(true)
    expect(metrics.breaker('broker')).toBe('closed')
  })

  it('that single events bring about again and again does not keep the others waiting', async () => {
    const accepted: unknown[] = []
    const to: Publisher = {
      async send([delivery]) {
        const [payload] = payloadsOf([delivery as OutgoingDelivery])
        if (payload === 'bad') return [{ ok: false, error: new OutageError('the place hung up') }]
        accepted.push(payload)
        return [{ ok: true }]
      },
    }
    await using t = createTestOutbox({ destinations: { broker: { to, events: ['*'], retry } } })
    await t.outbox.start()
    const publish = (payload: unknown) => t.outbox.transaction((tx) => t.outbox.publish(tx, event(payload)))
    for (let n = 0; n < 60; n += 1) {
      await publish(n)
      if (n < 6) await publish('bad')
      await t.advance(100)
    }
    await t.advance(5_000)
    expect(accepted).toHaveLength(60)
  })

  it('is known to other processes within a renewal, with its beginning, and so is its end', async () => {
    const broker = failingDestination({ fail: 'outage' })
    await using t = createTestOutbox({
      processName: 'host:1',
      destinations: { broker: { to: broker, events: ['*'] }, other: { events: ['*'] } },
    })
    t.outbox.on('other', '*', () => undefined)
    await using onlooker = createTestOutbox({ database: t.database, clock: t.runtime as never })
    const told = async () =>
      Object.fromEntries(
        (await onlooker.outbox.inspect.destinations()).map(({ name, openBreakers }) => [name, openBreakers]),
      )
    await t.outbox.start()
    await t.advance(60_000)
    expect(await told()).toEqual({ broker: [], other: [] })
    const openedAtMs = t.runtime.wallNow()
    for (let n = 0; n < 3; n += 1) await t.outbox.transaction((tx) => t.outbox.publish(tx, event(n)))
    await t.advance(5_000)
    const breaker = { worker: 'host:1', sinceMs: openedAtMs }
    expect(await told()).toEqual({ broker: [breaker], other: [] })
    await t.advance(10 * 60_000)
    expect(await told()).toEqual({ broker: [breaker], other: [] })
    broker.script({ fail: 'never' })
    await t.advance(60_000)
    expect(await told()).toEqual({ broker: [], other: [] })
  })

  it('[67] is known by the codes of the network, without anybody classifying them', async () => {
    const refused = Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' })
    const broker = failingDestination({ fail: () => refused, times: 4 })
    await using t = createTestOutbox({ destinations: { broker: { to: broker, events: ['*'], retry } } })
    await t.outbox.start()
    await t.outbox.transaction((tx) => t.outbox.publish(tx, event()))
    await t.advance(120_000)
    expect(broker.accepted.map(({ attempt }) => attempt)).toEqual([1])
  })

  it('is in the log with its cause when it begins, now and then while it lasts, and when it ends', async () => {
    const refused = Object.assign(new Error('connect ECONNREFUSED amqp://shop:hunter2@broker'), {
      code: 'ECONNREFUSED',
    })
    const broker = failingDestination({ fail: () => refused })
    const lines: string[] = []
    await using t = createTestOutbox({
      destinations: { broker: { to: broker, events: ['*'] } },
      logger: {
        log: (level, message, facts) => {
          if (/reached/.test(message))
            lines.push([level, facts?.destination, message, facts?.error].join(' | '))
        },
      },
    })
    await t.outbox.start()
    for (let n = 0; n < 20; n += 1) await t.outbox.transaction((tx) => t.outbox.publish(tx, event(n)))
    await t.advance(1_000)
    const began =
      'warn | broker | the destination cannot be reached; its deliveries wait, and spend no attempt | connect ECONNREFUSED amqp://shop:***@broker'
    expect(lines).toEqual([began])
    await t.advance(10 * 60_000)
    expect(lines.length).toBeGreaterThan(5)
    expect(lines.length).toBeLessThanOrEqual(11)
    expect(new Set(lines)).toEqual(new Set([began]))
    broker.script({ fail: 'never' })
    await t.advance(60_000)
    const ended = 'info | broker | the destination can be reached again | '
    expect(lines.at(-1)).toBe(ended)
    expect(lines.filter((line) => line === ended)).toHaveLength(1)
    // The next one is another: nobody waits for a minute to hear of it.
    const told = lines.length
    broker.script({ fail: () => refused })
    for (let n = 0; n < 3; n += 1) await t.outbox.transaction((tx) => t.outbox.publish(tx, event(n)))
    await t.advance(1_000)
    expect(lines.slice(told)).toEqual([began])
  })

  it('that comes and goes many times a second is told once a second, each time with its end', async () => {
    let turn = 0
    const broker = failingDestination({
      fail: () => {
        turn += 1
        return turn % 2 === 1 ? new OutageError('the line is bad') : undefined
      },
    })
    const lines: string[] = []
    await using t = createTestOutbox({
      destinations: {
        broker: {
          to: broker,
          events: ['*'],
          batchSize: 1,
          breaker: { threshold: 1, openMs: 1, maxOpenMs: 1 },
        },
      },
      logger: { log: (_level, message) => void (/reached/.test(message) && lines.push(message)) },
    })
    await t.outbox.start()
    for (let n = 0; n < 400; n += 1) {
      await t.outbox.transaction((tx) => t.outbox.publish(tx, event(n)))
      await t.advance(10)
    }
    expect(turn).toBeGreaterThan(100)
    const isEnd = lines.map((line) => line.includes('again'))
    expect(isEnd).toEqual(isEnd.map((_, i) => i % 2 === 1))
    expect(lines.length).toBeGreaterThan(4)
    expect(lines.length).toBeLessThan(12)
  })

  it('is told once, and its end once, by rounds that each begin anew', async () => {
    const broker = failingDestination({ fail: 'outage' })
    const lines: string[] = []
    await using t = createTestOutbox({
      destinations: { broker: { to: broker, events: ['*'] } },
      logger: { log: (_level, message) => void (/reached/.test(message) && lines.push(message)) },
    })
    await t.outbox.transaction((tx) => t.outbox.publish(tx, event()))
    for (let n = 0; n < 5; n += 1) await t.outbox.processOnce()
    expect(broker.received.length).toBeGreaterThan(5)
    expect(lines).toEqual(['the destination cannot be reached; its deliveries wait, and spend no attempt'])
    broker.script({ fail: 'never' })
    await t.outbox.processOnce()
    await t.outbox.processOnce()
    expect(lines.slice(1)).toEqual(['the destination can be reached again'])
  })

  it('keeps new events cold while the breaker is open, and hot again afterwards', async () => {
    const metrics = createCountingMetrics()
    const broker = failingDestination({ fail: 'outage' })
    await using t = createTestOutbox({ metrics, destinations: { broker: { to: broker, events: ['*'] } } })
    await t.outbox.start()
    for (let n = 0; n < 5; n += 1) await t.outbox.transaction((tx) => t.outbox.publish(tx, event(n)))
    await t.advance(100)
    expect(metrics.breaker('broker')).toBe('open')
    const enqueued = metrics.count('hotEnqueued')
    await t.outbox.transaction((tx) => t.outbox.publish(tx, event('cold')))
    expect(metrics.count('hotEnqueued')).toBe(enqueued)
    broker.script({ fail: 'never' })
    await t.advance(120_000)
    expect(broker.accepted).toHaveLength(6)
    await t.outbox.transaction((tx) => t.outbox.publish(tx, event('hot')))
    await t.advance(0)
    expect(metrics.count('hotEnqueued')).toBe(enqueued + 1)
    expect(broker.accepted).toHaveLength(7)
  })

  it('half-open sends one at a time', async () => {
    const broker = failingDestination({ fail: 'outage' })
    await using t = createTestOutbox({
      destinations: { broker: { to: broker, events: ['*'], concurrency: 4, breaker: { openMs: 10_000 } } },
    })
    await t.outbox.start()
    for (let n = 0; n < 10; n += 1) await t.outbox.transaction((tx) => t.outbox.publish(tx, event(n)))
    await t.advance(1_000)
    const before = broker.received.length
    broker.script({ fail: 'hang' })
    await t.advance(30_000)
    expect(broker.received.length).toBe(before + 1)
    broker.release()
    await t.advance(30_000)
    expect(broker.accepted).toHaveLength(10)
  })

  it('that one event causes again and again while others pass is charged to that event', async () => {
    const broker = failingDestination({ fail: 'outage', events: 'bad' })
    await using t = createTestOutbox({
      destinations: { broker: { to: broker, events: ['*'], retry, breaker: { openMs: 100 } } },
    })
    await t.outbox.start()
    await t.outbox.transaction((tx) => t.outbox.publish(tx, event('bad')))
    for (let n = 0; n < 60; n += 1) {
      await t.outbox.transaction((tx) => t.outbox.publish(tx, event(n)))
      await t.advance(10_000)
    }
    const bad = (await t.deliveries()).find(({ type }) => type === 'bad')
    expect(bad).toMatchObject({ status: 'dead', attempts: 3 })
    expect(broker.accepted).toHaveLength(60)
  })

  it('[68] is followed by a ramp, not by a herd: a limited destination starts slowly', async () => {
    const broker = failingDestination({ fail: 'outage' })
    await using t = createTestOutbox({
      destinations: { broker: { to: broker, events: ['*'], ratePerSecond: 100, breaker: { openMs: 1_000 } } },
    })
    await t.outbox.start()
    await t.outbox.transaction((tx) =>
      t.outbox.publishMany(
        tx,
        Array.from({ length: 2_000 }, (_, n) => event(n)),
      ),
    )
    await t.advance(5_000)
    broker.script({ fail: 'never' })
    for (let waited = 0; broker.accepted.length === 0 && waited < 60; waited += 1) await t.advance(500)
    const before = broker.accepted.length
    await t.advance(2_000)
    const inTwoSeconds = broker.accepted.length - before
    await t.advance(10_000)
    const full = broker.accepted.length
    await t.advance(2_000)
    expect(inTwoSeconds).toBeLessThan(150)
    expect(broker.accepted.length - full).toBeGreaterThan(180)
  })

  it('[68] retries of many events are spread by jitter', async () => {
    const broker = failingDestination({ times: 1 })
    await using t = createTestOutbox({
      destinations: { broker: { to: broker, events: ['*'], concurrency: 100 } },
    })
    await t.outbox.start()
    await t.outbox.transaction((tx) =>
      t.outbox.publishMany(
        tx,
        Array.from({ length: 100 }, (_, n) => event(n)),
      ),
    )
    await t.drain()
    const due = (await t.deliveries()).map(({ availableAtMs }) => availableAtMs as number)
    expect(new Set(due).size).toBeGreaterThan(50)
    expect(Math.max(...due) - Math.min(...due)).toBeGreaterThan(100)
  })
})
