/** Who hears of an event: routes, processes that do not know them, listeners and their versions. */
import { describe, expect, it } from 'vitest'
import { defineEvent, fixed, type OutboxEvent } from '../../src/index.ts'
import { createTestOutbox, failingDestination, recordingDestination } from '../../src/testing/index.ts'
import { deliveryOf, KINDS, publishOne, World } from './world.ts'

const event = (type = 'order.placed', payload: unknown = {}, more: object = {}) => ({
  type,
  payload,
  ...more,
})

describe.each(KINDS)('routes on %s', (kind) => {
  it('a process that never started publishes, and any worker finds out where it belongs', async () => {
    await using world = new World(kind)
    const writer = world.outbox()
    const ids = [
      await publishOne(writer, event('order.placed')),
      await publishOne(writer, event('user.created')),
    ]
    const [orders, all] = [recordingDestination(), recordingDestination()]
    const worker = world.outbox({
      destinations: { orders: { to: orders, events: ['order.*'] }, all: { to: all, events: ['*'] } },
    })
    await worker.start()
    await worker.flush()
    expect(orders.accepted.map((sent) => sent.event.id)).toEqual([ids[0]])
    expect(all.accepted.map((sent) => sent.event.id)).toEqual(ids)
    const { deliveries } = await worker.inspect.list({ limit: 10 })
    expect(deliveries.map(({ destination }) => destination).sort()).toEqual(['all', 'all', 'orders'])
  })

  it('where everything is paused, events still find out where they belong, and wait there', async () => {
    await using world = new World(kind)
    const broker = recordingDestination()
    const worker = world.outbox({ destinations: { broker: { to: broker, events: ['*'], paused: true } } })
    await worker.start()
    const id = await publishOne(world.outbox(), event())
    await worker.processOnce()
    expect(await deliveryOf(worker, id)).toMatchObject({ destination: 'broker', status: 'pending' })
    expect(broker.accepted).toEqual([])
    await worker.operator.resume('broker')
    await worker.flush()
    expect(broker.accepted.map((sent) => sent.event.id)).toEqual([id])
  })

  it('a process that knows the routes of others feeds their destinations too', async () => {
    await using world = new World(kind)
    const search = recordingDestination()
    const indexer = world.outbox({ destinations: { search: { to: search, events: ['order.*'] } } })
    await indexer.start()
    const shop = world.outbox({ destinations: { mail: { to: recordingDestination(), events: ['*'] } } })
    await shop.start()
    const id = await publishOne(shop, event())
    await indexer.flush()
    expect(search.accepted.map((sent) => sent.event.id)).toEqual([id])
  })

  it('an event for nobody is stored and has no delivery', async () => {
    await using world = new World(kind)
    const outbox = world.outbox({
      destinations: { broker: { to: recordingDestination(), events: ['order.*'] } },
    })
    await outbox.start()
    const id = await publishOne(outbox, event('user.created'))
    expect((await outbox.inspect.event(id))?.deliveries).toEqual([])
  })

  it('a destination that nobody serves waits for a process that does', async () => {
    await using world = new World(kind)
    const destinations = { mailer: { events: ['*'] } }
    const writer = world.outbox({ destinations })
    await writer.start()
    const id = await publishOne(writer, event())
    expect((await deliveryOf(writer, id)).status).toBe('pending')
    const worker = world.outbox({ destinations })
    const heard: string[] = []
    worker.on('mailer', '*', ({ id }) => void heard.push(id))
    await worker.start()
    await world.until(async () => (await deliveryOf(worker, id)).status === 'done')
    expect(heard).toEqual([id])
  })

  it('[20] a served destination without a listener for the type is a failure that is retried, never dropped', async () => {
    await using world = new World(kind)
    const outbox = world.outbox({
      destinations: { mailer: { events: ['*'], retry: fixed({ delayMs: 60_000 }) } },
    })
    outbox.on('mailer', 'user.created', () => undefined)
    const id = await publishOne(outbox, event('order.placed'))
    await outbox.processOnce()
    const detail = await outbox.inspect.event(id)
    expect(detail?.deliveries[0]).toMatchObject({ status: 'retry', attempts: 1 })
    expect(detail?.attempts[0]?.code).toBe('POSTHASTE_NO_LISTENER')
  })

  it('an idempotency key publishes once, in one transaction, in two, and in two processes', async () => {
    await using world = new World(kind)
    const broker = recordingDestination()
    const one = world.outbox({ destinations: { broker: { to: broker, events: ['*'] } } })
    const two = world.outbox()
    await one.start()
    const keyed = event('order.placed', {}, { idempotencyKey: 'order-1' })
    const ids = await one.transaction(async (tx) => [
      await one.publish(tx, keyed),
      await one.publish(tx, keyed),
    ])
    ids.push(await publishOne(one, keyed), await publishOne(two, keyed))
    expect(new Set(ids).size).toBe(1)
    const other = await publishOne(one, event('order.shipped', {}, { idempotencyKey: 'order-1' }))
    expect(other).not.toBe(ids[0])
    await one.flush()
    expect(broker.accepted.map((sent) => sent.event.id).sort()).toEqual([ids[0], other].sort())
  })

  it('[5] what a rolled-back savepoint published is neither stored nor heard', async () => {
    await using world = new World(kind)
    const broker = recordingDestination()
    const outbox = world.outbox({ destinations: { broker: { to: broker, events: ['*'] } } })
    await outbox.start()
    await outbox.transaction(async () => {
      await outbox.publish(event('outer'))
      await outbox
        .transaction(async () => {
          await outbox.publish(event('inner'))
          await outbox.transaction(() => outbox.publish(event('innermost')))
          throw new Error('undo')
        })
        .catch(() => undefined)
      await outbox.transaction(() => outbox.publish(event('second')))
    })
    await outbox.flush()
    expect(broker.accepted.map((sent) => sent.event.type).sort()).toEqual(['outer', 'second'])
    const { deliveries } = await outbox.inspect.list({ limit: 10 })
    expect(deliveries.map(({ type }) => type).sort()).toEqual(['outer', 'second'])
  })

  it('[6] nothing of a rolled-back transaction reaches the next one', async () => {
    await using world = new World(kind)
    const broker = recordingDestination()
    const outbox = world.outbox({ destinations: { broker: { to: broker, events: ['*'] } } })
    await outbox.start()
    for (let n = 0; n < 5; n += 1) {
      const undone = await outbox.begin()
      await undone.publish(event('undone'))
      await undone.rollback()
      await publishOne(outbox, event('done'))
    }
    await outbox.flush()
    expect(broker.accepted.map((sent) => sent.event.type)).toEqual(Array(5).fill('done'))
  })

  it('[7] a hook that throws after the commit does not turn it into a failure', async () => {
    await using world = new World(kind)
    const broker = recordingDestination()
    const outbox = world.outbox({ destinations: { broker: { to: broker, events: ['*'] } } })
    await outbox.start()
    const id = await outbox.transaction(async (tx) => {
      outbox.txContext.afterCommit(() => {
        throw new Error('hook')
      })
      return await outbox.publish(tx, event())
    })
    await outbox.flush()
    expect(broker.accepted.map((sent) => sent.event.id)).toEqual([id])
  })
})

