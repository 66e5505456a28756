/** Calling instead of being called: `processOnce`, `flush` and `fetch`. */
import { setImmediate } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { fixed } from '../../src/index.ts'
import { createTestOutbox, failingDestination, recordingDestination } from '../../src/testing/index.ts'
import { deliveryOf, KINDS, publishOne, World } from './world.ts'

const event = (payload: unknown = {}, key?: string) => ({
  type: 'order.placed',
  payload,
  ...(key ? { key } : {}),
})

describe.each(KINDS)('processOnce on %s', (kind) => {
  it('delivers in one round what a process that was never started has published', async () => {
    await using world = new World(kind)
    const broker = recordingDestination()
    const outbox = world.outbox({ destinations: { broker: { to: broker, events: ['*'] } } })
    const id = await publishOne(outbox, event())
    expect(await outbox.processOnce()).toEqual({ claimed: 1, done: 1, retried: 0, dead: 0, idle: false })
    expect(broker.accepted.map((sent) => sent.event.id)).toEqual([id])
    expect(await outbox.processOnce()).toEqual({ claimed: 0, done: 0, retried: 0, dead: 0, idle: true })
  })

  it('counts what became of each delivery', async () => {
    await using world = new World(kind)
    const broker = failingDestination({ fail: 'permanent', events: 'bad' })
    const flaky = failingDestination({ events: 'bad' })
    const outbox = world.outbox({
      destinations: { broker: { to: broker, events: ['*'] }, flaky: { to: flaky, events: ['*'] } },
      retry: fixed({ delayMs: 60_000 }),
    })
    await outbox.transaction((tx) => outbox.publishMany(tx, [event(), event(), { type: 'bad', payload: {} }]))
    expect(await outbox.processOnce()).toEqual({ claimed: 6, done: 4, retried: 1, dead: 1, idle: false })
  })

  it.each([
    ['keyless', null],
    ['keyed', 'k'],
  ])(
    'routes and delivers in one round a %s event whose time came before anybody routed it',
    async (_, key) => {
      await using world = new World(kind)
      const broker = recordingDestination()
      const outbox = world.outbox({ destinations: { broker: { to: broker, events: ['*'] } } })
      const id = await publishOne(outbox, { ...event(), key, delayMs: 5 })
      const { availableAtMs } = await deliveryOf(outbox, id)
      while (Date.now() <= (availableAtMs ?? 0)) await setImmediate()
      expect(await outbox.processOnce()).toMatchObject({ done: 1, idle: false })
      expect(broker.accepted).toHaveLength(1)
    },
  )

  it('takes turns when it is called twice at once', async () => {
    await using world = new World(kind)
    const broker = recordingDestination()
    const outbox = world.outbox({ destinations: { broker: { to: broker, events: ['*'] } } })
    await publishOne(outbox, event())
    const rounds = await Promise.all([outbox.processOnce(), outbox.processOnce(), outbox.processOnce()])
    expect(rounds.reduce((sum, { done }) => sum + done, 0)).toBe(1)
    expect(broker.received).toHaveLength(1)
  })
})

