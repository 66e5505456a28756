/** Starting, stopping, closing; and what is refused when. */
import { describe, expect, it } from 'vitest'
import { createOutbox } from '../../src/index.ts'
import {
  createFakeRuntime,
  createTestOutbox,
  failingDestination,
  memoryStore,
  recordingDestination,
} from '../../src/testing/index.ts'
import { deliveryOf, gate, KINDS, publishOne, World } from './world.ts'

const event = (payload: unknown = {}, more: object = {}) => ({ type: 'order.placed', payload, ...more })

describe.each(KINDS)('the life of an outbox on %s', (kind) => {
  it('does no I/O before it is asked to', async () => {
    await using world = new World(kind)
    world.outbox({ destinations: { broker: { to: recordingDestination(), events: ['*'] } } })
    await new Promise((resolve) => setImmediate(resolve))
    expect(world.calls).toEqual([])
    expect(world.statements).toEqual([])
  })

  it('starts once however often it is told to, and again after a stop', async () => {
    await using world = new World(kind)
    const broker = recordingDestination()
    const outbox = world.outbox({ destinations: { broker: { to: broker, events: ['*'] } } })
    expect(outbox.isStarted).toBe(false)
    await Promise.all([outbox.start(), outbox.start()])
    await outbox.start()
    expect(outbox.isStarted).toBe(true)
    expect(await outbox.inspect.workers()).toHaveLength(1)
    expect(await outbox.stop()).toEqual({ clean: true })
    expect(await outbox.stop()).toEqual({ clean: true })
    expect(outbox.isStarted).toBe(false)
    expect(await outbox.inspect.workers()).toHaveLength(0)
    await outbox.start()
    await publishOne(outbox, event())
    await outbox.flush()
    expect(broker.accepted).toHaveLength(1)
  })

  it('can publish after a stop; the next start delivers it', async () => {
    await using world = new World(kind)
    const broker = recordingDestination()
    const outbox = world.outbox({ destinations: { broker: { to: broker, events: ['*'] } } })
    await outbox.start()
    await outbox.stop()
    await publishOne(outbox, event())
    expect(broker.received).toHaveLength(0)
    await outbox.start()
    await outbox.flush()
    expect(broker.accepted).toHaveLength(1)
  })

  it('lets running handlers end when it stops, and begins no new ones', async () => {
    await using world = new World(kind)
    const outbox = world.outbox({ destinations: { slow: { events: ['*'], concurrency: 1 } } })
    const [running, mayEnd] = [gate(), gate()]
    const heard: unknown[] = []
    outbox.on('slow', '*', async ({ payload }) => {
      heard.push(payload)
      running.open()
      await mayEnd.promise
    })
    await outbox.start()
    const first = await publishOne(outbox, event(1))
    await running.promise
    const second = await publishOne(outbox, event(2))
    const stopped = outbox.stop()
    mayEnd.open()
    expect(await stopped).toEqual({ clean: true })
    expect(heard).toEqual([1])
    expect((await deliveryOf(outbox, first)).status).toBe('done')
    expect(await deliveryOf(outbox, second)).toMatchObject({ status: 'pending', attempts: 0 })
  })

  it('stops in bounded time: handlers are told, then left behind, and their work is not lost', async () => {
    await using world = new World(kind)
    const outbox = world.outbox({
      destinations: { stuck: { events: ['*'] } },
      laneLeaseMs: 1_000,
      hotLeaseMs: 1_000,
    })
    const running = gate<AbortSignal>()
    outbox.on('stuck', '*', (_, { signal }) => {
      running.open(signal)
      return new Promise(() => undefined)
    })
    await outbox.start()
    const id = await publishOne(outbox, event())
    const signal = await running.promise
    expect(await outbox.stop({ drainMs: 20 })).toEqual({ clean: false })
    expect(signal.aborted).toBe(true)
    expect((await deliveryOf(outbox, id)).status).toBe('pending')
    const next = world.outbox({ destinations: { stuck: { events: ['*'] } }, pollIntervalMs: 10 })
    next.on('stuck', '*', () => undefined)
    await next.start()
    await world.until(async () => (await deliveryOf(next, id)).status === 'done')
  })

  it('closes with its scope, its publishers and its store', async () => {
    await using world = new World(kind)
    const broker = recordingDestination()
    {
      await using outbox = world.outbox({ destinations: { broker: { to: broker, events: ['*'] } } })
      await outbox.start()
      await publishOne(outbox, event())
      await outbox.flush()
    }
    expect(broker.closed).toBe(true)
    expect(broker.accepted).toHaveLength(1)
  })

  it('[8] refuses everything when it is closed, loudly', async () => {
    await using world = new World(kind)
    const outbox = world.outbox({ destinations: { pulled: { events: ['*'] } } })
    await outbox.start()
    await outbox.close()
    await outbox.close()
    const closed = { code: 'POSTHASTE_CLOSED' }
    await expect(outbox.transaction((tx) => outbox.publish(tx, event()))).rejects.toMatchObject(closed)
    await expect(outbox.publish(event())).rejects.toMatchObject(closed)
    await expect(outbox.begin()).rejects.toMatchObject(closed)
    await expect(outbox.start()).rejects.toMatchObject(closed)
    await expect(outbox.processOnce()).rejects.toMatchObject(closed)
    await expect(outbox.flush()).rejects.toMatchObject(closed)
    await expect(outbox.fetch({ destination: 'pulled' })).rejects.toMatchObject(closed)
    await expect(outbox.inspect.counts()).rejects.toMatchObject(closed)
    await expect(outbox.operator.redrive({ key: 'k' })).rejects.toMatchObject(closed)
    await expect(outbox.schema.status()).rejects.toMatchObject(closed)
  })

  it('[8] refuses to publish into a transaction that is over', async () => {
    await using world = new World(kind)
    const outbox = world.outbox()
    let kept: unknown
    await outbox.transaction((tx) => {
      kept = tx
    })
    await expect(outbox.publish(kept, event())).rejects.toMatchObject({
      code: expect.stringMatching(/TRANSACTION_ENDED|NO_TRANSACTION/),
    })
    await expect(outbox.publish(event())).rejects.toMatchObject({ code: 'POSTHASTE_NO_TRANSACTION' })
    expect((await outbox.inspect.list({ limit: 1 })).deliveries).toEqual([])
  })

  it('a start that fails may be tried again', async () => {
    await using world = new World(kind)
    const store = world.store()
    let fail = true
    const flaky = new Proxy(store, {
      get: (target, name) =>
        name === 'open' && fail
          ? () => Promise.reject(new Error('no database'))
          : (Reflect.get(target, name) as unknown),
    })
    const broker = recordingDestination()
    const outbox = world.outbox({ store: flaky, destinations: { broker: { to: broker, events: ['*'] } } })
    await expect(outbox.start()).rejects.toThrow('no database')
    expect(outbox.isStarted).toBe(false)
    fail = false
    await outbox.start()
    await publishOne(outbox, event())
    await outbox.flush()
    expect(broker.accepted).toHaveLength(1)
  })
})

