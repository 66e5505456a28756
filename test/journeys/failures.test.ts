/** What a destination can do to a delivery, and what it must not be able to do to others. */
import { describe, expect, it } from 'vitest'
import {
  fixed,
  type ListenerContext,
  OutageError,
  type OutgoingDelivery,
  PermanentError,
  type Publisher,
  RetryAfter,
} from '../../src/index.ts'
import { createTestOutbox, failingDestination } from '../../src/testing/index.ts'
import { gate } from './world.ts'

const event = (payload: unknown = {}, more: object = {}) => ({
  type: payload === 'bad' ? 'bad' : 'good',
  payload,
  ...more,
})
const retry = fixed({ delayMs: 1_000, maxAttempts: 3 })
const payloadsOf = (deliveries: readonly OutgoingDelivery[]) =>
  deliveries.map((sent) => JSON.parse(sent.event.data as string) as unknown)

describe('poison', () => {
  it('[69] of a thousand events does not keep the good ones waiting', async () => {
    const broker = failingDestination({ events: 'bad' })
    await using t = createTestOutbox({
      destinations: {
        broker: { to: broker, events: ['*'], retry: fixed({ delayMs: 500, maxAttempts: 1_000 }) },
      },
      pollBatchSize: 100,
      coldQueueCapacity: 100,
    })
    await t.outbox.transaction((tx) =>
      t.outbox.publishMany(
        tx,
        Array.from({ length: 1_000 }, () => event('bad')),
      ),
    )
    await t.outbox.transaction((tx) =>
      t.outbox.publishMany(
        tx,
        Array.from({ length: 50 }, (_, n) => event(n)),
      ),
    )
    await t.outbox.start()
    for (let waited = 0; broker.accepted.length < 50 && waited < 100; waited += 1) await t.advance(100)
    expect(payloadsOf(broker.accepted).sort((a, b) => Number(a) - Number(b))).toEqual(
      Array.from({ length: 50 }, (_, n) => n),
    )
  })

  it('a permanent refusal is dead at once and says why', async () => {
    const broker = failingDestination({ fail: 'permanent' })
    await using t = createTestOutbox({ destinations: { broker: { to: broker, events: ['*'] } } })
    const id = await t.outbox.transaction((tx) => t.outbox.publish(tx, event()))
    expect(await t.drain()).toMatchObject({ dead: 1 })
    const detail = await t.outbox.inspect.event(id)
    expect(detail?.deliveries[0]).toMatchObject({ status: 'dead', attempts: 1 })
    expect(detail?.attempts[0]).toMatchObject({ attempt: 1, code: 'POSTHASTE_PERMANENT' })
  })
})

describe('a receiver that asks for time', () => {
  it.each([
    ['counted by default', true, [1, 2, 3]],
    ['not counted', false, [1, 1, 1]],
  ])('is heard: RetryAfter, %s', async (_, counted, attempts) => {
    const broker = failingDestination({ fail: () => new RetryAfter(3_600_000, { counted }), times: 2 })
    await using t = createTestOutbox({ destinations: { broker: { to: broker, events: ['*'], retry } } })
    await t.outbox.start()
    await t.outbox.transaction((tx) => t.outbox.publish(tx, event()))
    await t.drain()
    await t.advance(3_599_000)
    expect(broker.received).toHaveLength(1)
    await t.advance(2_000)
    expect(broker.received).toHaveLength(2)
    await t.advance(3_601_000)
    expect(broker.received.map(({ attempt }) => attempt)).toEqual(attempts)
    expect(broker.accepted).toHaveLength(1)
  })

  it('and counts, dies at the limit like any other failure', async () => {
    const broker = failingDestination({ fail: () => new RetryAfter(1_000) })
    await using t = createTestOutbox({ destinations: { broker: { to: broker, events: ['*'], retry } } })
    await t.outbox.transaction((tx) => t.outbox.publish(tx, event()))
    expect(await t.drain({ untilIdle: true })).toEqual({ done: 0, retried: 2, dead: 1, left: 0 })
  })
})

