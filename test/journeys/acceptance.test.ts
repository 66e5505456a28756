/** The six acceptance tests of the specification, by their names, on every store that needs no server. */
import { describe, expect, it } from 'vitest'
import { createCountingMetrics, defineEvent, fixed, type OutboxEvent } from '../../src/index.ts'
import { deliveryOf, gate, KINDS, publishOne, World } from './world.ts'

enum UserEvent {
  Created = 'user.created',
  Deleted = 'user.deleted',
}

enum AggregateType {
  User = 'USER',
}

describe.each(KINDS)('acceptance on %s', (kind) => {
  it('Atomicity: what is rolled back leaves no row and is never heard', async () => {
    await using world = new World(kind)
    const outbox = world.outbox()
    const heard: string[] = []
    outbox.onAny((event) => void heard.push(event.type))
    await outbox.start()
    const transaction = await outbox.begin()
    const id = await transaction.publish({ type: UserEvent.Created, payload: { id: 1 } })
    await transaction.rollback()
    expect(await outbox.inspect.event(id)).toBeNull()
    expect(await outbox.inspect.list({ limit: 10 })).toEqual({ deliveries: [], next: null })
    // Whatever committed later went through, so the one before it would have been heard by now.
    const later = await publishOne(outbox, { type: UserEvent.Deleted, payload: {} })
    await world.until(async () => (await deliveryOf(outbox, later)).status === 'done')
    expect(heard).toEqual([UserEvent.Deleted])
  })

  it('Commit + Fast Path: the dispatcher receives it hot, the listener runs, the row is done', async () => {
    await using world = new World(kind)
    const metrics = createCountingMetrics()
    const outbox = world.outbox({ metrics })
    const heard = gate<{ event: OutboxEvent; source: string }>()
    outbox.on(UserEvent.Created, (event, { source }) => heard.open({ event, source }))
    await outbox.start()
    const transaction = await outbox.begin()
    const id = await transaction.publish({ type: UserEvent.Created, payload: { id: 123 } })
    await transaction.commit()
    const { event, source } = await heard.promise
    expect(event).toMatchObject({ id, type: UserEvent.Created, payload: { id: 123 } })
    expect(source).toBe('hot')
    await world.until(async () => (await deliveryOf(outbox, id)).status === 'done')
    expect(metrics.count('hotEnqueued')).toBe(1)
    expect(metrics.count('coldEnqueued')).toBe(0)
  })

  it('Queue Overflow Downgrade: publish succeeds, the row stays new, and the poller delivers it', async () => {
    await using world = new World(kind)
    const metrics = createCountingMetrics()
    const destinations = { slow: { events: ['*'], concurrency: 1 } }
    const busy = world.outbox({ metrics, destinations, hotQueueCapacity: 1, pollerEnabled: false })
    const [running, mayEnd] = [gate(), gate()]
    busy.on('slow', '*', async () => {
      running.open()
      await mayEnd.promise
    })
    await busy.start()
    const publish = (n: number) => publishOne(busy, { type: UserEvent.Created, payload: n })
    const first = await publish(1)
    await running.promise
    const queued = await publish(2)
    const dropped = [await publish(3), await publish(4)]
    for (const id of dropped)
      expect(await deliveryOf(busy, id)).toMatchObject({ status: 'pending', attempts: 0 })
    mayEnd.open()
    await world.until(async () => (await deliveryOf(busy, queued)).status === 'done')
    expect((await deliveryOf(busy, first)).status).toBe('done')
    for (const id of dropped) expect((await deliveryOf(busy, id)).status).toBe('pending')
    await busy.close()

    const polling = world.outbox({ destinations })
    const sources: string[] = []
    polling.on('slow', '*', (_, { source }) => void sources.push(source))
    await polling.start()
    for (const id of dropped) await world.until(async () => (await deliveryOf(polling, id)).status === 'done')
    expect(sources).toEqual(['cold', 'cold'])
  })

  it('Retry/Dead: attempts grow with every failure, and after the last one it is dead', async () => {
    await using world = new World(kind)
    const outbox = world.outbox({ retry: fixed({ delayMs: 1, maxAttempts: 3 }) })
    const attempts: number[] = []
    outbox.on(UserEvent.Created, (_, { attempt }) => {
      attempts.push(attempt)
      throw new Error(`refused ${attempt}`)
    })
    const id = await publishOne(outbox, { type: UserEvent.Created, payload: {} })
    const nextAttempt = async () => {
      const before = attempts.length
      while (attempts.length === before) await outbox.processOnce()
      return await deliveryOf(outbox, id, 'local')
    }
    expect(await nextAttempt()).toMatchObject({ status: 'retry', attempts: 1, lastError: 'refused 1' })
    expect(await nextAttempt()).toMatchObject({ status: 'retry', attempts: 2, lastError: 'refused 2' })
    expect(await nextAttempt()).toMatchObject({ status: 'dead', attempts: 3, lastError: 'refused 3' })
    expect(attempts).toEqual([1, 2, 3])
    expect(
      (await outbox.inspect.event(id))?.attempts.map(({ attempt, message }) => [attempt, message]),
    ).toEqual([
      [1, 'refused 1'],
      [2, 'refused 2'],
      [3, 'refused 3'],
    ])
    expect(await outbox.processOnce()).toMatchObject({ claimed: 0, idle: true })
  })

  it('Type-Safe EventType: a listener registered with an enum hears what is published with it', async () => {
    await using world = new World(kind)
    const outbox = world.outbox()
    const userCreated = defineEvent<UserEvent.Created, { id: number }>(UserEvent.Created)
    const heard: unknown[] = []
    outbox.on(UserEvent.Created, (event) => void heard.push(['by enum', event.type, event.payload]))
    outbox.on(userCreated, (event) => void heard.push(['by definition', event.payload.id]))
    outbox.on(UserEvent.Deleted, () => void heard.push('another'))
    await outbox.start()
    const id = await publishOne(outbox, { type: UserEvent.Created, payload: { id: 7 } })
    await world.until(async () => (await deliveryOf(outbox, id)).status === 'done')
    expect(heard).toEqual([
      ['by enum', 'user.created', { id: 7 }],
      ['by definition', 7],
    ])
  })

  it('Type-Safe AggregateType: the aggregate type is the name as a string', async () => {
    await using world = new World(kind)
    const outbox = world.outbox()
    const named = { name: 'ACCOUNT' } as const
    const opened = defineEvent<'account.opened', { id: string }>('account.opened', {
      aggregate: named,
      aggregateId: ({ id }) => id,
    })
    const heard: unknown[] = []
    outbox.onAny(({ aggregateType, aggregateId }) => void heard.push([aggregateType, aggregateId]))
    await outbox.start()
    const ids = [
      await publishOne(outbox, {
        type: UserEvent.Created,
        payload: {},
        aggregateType: AggregateType.User,
        aggregateId: '1',
      }),
      await publishOne(outbox, opened({ id: '2' })),
    ]
    for (const id of ids) await world.until(async () => (await deliveryOf(outbox, id)).status === 'done')
    expect(heard).toEqual([
      ['USER', '1'],
      ['ACCOUNT', '2'],
    ])
    expect(await deliveryOf(outbox, ids[0] as string)).toMatchObject({
      aggregateType: 'USER',
      aggregateId: '1',
    })
  })
})