describe.each(KINDS)('flush on %s', (kind) => {
  it('delivers what a process that was never started has published', async () => {
    await using world = new World(kind)
    const broker = recordingDestination()
    const outbox = world.outbox({ destinations: { broker: { to: broker, events: ['*'] } } })
    await publishOne(outbox, event())
    expect(await outbox.flush()).toMatchObject({ drained: true })
    expect(broker.accepted).toHaveLength(1)
  })

  it.each([
    ['keyless', undefined],
    ['keyed', 'k'],
  ])('of a started process waits for %s events that were just committed', async (_, key) => {
    await using world = new World(kind)
    const broker = recordingDestination({ slowMs: 20 })
    const outbox = world.outbox({ destinations: { broker: { to: broker, events: ['*'] } } })
    await outbox.start()
    const id = await publishOne(outbox, event({}, key))
    expect(await outbox.flush()).toMatchObject({ drained: true })
    expect(broker.accepted).toHaveLength(1)
    expect((await deliveryOf(outbox, id)).status).toBe('done')
  })

  it('of a started process also waits for what only the poller can find', async () => {
    await using world = new World(kind)
    const broker = recordingDestination({ slowMs: 20 })
    const writer = world.outbox()
    const outbox = world.outbox({
      destinations: { broker: { to: broker, events: ['*'] } },
      pollIntervalMs: 60_000,
      pollIdleMaxMs: 60_000,
    })
    await outbox.start()
    await outbox.flush()
    await publishOne(writer, event())
    expect(await outbox.flush()).toMatchObject({ drained: true })
    expect(broker.accepted).toHaveLength(1)
  })

  it('waits for what a rate limit holds back', async () => {
    await using world = new World(kind)
    const broker = recordingDestination()
    const outbox = world.outbox({
      destinations: { broker: { to: broker, events: ['*'], ratePerSecond: 20 } },
    })
    await outbox.start()
    await outbox.transaction((tx) => outbox.publishMany(tx, [event(1), event(2), event(3), event(4)]))
    expect(await outbox.flush()).toMatchObject({ drained: true })
    expect(broker.accepted).toHaveLength(4)
  })

  it('does not call it drained while a destination cannot be reached', async () => {
    await using world = new World(kind)
    const broker = failingDestination({ fail: 'outage' })
    const outbox = world.outbox({ destinations: { broker: { to: broker, events: ['*'] } } })
    await outbox.start()
    await publishOne(outbox, event())
    await world.until(() => broker.received.length > 0)
    expect(await outbox.flush({ timeoutMs: 50 })).toMatchObject({ drained: false })
  })

  it('is not drained while something is due in a lane that another process has', async () => {
    await using world = new World(kind)
    const broker = failingDestination({ fail: 'hang' })
    const destinations = { broker: { to: broker, events: ['*'] } }
    const [owner, other] = [world.outbox({ destinations }), world.outbox({ destinations })]
    await owner.start()
    await publishOne(owner, event(1, 'k'))
    // From here on the lane is busy, so it stays where it is.
    await world.until(() => broker.received.length > 0)
    const id = await publishOne(other, event(2, 'k'))
    expect(await other.processOnce()).toMatchObject({ claimed: 0, idle: true })
    expect(await other.flush({ timeoutMs: 150 })).toMatchObject({ drained: false })
    broker.release()
    expect(await other.flush()).toMatchObject({ drained: true })
    expect((await deliveryOf(other, id)).status).toBe('done')
  })

  it('is not drained while something is due for a destination that is paused', async () => {
    await using world = new World(kind)
    const broker = recordingDestination()
    const outbox = world.outbox({ destinations: { broker: { to: broker, events: ['*'], paused: true } } })
    expect(await outbox.flush()).toMatchObject({ drained: true })
    await publishOne(outbox, event())
    expect(await outbox.flush({ timeoutMs: 150 })).toMatchObject({ drained: false })
    await outbox.operator.resume('broker')
    expect(await outbox.flush()).toMatchObject({ drained: true })
    expect(broker.accepted).toHaveLength(1)
  })

  it('says so when the time is over', async () => {
    await using world = new World(kind)
    const broker = failingDestination({ fail: 'hang' })
    const outbox = world.outbox({ destinations: { broker: { to: broker, events: ['*'] } } })
    await outbox.start()
    await publishOne(outbox, event())
    expect(await outbox.flush({ timeoutMs: 20 })).toMatchObject({ drained: false })
    broker.release()
    expect(await outbox.flush()).toMatchObject({ drained: true })
  })
})

