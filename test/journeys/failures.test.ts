/** What a destination can do to a delivery, and what it must not be able to do to others. */
import { describe, expect, it } from 'vitest'
import {
  createCountingMetrics,
  type FailureReport,
  fixed,
  type ListenerContext,
  OutageError,
  type OutgoingDelivery,
  PermanentError,
  RetryAfter,
} from '../../src/index.ts'
import { createTestOutbox, failingDestination, recordingDestination } from '../../src/testing/index.ts'
import { gate } from './world.ts'

const event = (payload: unknown = {}, more: object = {}) => ({
  type: payload === 'bad' ? 'bad' : 'good',
  payload,
  ...more,
})
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

  it('[67] is known by the codes of the network, without anybody classifying them', async () => {
    const refused = Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' })
    const broker = failingDestination({ fail: () => refused, times: 4 })
    await using t = createTestOutbox({ destinations: { broker: { to: broker, events: ['*'], retry } } })
    await t.outbox.start()
    await t.outbox.transaction((tx) => t.outbox.publish(tx, event()))
    await t.advance(120_000)
    expect(broker.accepted.map(({ attempt }) => attempt)).toEqual([1])
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
    await t.advance(59_000)
    expect(signals[0]?.aborted).toBe(false)
    await t.advance(10_000)
    expect(signals[0]?.aborted).toBe(true)
    expect(calls.map(({ attempt }) => attempt)).toEqual([1, 2])
    const detail = await t.outbox.inspect.event(id)
    expect(detail?.deliveries[0]).toMatchObject({ status: 'done' })
    expect(detail?.attempts[0]).toMatchObject({ code: 'POSTHASTE_DEADLINE' })
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

describe('[74] whatever a listener does is contained', () => {
  const hostile: Record<string, () => unknown> = {
    'throws a string': () => {
      throw 'text'
    },
    'throws undefined': () => {
      throw undefined
    },
    'throws null': () => {
      throw null
    },
    'rejects with a proxy that throws': () =>
      Promise.reject(
        new Proxy(
          {},
          {
            get: () => {
              throw new Error('trap')
            },
          },
        ),
      ),
    'returns a thenable that rejects': () => ({
      // biome-ignore lint/suspicious/noThenProperty: that is the abuse
      then: (_: unknown, reject: (error: Error) => void) => reject(new Error('thenable')),
    }),
    'returns a thenable that throws': () => ({
      // biome-ignore lint/suspicious/noThenProperty: that is the abuse
      then: () => {
        throw new Error('then')
      },
    }),
    'has a getter for then that throws': () => ({
      // biome-ignore lint/suspicious/noThenProperty: that is the abuse
      get then() {
        throw new Error('getter')
      },
    }),
    'throws an error whose message throws': () => {
      const error = new Error()
      Object.defineProperty(error, 'message', {
        get: () => {
          throw new Error('message')
        },
      })
      throw error
    },
    'throws an enormous message': () => {
      throw new Error('x'.repeat(10_000_000))
    },
  }

  it.each(Object.entries(hostile))('%s', async (_, behave) => {
    await using t = createTestOutbox({ retry: fixed({ delayMs: 1, maxAttempts: 2 }) })
    const heard: unknown[] = []
    t.outbox.on('bad', behave)
    t.outbox.on('good', () => void heard.push('good'))
    await t.outbox.start()
    await t.outbox.transaction((tx) => t.outbox.publishMany(tx, [event('bad'), event()]))
    await t.drain({ untilIdle: true })
    expect(heard).toEqual(['good'])
    const [bad] = (await t.deliveries()).filter(({ type }) => type === 'bad')
    expect(bad).toMatchObject({ status: 'dead', attempts: 2 })
    expect((bad?.lastError ?? '').length).toBeLessThanOrEqual(4_000)
  })

  it('resolves twice and then throws', async () => {
    await using t = createTestOutbox()
    t.outbox.on('good', () => ({
      // biome-ignore lint/suspicious/noThenProperty: that is the abuse
      then: (resolve: () => void) => {
        resolve()
        resolve()
        throw new Error('late')
      },
    }))
    await t.outbox.transaction((tx) => t.outbox.publish(tx, event()))
    expect(await t.drain()).toMatchObject({ done: 1 })
  })

  it.each([
    ['nothing', undefined],
    ['too few results', []],
    ['too many', [{ ok: true }, { ok: true }]],
    ['no results', [null]],
    ['a text', 'ok'],
  ])('a publisher that returns %s has failed', async (_, answer) => {
    await using t = createTestOutbox({
      destinations: { broker: { to: { send: async () => answer as never }, events: ['*'], retry } },
    })
    await t.outbox.transaction((tx) => t.outbox.publish(tx, event()))
    expect(await t.drain({ untilIdle: true })).toEqual({ done: 0, retried: 2, dead: 1, left: 0 })
  })

  it('a publisher, topic, classifier or onFailure that throws has failed for its own event alone', async () => {
    const reports: FailureReport[] = []
    const good = recordingDestination()
    await using t = createTestOutbox({
      retry,
      onFailure: (report) => {
        reports.push(report)
        throw new Error('onFailure')
      },
      destinations: {
        throwing: {
          to: {
            send: () => {
              throw new Error('sync')
            },
          },
          events: ['*'],
        },
        topic: {
          to: recordingDestination(),
          events: ['*'],
          topic: () => {
            throw new Error('topic')
          },
        },
        classifier: {
          to: failingDestination(),
          events: ['*'],
          classify: () => {
            throw new Error('classifier')
          },
        },
        good: { to: good, events: ['*'] },
      },
    })
    await t.outbox.transaction((tx) => t.outbox.publish(tx, event()))
    expect(await t.drain({ untilIdle: true })).toEqual({ done: 1, retried: 6, dead: 3, left: 0 })
    expect(reports).toHaveLength(9)
    expect(reports.at(-1)).toMatchObject({ verdict: 'dead', attempt: 3 })
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