describe('what is wrong is said early', () => {
  it('unknown destinations, with those that there are', async () => {
    await using t = createTestOutbox({
      destinations: { broker: { to: recordingDestination(), events: ['*'] }, mailer: { events: ['mail.*'] } },
    })
    const on = t.outbox.on.bind(t.outbox) as (...args: unknown[]) => unknown
    expect(() => on('nowhere', '*', () => undefined)).toThrow(/no destination "nowhere".*broker, mailer/s)
    expect(() => on('broker', '*', () => undefined)).toThrow(/has a publisher/)
    expect(() => on('mailer', '*', 'no function')).toThrow(/must be a function/)
    expect(() => createTestOutbox({ serve: ['nowhere'] })).toThrow(/serve names "nowhere"/)
    await expect(t.outbox.operator.pause('nowhere')).rejects.toMatchObject({ code: 'POSTHASTE_NOT_FOUND' })
  })

  it('listeners that come too late to be routed to', async () => {
    await using t = createTestOutbox()
    t.outbox.on('order.*', () => undefined)
    await t.outbox.start()
    t.outbox.on('order.placed', () => undefined)
    expect(() => t.outbox.on('user.created', () => undefined)).toThrow(/register listeners before start/)
  })

  it('options out of their bounds, by name', () => {
    const store = memoryStore()
    for (const [option, value] of Object.entries({
      pollIntervalMs: 1,
      laneLeaseMs: 10,
      hotQueueCapacity: 0,
      historyLimit: 1.5,
      drainMs: Number.NaN,
    })) {
      expect(() => createOutbox({ store, [option]: value })).toThrow(option)
    }
  })
})