describe.each(KINDS)('fetch on %s', (kind) => {
  const pulling = (world: World) => world.outbox({ destinations: { pulled: { events: ['*'] } }, serve: [] })

  it('hands out a batch; what is acked, failed or dead is written at commit, the rest goes back', async () => {
    await using world = new World(kind)
    const outbox = pulling(world)
    const ids = await outbox.transaction((tx) =>
      outbox.publishMany(tx, [event(1), event(2), event(3), event(4)]),
    )
    const batch = await outbox.fetch({ destination: 'pulled' })
    expect(batch.deliveries.map((it) => it.event.payload)).toEqual([1, 2, 3, 4])
    const [one, two, three] = batch.deliveries.map((it) => it.id) as [string, string, string]
    batch.ack(one)
    batch.fail(two, new Error('not now'))
    batch.dead(three, new Error('never'))
    await batch.commit()
    const states = []
    for (const id of ids) states.push(await deliveryOf(outbox, id, 'pulled'))
    expect(states.map(({ status, attempts }) => [status, attempts])).toEqual([
      ['done', expect.any(Number)],
      ['retry', 1],
      ['dead', 1],
      ['pending', 0],
    ])
    const rest = await outbox.fetch({ destination: 'pulled' })
    expect(rest.deliveries.map((it) => it.event.payload)).toEqual([4])
    rest.ack()
    await rest.commit()
  })

  it('gives everything back unspent on rollback and at the end of its scope', async () => {
    await using world = new World(kind)
    const outbox = pulling(world)
    await publishOne(outbox, event(1))
    const first = await outbox.fetch({ destination: 'pulled' })
    first.ack()
    await first.rollback()
    {
      await using second = await outbox.fetch({ destination: 'pulled' })
      expect(second.deliveries.map(({ attempt }) => attempt)).toEqual([1])
    }
    const third = await outbox.fetch({ destination: 'pulled' })
    expect(third.deliveries.map(({ attempt }) => attempt)).toEqual([1])
    third.ack()
    await third.commit()
  })

  it('has two errors: nothing is due, and nothing was decided', async () => {
    await using world = new World(kind)
    const outbox = pulling(world)
    await expect(outbox.fetch({ destination: 'pulled' })).rejects.toMatchObject({
      code: 'POSTHASTE_NO_DELIVERIES',
    })
    await publishOne(outbox, event(1))
    const batch = await outbox.fetch({ destination: 'pulled' })
    await expect(batch.commit()).rejects.toMatchObject({ code: 'POSTHASTE_EMPTY_BATCH' })
    expect(() => batch.ack('unknown')).toThrow(expect.objectContaining({ code: 'POSTHASTE_NOT_FOUND' }))
    batch.ack()
    await batch.commit()
  })

  it('gives a key one at a time, in order', async () => {
    await using world = new World(kind)
    const outbox = pulling(world)
    await outbox.transaction((tx) =>
      outbox.publishMany(tx, [event(1, 'k'), event(2, 'k'), event(3, 'other')]),
    )
    const first = await outbox.fetch({ destination: 'pulled' })
    expect(first.deliveries.map((it) => it.event.payload)).toEqual([1, 3])
    first.ack()
    await first.commit()
    const second = await outbox.fetch({ destination: 'pulled' })
    expect(second.deliveries.map((it) => it.event.payload)).toEqual([2])
    second.ack()
    await second.commit()
  })

  it('gives two consumers different deliveries', async () => {
    await using world = new World(kind)
    const [a, b] = [pulling(world), pulling(world)]
    await a.transaction((tx) =>
      a.publishMany(
        tx,
        Array.from({ length: 20 }, (_, i) => event(i)),
      ),
    )
    const ofA = await a.fetch({ destination: 'pulled' })
    const ofB = await b.fetch({ destination: 'pulled' }).catch((error: { code: string }) => error.code)
    const all = [...ofA.deliveries, ...(typeof ofB === 'string' ? [] : ofB.deliveries)].map(({ id }) => id)
    expect(new Set(all).size).toBe(all.length)
    await ofA.rollback()
    if (typeof ofB !== 'string') await ofB.rollback()
  })

  it('hands out nothing from the moment in which an operator of this process pauses the destination', async () => {
    await using world = new World(kind)
    const outbox = pulling(world)
    await outbox.transaction((tx) => outbox.publishMany(tx, [event(1), event(2), event(3)]))
    const first = await outbox.fetch({ destination: 'pulled', limit: 1 })
    first.ack()
    await first.commit()
    await outbox.operator.pause('pulled')
    await expect(outbox.fetch({ destination: 'pulled' })).rejects.toMatchObject({
      code: 'POSTHASTE_NO_DELIVERIES',
      message: expect.stringContaining('paused'),
    })
    await outbox.operator.resume('pulled')
    await using rest = await outbox.fetch({ destination: 'pulled' })
    expect(rest.deliveries.map((it) => it.event.payload)).toEqual([2, 3])
  })

  it('hands out no more than the rate that an operator of this process sets', async () => {
    await using world = new World(kind)
    const outbox = pulling(world)
    await outbox.transaction((tx) => outbox.publishMany(tx, [event(1), event(2), event(3), event(4)]))
    const take = async (limit: number) => {
      const batch = await outbox.fetch({ destination: 'pulled', limit })
      batch.ack()
      await batch.commit()
      return batch.deliveries.map((it) => it.event.payload)
    }
    expect(await take(1)).toEqual([1])
    await outbox.operator.setRate('pulled', 0.001)
    expect(await take(10)).toEqual([2])
    await expect(take(10)).rejects.toMatchObject({ code: 'POSTHASTE_NO_DELIVERIES' })
    await outbox.operator.setRate('pulled', null)
    expect(await take(10)).toEqual([3, 4])
  })

  it('is refused where start() delivers, and for destinations nobody declared', async () => {
    await using world = new World(kind)
    const outbox = world.outbox({ destinations: { broker: { to: recordingDestination(), events: ['*'] } } })
    await outbox.start()
    await expect(outbox.fetch({ destination: 'broker' })).rejects.toMatchObject({
      code: 'POSTHASTE_CONFLICT',
    })
    await expect(outbox.fetch({ destination: 'nowhere' as 'broker' })).rejects.toMatchObject({
      code: 'POSTHASTE_UNKNOWN_DESTINATION',
    })
  })
})

describe('fetch and time', () => {
  it('hands a failed delivery out again when it is due, and buries it at its limit', async () => {
    await using t = createTestOutbox({
      destinations: { pulled: { events: ['*'], retry: fixed({ delayMs: 60_000, maxAttempts: 2 }) } },
      serve: [],
    })
    const id = await t.outbox.transaction((tx) => t.outbox.publish(tx, event()))
    const attempt = async () => {
      const batch = await t.outbox.fetch({ destination: 'pulled' })
      const [only] = batch.deliveries
      batch.fail(only?.id as string, new Error('no'))
      await batch.commit()
      return only?.attempt
    }
    expect(await attempt()).toBe(1)
    await expect(attempt()).rejects.toMatchObject({ code: 'POSTHASTE_NO_DELIVERIES' })
    await t.advance(60_000)
    expect(await attempt()).toBe(2)
    expect((await deliveryOf(t.outbox as never, id, 'pulled')).status).toBe('dead')
  })
})