describe('a handler that does not end', () => {
  it('[16] is given up at its hard deadline, its signal aborted, and the delivery tried again', async () => {
    const signals: AbortSignal[] = []
    const calls: ListenerContext[] = []
    await using t = createTestOutbox({ hardDeadlineMs: 60_000, retry })
    t.outbox.on('good', (_, context) => {
      calls.push(context)
      signals.push(context.signal)
      return calls.length === 1 ? new Promise(() => undefined) : undefined
    })
    await t.outbox.start()
    const id = await t.outbox.transaction((tx) => t.outbox.publish(tx, event()))
    await t.advance(58_000)
    expect(signals[0]?.aborted).toBe(false)
    await t.advance(1_500)
    expect([signals[0]?.aborted, calls.length]).toEqual([true, 1])
    await t.advance(10_000)
    expect(calls.map(({ attempt }) => attempt)).toEqual([1, 2])
    const detail = await t.outbox.inspect.event(id)
    expect(detail?.deliveries[0]).toMatchObject({ status: 'done' })
    expect(detail?.attempts[0]).toMatchObject({ code: 'POSTHASTE_DEADLINE' })
  })

  it('[16] says in its last second what arrived, and that the place does not answer', async () => {
    const sent: number[] = []
    const to: Publisher = {
      maxBatch: 2,
      send: (deliveries, { signal }) =>
        new Promise((resolve) => {
          const silent = { ok: false, error: new OutageError('no answer') } as const
          const results = deliveries.map((_, i) => (i === 0 ? ({ ok: true } as const) : silent))
          if (sent.push(deliveries.length) > 1) resolve(results)
          else signal.addEventListener('abort', () => resolve(results))
        }),
    }
    const destinations = { broker: { to, events: ['*'], batchSize: 2, retry } }
    await using t = createTestOutbox({ hardDeadlineMs: 60_000, destinations })
    const ids = await t.outbox.transaction((tx) => t.outbox.publishMany(tx, [event(), event()]))
    await t.outbox.start()
    await t.advance(70_000)
    expect(sent).toEqual([2, 1])
    for (const id of ids)
      expect(await t.outbox.inspect.event(id)).toMatchObject({
        deliveries: [{ status: 'done', attempts: 1 }],
        attempts: [],
      })
  })

  it('[16] hears its timeout through the signal first', async () => {
    const heard = gate<unknown>()
    await using t = createTestOutbox({
      destinations: { slow: { events: ['*'], timeoutMs: 5_000, retry } },
    })
    t.outbox.on('slow', '*', (_, { signal }) => {
      return new Promise((_resolve, reject) => {
        signal.addEventListener('abort', () => {
          heard.open(signal.reason)
          reject(signal.reason as Error)
        })
      })
    })
    await t.outbox.start()
    await t.outbox.transaction((tx) => t.outbox.publish(tx, event()))
    await t.advance(5_000)
    expect(await heard.promise).toMatchObject({ code: 'POSTHASTE_DEADLINE' })
    expect((await t.deliveries())[0]).toMatchObject({ status: 'retry', attempts: 1 })
  })

  it('[16] and was given up is not followed by the next listener', async () => {
    const first = gate()
    const heard: number[] = []
    await using t = createTestOutbox({ hardDeadlineMs: 60_000, retry })
    t.outbox.on('good', (_, { attempt }) => (attempt === 1 ? first.promise : undefined))
    t.outbox.on('good', (_, { attempt }) => void heard.push(attempt))
    await t.outbox.start()
    await t.outbox.transaction((tx) => t.outbox.publish(tx, event()))
    await t.advance(70_000)
    expect(heard).toEqual([2])
    first.open()
    await t.advance(10_000)
    expect(heard).toEqual([2])
    expect((await t.deliveries())[0]).toMatchObject({ status: 'done' })
  })

  it('[16] until it is told to is followed by the next listener, which may end in time', async () => {
    const heard: boolean[] = []
    await using t = createTestOutbox({ destinations: { slow: { events: ['*'], timeoutMs: 5_000, retry } } })
    t.outbox.on('slow', '*', (_, { signal }) => {
      return new Promise((resolve) => signal.addEventListener('abort', resolve))
    })
    t.outbox.on('slow', '*', (_, { signal }) => void heard.push(signal.aborted))
    await t.outbox.start()
    await t.outbox.transaction((tx) => t.outbox.publish(tx, event()))
    await t.advance(5_000)
    expect(heard).toEqual([true])
    expect((await t.deliveries())[0]).toMatchObject({ status: 'done' })
  })

  it('[17] but works is not taken for dead: its leases are renewed and nobody else gets it', async () => {
    const [first, second] = [gate(), gate()]
    const calls: string[] = []
    const options = { destinations: { slow: { events: ['*'] } }, laneLeaseMs: 1_000, hotLeaseMs: 1_000 }
    await using one = createTestOutbox(options)
    await using two = createTestOutbox({ ...options, database: one.database, clock: one.runtime as never })
    one.outbox.on('slow', '*', async ({ key }) => {
      calls.push(`one ${key}`)
      await (key === null ? first : second).promise
    })
    two.outbox.on('slow', '*', ({ key }) => void calls.push(`two ${key}`))
    await one.outbox.start()
    await one.outbox.transaction((tx) => one.outbox.publish(tx, event()))
    await one.outbox.transaction((tx) => one.outbox.publish(tx, event({}, { key: 'k' })))
    await one.advance(100)
    await two.outbox.start()
    await one.advance(60_000)
    expect(calls.sort()).toEqual(['one k', 'one null'])
    first.open()
    second.open()
    await one.advance(5_000)
    expect(calls).toHaveLength(2)
    expect((await one.deliveries()).map(({ status }) => status)).toEqual(['done', 'done'])
  })
})

describe('what a failure is', () => {
  it('is decided by the classifier of the destination, then of the outbox', async () => {
    await using t = createTestOutbox({
      retry,
      classify: () => 'dead',
      destinations: {
        own: { to: failingDestination({ times: 1 }), events: ['*'], classify: () => 'retry' },
        common: { to: failingDestination(), events: ['*'] },
      },
    })
    await t.outbox.transaction((tx) => t.outbox.publish(tx, event()))
    expect(await t.drain({ untilIdle: true })).toEqual({ done: 1, retried: 1, dead: 1, left: 0 })
  })

  it('is said by the error itself first', async () => {
    await using t = createTestOutbox({ retry, classify: () => 'retry' })
    t.outbox.on('good', () => {
      throw new PermanentError('never')
    })
    await t.outbox.transaction((tx) => t.outbox.publish(tx, event()))
    expect(await t.drain()).toMatchObject({ dead: 1 })
  })

  it('of a listener that cannot reach something is an outage too, if it says so', async () => {
    let down = true
    await using t = createTestOutbox({ retry })
    t.outbox.on('good', (_, { attempt }) => {
      if (down) throw new OutageError('the database of the listener is down')
      expect(attempt).toBe(1)
    })
    await t.outbox.start()
    await t.outbox.transaction((tx) => t.outbox.publish(tx, event()))
    await t.advance(600_000)
    expect((await t.deliveries())[0]).toMatchObject({ status: 'pending', attempts: 0 })
    down = false
    await t.advance(60_000)
    expect((await t.deliveries())[0]).toMatchObject({ status: 'done' })
  })
})
