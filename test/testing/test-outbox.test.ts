import { AssertionError } from 'node:assert'
import { describe, expect, expectTypeOf, it, vi } from 'vitest'
import { defineEvent, fixed } from '../../src/index.ts'
import { createTestOutbox, failingDestination, recordingDestination } from '../../src/testing/index.ts'

const orderPlaced = defineEvent<'order.placed', { orderId: string; total: number }>('order.placed')
const orderShipped = defineEvent<'order.shipped', { orderId: string }>('order.shipped')

describe('createTestOutbox', () => {
  it('delivers what was published without ever being started', async () => {
    await using t = createTestOutbox()
    const heard: string[] = []
    t.outbox.on(orderPlaced, (event) => void heard.push(event.payload.orderId))
    await t.outbox.transaction((tx) => t.outbox.publish(tx, orderPlaced({ orderId: 'a', total: 1 })))
    expect(await t.drain()).toEqual({ done: 1, retried: 0, dead: 0, left: 0 })
    expect(heard).toEqual(['a'])
  })

  it('drains a started outbox as well', async () => {
    const broker = recordingDestination()
    await using t = createTestOutbox({ destinations: { broker: { to: broker, events: ['order.*'] } } })
    await t.outbox.start()
    await t.outbox.transaction((tx) => t.outbox.publish(tx, orderPlaced({ orderId: 'a', total: 1 })))
    await t.drain()
    expect(broker.accepted).toHaveLength(1)
    expect(await t.drain()).toEqual({ done: 0, retried: 0, dead: 0, left: 0 })
  })

  it.each(['started', 'not started'])('moves the clock over retries when asked, %s', async (mode) => {
    const broker = failingDestination({ times: 2 })
    await using t = createTestOutbox({
      destinations: { broker: { to: broker, events: ['order.*'], retry: fixed({ delayMs: 60_000 }) } },
    })
    if (mode === 'started') await t.outbox.start()
    await t.outbox.transaction((tx) => t.outbox.publish(tx, orderPlaced({ orderId: 'a', total: 1 })))
    const startedAt = t.runtime.wallNow()
    await t.drain()
    expect(broker.accepted).toHaveLength(0)
    expect(t.runtime.wallNow()).toBe(startedAt)
    expect(await t.drain({ untilIdle: true })).toMatchObject({ done: 1, left: 0 })
    expect(broker.accepted).toHaveLength(1)
    expect(t.runtime.wallNow() - startedAt).toBeGreaterThanOrEqual(2 * 60_000)
  })

  it('does not wait for ever for what nobody serves', async () => {
    await using t = createTestOutbox({ destinations: { nobody: { events: ['*'] } }, serve: [] })
    await t.outbox.start()
    await t.outbox.transaction((tx) => t.outbox.publish(tx, orderPlaced({ orderId: 'a', total: 1 })))
    expect(await t.drain({ untilIdle: true })).toEqual({ done: 0, retried: 0, dead: 0, left: 1 })
  })

  it('finds published events by definition, with typed payloads', async () => {
    await using t = createTestOutbox()
    await t.outbox.transaction(async (tx) => {
      await t.outbox.publish(tx, orderPlaced({ orderId: 'a', total: 1 }))
      await t.outbox.publish(tx, orderPlaced({ orderId: 'b', total: 2 }))
    })
    const event = t.expectPublished(orderPlaced, { orderId: 'b' })
    expectTypeOf(event.payload).toEqualTypeOf<{ orderId: string; total: number }>()
    expect(event.payload.total).toBe(2)
    expect(t.expectPublished('order.placed').payload).toEqual({ orderId: 'a', total: 1 })
    t.expectNotPublished(orderShipped)
    t.expectNotPublished(orderPlaced, { orderId: 'c' })
    // @ts-expect-error a misspelt field is a mistake in the test
    t.expectNotPublished(orderPlaced, { orderID: 'a' })
  })

  it('says what was published instead', async () => {
    await using t = createTestOutbox()
    expect(() => t.expectPublished(orderShipped)).toThrow(/order\.shipped.*Nothing was published/)
    await t.outbox.transaction((tx) => t.outbox.publish(tx, orderPlaced({ orderId: 'a', total: 1 })))
    expect(() => t.expectPublished(orderShipped, { orderId: 'a' })).toThrow(AssertionError)
    expect(() => t.expectPublished(orderShipped, { orderId: 'a' })).toThrow(
      'Expected that order.shipped with {"orderId":"a"} was published, but it was not. ' +
        'Published were, in this order:\n  order.placed {"orderId":"a","total":1}',
    )
    expect(() => t.expectNotPublished(orderPlaced)).toThrow(/was not published, but it was/)
  })

  it('shows nothing that was rolled back', async () => {
    await using t = createTestOutbox()
    const rolledBack = t.outbox.transaction(async (tx) => {
      await t.outbox.publish(tx, orderPlaced({ orderId: 'a', total: 1 }))
      throw new Error('no')
    })
    await expect(rolledBack).rejects.toThrow('no')
    expect(t.published()).toEqual([])
    t.expectNotPublished(orderPlaced)
  })

  it('waits for deliveries by id or definition, and for conditions', async () => {
    const broker = recordingDestination()
    await using t = createTestOutbox({ destinations: { broker: { to: broker, events: [orderPlaced] } } })
    await t.outbox.start()
    const condition = t.waitFor(() => broker.accepted.length === 2)
    const kind = t.waitForDelivery(orderPlaced, 'broker')
    const id = await t.outbox.transaction((tx) =>
      t.outbox.publish(tx, orderPlaced({ orderId: 'a', total: 1 })),
    )
    await kind
    await t.waitForDelivery(id)
    await t.outbox.transaction((tx) => t.outbox.publish(tx, orderPlaced({ orderId: 'b', total: 1 })))
    await condition
    expect(broker.accepted.map(({ event }) => event.data)).toHaveLength(2)
  })

  it('says what there was when it waited in vain', async () => {
    const broker = failingDestination()
    await using t = createTestOutbox({ destinations: { broker: { to: broker, events: [orderPlaced] } } })
    await t.outbox.start()
    await t.outbox.transaction((tx) => t.outbox.publish(tx, orderPlaced({ orderId: 'a', total: 1 })))
    await t.waitFor(() => broker.received.length === 1)
    await expect(t.waitForDelivery(orderPlaced, 'broker', { timeoutMs: 20 })).rejects.toThrow(
      /order\.placed to broker: retry, 1 attempts: .*refused/,
    )
  })

  it('works by the system’s clock too', async () => {
    const broker = failingDestination({ times: 1 })
    await using t = createTestOutbox({
      clock: 'real',
      destinations: { broker: { to: broker, events: [orderPlaced], retry: fixed({ delayMs: 5 }) } },
    })
    await t.outbox.start()
    const id = await t.outbox.transaction((tx) =>
      t.outbox.publish(tx, orderPlaced({ orderId: 'a', total: 1 })),
    )
    await t.waitForDelivery(id, 'broker')
    expect(broker.received.map(({ attempt }) => attempt)).toEqual([1, 2])
    await expect(t.advance(1)).rejects.toThrow('time cannot be moved')
  })

  it('plays two processes on one database', async () => {
    await using writer = createTestOutbox({ serve: [] })
    const broker = recordingDestination()
    await using worker = createTestOutbox({
      database: writer.database,
      destinations: { broker: { to: broker, events: ['*'] } },
    })
    await writer.outbox.transaction((tx) =>
      writer.outbox.publish(tx, orderPlaced({ orderId: 'a', total: 1 })),
    )
    await worker.drain()
    expect(broker.accepted).toHaveLength(1)
  })

  it('closes beside a transaction that nobody ended, so that a test that fails says why', async () => {
    const failing = async (): Promise<void> => {
      await using t = createTestOutbox()
      const manual = await t.outbox.begin()
      await manual.publish(orderPlaced({ orderId: 'a', total: 1 }))
      throw new Error('an assertion')
    }
    await expect(failing()).rejects.toThrow('an assertion')
  })

  it('closes beside a listener that never ends', async () => {
    const t = createTestOutbox()
    const begun = new Promise<void>((resolve) => {
      t.outbox.on(orderPlaced, () => {
        resolve()
        return new Promise<void>(() => undefined)
      })
    })
    await t.outbox.start()
    await t.outbox.transaction((tx) => t.outbox.publish(tx, orderPlaced({ orderId: 'a', total: 1 })))
    await begun
    await t.close()
    expect(t.outbox.isStarted).toBe(false)
  })

  it('lets a listener end that needs more than a second of real time', async () => {
    const t = createTestOutbox()
    let ended = false
    const begun = new Promise<void>((resolve) => {
      t.outbox.on(orderPlaced, async () => {
        resolve()
        await new Promise((done) => setTimeout(done, 1_300))
        ended = true
      })
    })
    await t.outbox.start()
    await t.outbox.transaction((tx) => t.outbox.publish(tx, orderPlaced({ orderId: 'a', total: 1 })))
    await begun
    await t.close()
    expect(ended).toBe(true)
  })

  it('closes beside a transaction that nobody ended, although the test has timers of its own', async () => {
    vi.useFakeTimers()
    try {
      const t = createTestOutbox()
      await t.outbox.begin()
      await t.close()
      expect(t.outbox.isStarted).toBe(false)
    } finally {
      vi.useRealTimers()
    }
  })
})