describe('many handlers at once', () => {
  it('may all look at their signal, and all hear of the end, without a warning of a leak', async () => {
    const warnings: string[] = []
    const note = (warning: Error): void => void warnings.push(warning.name)
    process.on('warning', note)
    const t = createTestOutbox({ destinations: { busy: { events: ['*'], concurrency: 50 } }, drainMs: 100 })
    const signals: AbortSignal[] = []
    t.outbox.on('busy', '*', (_, { signal }) => {
      signals.push(signal)
      return new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
    })
    await t.outbox.start()
    await t.outbox.transaction((tx) =>
      t.outbox.publishMany(
        tx,
        Array.from({ length: 50 }, (_, n) => event(n)),
      ),
    )
    await t.advance(10)
    const closed = t.outbox.close()
    await t.advance(200)
    await closed
    expect(signals).toHaveLength(50)
    expect(signals.every(({ aborted }) => aborted)).toBe(true)
    process.off('warning', note)
    expect(warnings).toEqual([])
  })
})

describe('several listeners of an event, when the outbox stops', () => {
  const create = () => {
    const t = createTestOutbox({ destinations: { chain: { events: ['*'] } }, drainMs: 1_000 })
    const [running, first] = [gate<AbortSignal>(), gate()]
    const heard: string[] = []
    t.outbox.on('chain', '*', (_, { signal }) => {
      running.open(signal)
      return first.promise
    })
    t.outbox.on('chain', '*', async () => void heard.push('second'))
    t.outbox.on('chain', '*', () => void heard.push('third'))
    return { t, running, first, heard }
  }

  it('all hear it while it is waited for', async () => {
    const { t, running, first, heard } = create()
    await t.outbox.start()
    const id = await publishOne(t.outbox, event())
    await running.promise
    const stopped = t.outbox.stop()
    first.open()
    await t.advance(1_000)
    expect(await stopped).toEqual({ clean: true })
    expect(heard).toEqual(['second', 'third'])
    expect((await deliveryOf(t.outbox, id)).status).toBe('done')
    await t.outbox.close()
  })

  it('all hear it also when the first one ends because it is told to', async () => {
    const { t, running, first, heard } = create()
    await t.outbox.start()
    const id = await publishOne(t.outbox, event())
    const signal = await running.promise
    signal.addEventListener('abort', () => first.open())
    const stopped = t.outbox.stop()
    await t.advance(1_000)
    expect(await stopped).toEqual({ clean: true })
    expect(heard).toEqual(['second', 'third'])
    expect((await deliveryOf(t.outbox, id)).status).toBe('done')
    await t.outbox.close()
  })

  it.each(['stop', 'close'] as const)('are not begun any more behind %s()', async (way) => {
    const { t, running, first, heard } = create()
    await t.outbox.start()
    await publishOne(t.outbox, event())
    await running.promise
    const ended = t.outbox[way]()
    await t.advance(10_000)
    await ended
    first.open()
    await t.advance(10_000)
    expect(heard).toEqual([])
    expect([...t.database.deliveries.values()]).toMatchObject([{ status: 'pending', attempts: 0 }])
    await t.outbox.close()
  })
})

describe('a publisher that cannot be closed', () => {
  it.each([
    ['does not answer', () => new Promise<void>(() => undefined), 'did not close in time'],
    ['refuses', () => Promise.reject(new Error('stuck')), 'could not be closed'],
  ])('keeps nobody from ending when it %s, and the others are closed', async (_, close, said) => {
    const broker = recordingDestination()
    const stuck = { send: async () => [], close }
    const logged: unknown[] = []
    const t = createTestOutbox({
      destinations: { stuck: { to: stuck, events: ['*'] }, broker: { to: broker, events: ['*'] } },
      logger: { log: (...line) => void logged.push(line) },
    })
    await t.outbox.start()
    const closing = t.outbox.close()
    await t.advance(15_000)
    await closing
    expect(broker.closed).toBe(true)
    const [line] = logged.filter((one) => JSON.stringify(one).includes('"stuck"'))
    expect(line).toMatchObject(['warn', expect.stringContaining(said), { destination: 'stuck' }])
  })
})

describe('nothing goes on behind a closed outbox', () => {
  it('no timer is left', async () => {
    const runtime = createFakeRuntime()
    const t = createTestOutbox({
      clock: runtime,
      destinations: {
        broker: { to: failingDestination({ times: 3 }), events: ['*'] },
        pulled: { events: ['never'] },
      },
      pendingIntervalMs: 1_000,
      serve: ['broker'],
    })
    await t.outbox.start()
    await t.outbox.transaction((tx) => t.outbox.publishMany(tx, [event(), event({}, { key: 'k' })]))
    await t.advance(10_000)
    await t.outbox.flush()
    await t.outbox.fetch({ destination: 'pulled' }).catch(() => undefined)
    await t.outbox.close()
    expect(runtime.nextTimerInMs).toBeNull()
  })
})