describe('the reconciler', () => {
  it('adds what a publisher missed that did not know a new destination yet', async () => {
    const [old, fresh] = [recordingDestination(), recordingDestination()]
    await using before = createTestOutbox({
      destinations: { old: { to: old, events: ['*'] } },
      laneRenewMs: 7_000,
    })
    await before.outbox.start()
    await using after = createTestOutbox({
      database: before.database,
      clock: before.runtime as never,
      destinations: {
        old: { to: recordingDestination(), events: ['*'] },
        fresh: { to: fresh, events: ['*'] },
      },
      serve: ['fresh'],
    })
    await before.outbox.transaction((tx) => before.outbox.publish(tx, event('before', {})))
    await before.advance(10)
    await after.outbox.start()
    // The older process looks at the registry at its next renewal; until then it routes by what it knows.
    const missed = await before.outbox.transaction((tx) => before.outbox.publish(tx, event('missed')))
    await before.advance(120_000)
    expect(fresh.accepted.map((sent) => sent.event.id)).toEqual([missed])
    const known = await before.outbox.transaction((tx) => before.outbox.publish(tx, event('known')))
    await before.advance(5_000)
    expect(fresh.accepted.map((sent) => sent.event.id)).toEqual([missed, known])
    expect(old.accepted.map((sent) => sent.event.type)).toEqual(['before', 'missed', 'known'])
  })

  it('does not bring the history along when a destination that exists wants to hear more', async () => {
    const [narrow, wide] = [recordingDestination(), recordingDestination()]
    await using before = createTestOutbox({
      destinations: { mail: { to: narrow, events: ['order.*'] } },
      laneRenewMs: 7_000,
    })
    await before.outbox.start()
    const publish = (type: string) =>
      before.outbox.transaction((tx) => before.outbox.publish(tx, event(type)))
    await publish('order.placed')
    await publish('user.created')
    await before.advance(60_000)
    await using after = createTestOutbox({
      database: before.database,
      clock: before.runtime as never,
      destinations: { mail: { to: wide, events: ['order.*', 'user.*'] } },
    })
    await after.outbox.start()
    // The older process still routes by what it knows, so this one has to be made up for.
    await publish('user.renamed')
    await before.outbox.stop()
    await before.advance(120_000)
    expect(wide.accepted.map((sent) => sent.event.type)).toEqual(['user.renamed'])
  })
})

describe('listeners', () => {
  it('run in order: exact, then patterns, then any; the first failure ends the attempt', async () => {
    await using t = createTestOutbox({ retry: fixed({ delayMs: 1_000 }) })
    const calls: string[] = []
    let fail = true
    t.outbox.onAny(() => void calls.push('any'))
    t.outbox.on('order.*', () => {
      calls.push('pattern')
      if (fail) throw new Error('pattern')
    })
    t.outbox.on('order.placed', async () => void calls.push('exact 1'))
    t.outbox.on('order.placed', () => void calls.push('exact 2'))
    await t.outbox.start()
    await t.outbox.transaction((tx) => t.outbox.publish(tx, event()))
    await t.drain()
    expect(calls).toEqual(['exact 1', 'exact 2', 'pattern'])
    fail = false
    calls.length = 0
    await t.drain({ untilIdle: true })
    expect(calls).toEqual(['exact 1', 'exact 2', 'pattern', 'any'])
  })

  it('can be taken away again', async () => {
    await using t = createTestOutbox()
    const calls: string[] = []
    const off = t.outbox.on('order.placed', () => void calls.push('first'))
    t.outbox.on('order.placed', () => void calls.push('second'))
    await t.outbox.start()
    off()
    await t.outbox.transaction((tx) => t.outbox.publish(tx, event()))
    await t.drain()
    expect(calls).toEqual(['second'])
  })

  it('of several destinations have their own state and retries', async () => {
    await using t = createTestOutbox({
      destinations: { mailer: { events: ['*'] }, search: { events: ['*'] } },
      retry: fixed({ delayMs: 1_000 }),
    })
    const calls: string[] = []
    let failures = 2
    t.outbox.on('mailer', '*', () => void calls.push('mailer'))
    t.outbox.on('search', '*', () => {
      calls.push('search')
      if (failures-- > 0) throw new Error('down')
    })
    await t.outbox.transaction((tx) => t.outbox.publish(tx, event()))
    await t.drain({ untilIdle: true })
    expect(calls.sort()).toEqual(['mailer', 'search', 'search', 'search'])
  })

  it('get older versions brought up, one step at a time; without a step the delivery fails visibly', async () => {
    const v1 = defineEvent<'order.placed', { total: number }>('order.placed')
    const v3 = defineEvent<'order.placed', { total: { amount: number; currency: string } }>('order.placed', {
      version: 3,
      upcast: {
        1: (old: { total: number }) => ({ amount: old.total }),
        2: (old: { amount: number }) => ({ total: { amount: old.amount, currency: 'EUR' } }),
      },
    })
    const gap = defineEvent<'order.placed', unknown>('order.placed', { version: 2 })
    await using t = createTestOutbox({
      destinations: {
        good: { events: ['*'] },
        bad: { events: ['*'], retry: fixed({ delayMs: 1, maxAttempts: 1 }) },
      },
    })
    const heard: OutboxEvent[] = []
    t.outbox.on('good', v3, (it) => void heard.push(it))
    t.outbox.on('bad', gap, (it) => void it.payload)
    await t.outbox.transaction((tx) =>
      t.outbox.publishMany(tx, [v1({ total: 5 }), v3({ total: { amount: 7, currency: 'USD' } })]),
    )
    await t.drain({ untilIdle: true })
    expect(heard.map(({ version, payload }) => [version, payload])).toEqual([
      [3, { total: { amount: 5, currency: 'EUR' } }],
      [3, { total: { amount: 7, currency: 'USD' } }],
    ])
    const [dead] = (await t.deliveries()).filter(({ status }) => status === 'dead')
    expect(dead?.lastError).toContain('has no upcast from 1 to 2')
  })
})

describe('an event that cannot be read', () => {
  it('is dead and visible, and its neighbours are delivered', async () => {
    const broker = recordingDestination()
    await using t = createTestOutbox({ destinations: { broker: { to: broker, events: ['*'] } } })
    const [bad, good] = await t.outbox.transaction((tx) => t.outbox.publishMany(tx, [event('a'), event('b')]))
    t.database.corruptEvent(bad as string)
    await t.drain()
    expect(broker.accepted.map((sent) => sent.event.id)).toEqual([good])
    const [dead] = (await t.deliveries()).filter(({ status }) => status === 'dead')
    expect(dead).toMatchObject({
      eventId: bad,
      destination: 'broker',
      lastError: expect.stringContaining('cannot be read'),
    })
  })

  it('holds its key or not, by policy', async () => {
    const broker = failingDestination({ fail: 'never' })
    await using t = createTestOutbox({
      destinations: { broker: { to: broker, events: ['*'], deadHead: 'block' } },
    })
    const [bad] = await t.outbox.transaction((tx) =>
      t.outbox.publishMany(tx, [event('a', 1, { key: 'k' }), event('b', 2, { key: 'k' })]),
    )
    t.database.corruptEvent(bad as string)
    await t.drain({ untilIdle: true })
    expect(broker.accepted).toEqual([])
    await t.outbox.operator.discard({ eventIds: [bad as string] })
    await t.drain({ untilIdle: true })
    expect(broker.accepted.map((sent) => sent.event.type)).toEqual(['b'])
  })
})
