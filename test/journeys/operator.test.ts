/** What a person or a script does: redrive, replay, edit, discard, pause, limit, clean. */
import { describe, expect, it } from 'vitest'
import { fixed } from '../../src/index.ts'
import { createTestOutbox, failingDestination, recordingDestination } from '../../src/testing/index.ts'
import { deliveryOf, detailOf, KINDS, publishOne, World } from './world.ts'

const event = (payload: unknown = {}, more: object = {}) => ({ type: 'order.placed', payload, ...more })
const act = { actor: 'alice', reason: 'ticket 7' }

describe.each(KINDS)('an operator on %s', (kind) => {
  it('redrives a dead delivery: the dead run is discarded, a new one is sent with a new deduplication id', async () => {
    await using world = new World(kind)
    const broker = failingDestination({ fail: 'permanent' })
    const outbox = world.outbox({ destinations: { broker: { to: broker, events: ['*'] } } })
    const id = await publishOne(outbox, event())
    await outbox.processOnce()
    broker.script({ fail: 'never' })
    expect(await outbox.operator.redrive({ eventIds: [id] }, act)).toBe(1)
    expect(await outbox.operator.redrive({ eventIds: [id] }, act)).toBe(0)
    await outbox.processOnce()
    const { deliveries } = await detailOf(outbox, id)
    expect(deliveries.map(({ run, status }) => [run, status]).sort()).toEqual([
      [1, 'discarded'],
      [2, 'done'],
    ])
    expect(
      broker.accepted.map(({ run, attempt, deduplicationId }) => [run, attempt, deduplicationId]),
    ).toEqual([[2, 1, `${id}:2`]])
  })

  it('who asks for what cannot be is told so, or that it is not there, by every store', async () => {
    await using world = new World(kind)
    const { inspect } = world.outbox()
    expect(await inspect.event('nonsense')).toBeNull()
    expect(await inspect.eventOfDelivery('nonsense')).toBeNull()
    expect(await inspect.list()).toEqual({ deliveries: [], next: null })
    const refused = { code: 'POSTHASTE_INVALID_OPTION' }
    await expect(inspect.list({ after: 'nonsense' })).rejects.toMatchObject(refused)
    await expect(inspect.list({ status: ['failed' as 'dead'] })).rejects.toMatchObject(refused)
    await expect(inspect.list({ limit: 0.5 })).rejects.toMatchObject(refused)
  })

  it('is told by every act on a destination that nobody has registered it yet', async () => {
    await using world = new World(kind)
    const to = recordingDestination()
    const { operator } = world.outbox({ destinations: { mailer: { to, events: ['*'] } } })
    const refused = {
      code: 'POSTHASTE_NOT_FOUND',
      message:
        'there is no destination "mailer"; registered are: none. A process that declares it registers it when it starts',
      detail: { destination: 'mailer' },
    }
    for (const refusedAct of [
      () => operator.pause('mailer'),
      () => operator.resume('mailer'),
      () => operator.setRate('mailer', 5),
      () => operator.tune('mailer', { concurrency: 2 }),
      () => operator.backfill('mailer', { since: new Date(0) }),
      () => operator.retire('mailer'),
    ])
      await expect(refusedAct()).rejects.toMatchObject(refused)
  })

  it('replays what is done, as a new run beside it', async () => {
    await using world = new World(kind)
    const broker = recordingDestination()
    const outbox = world.outbox({ destinations: { broker: { to: broker, events: ['*'] } } })
    await outbox.start()
    const id = await publishOne(outbox, event())
    await outbox.flush()
    expect(await outbox.operator.replay({ eventIds: [id] }, act)).toBe(1)
    await outbox.flush()
    expect(broker.accepted.map(({ deduplicationId }) => deduplicationId)).toEqual([id, `${id}:2`])
    const { deliveries } = await detailOf(outbox, id)
    expect(deliveries.map(({ run, status }) => [run, status]).sort()).toEqual([
      [1, 'done'],
      [2, 'done'],
    ])
  })

  it('edits a dead event: a corrected copy for that destination, in its place', async () => {
    await using world = new World(kind)
    const [broker, other] = [failingDestination({ fail: 'permanent' }), recordingDestination()]
    const outbox = world.outbox({
      destinations: {
        broker: { to: broker, events: ['*'], deadHead: 'block' },
        other: { to: other, events: ['*'] },
      },
    })
    const [id] = await outbox.transaction((tx) =>
      outbox.publishMany(tx, [
        event({ total: -1 }, { key: 'k', headers: { a: '1' } }),
        event({ total: 2 }, { key: 'k' }),
      ]),
    )
    await outbox.processOnce()
    const dead = await deliveryOf(outbox, id as string, 'broker')
    broker.script({ fail: 'never' })
    const copy = await outbox.operator.edit(dead.id, { payload: { total: 1 } }, act)
    while (!(await outbox.processOnce()).idle);
    expect(broker.accepted.map((sent) => [sent.event.id, sent.event.data])).toEqual([
      [copy, '{"total":1}'],
      [expect.any(String), '{"total":2}'],
    ])
    expect(broker.accepted[0]?.event).toMatchObject({ replacesId: id, key: 'k', headers: { a: '1' } })
    expect(other.accepted.map((sent) => sent.event.data)).toEqual(['{"total":-1}', '{"total":2}'])
    await expect(outbox.operator.edit(dead.id, { payload: 1 }, act)).rejects.toMatchObject({
      code: expect.stringMatching(/CONFLICT|NOT_FOUND/),
    })
    expect(await outbox.operator.redrive({ deliveryIds: [dead.id] }, act)).toBe(0)
  })

  it('discards what waits, so that it is never sent', async () => {
    await using world = new World(kind)
    const broker = recordingDestination()
    const outbox = world.outbox({ destinations: { broker: { to: broker, events: ['*'], paused: true } } })
    await outbox.start()
    const id = await publishOne(outbox, event())
    expect(await outbox.operator.discard({ eventIds: [id] }, act)).toBe(1)
    expect(await deliveryOf(outbox, id)).toMatchObject({ status: 'discarded' })
  })

  it('must name what to act on, and leaves a trace of every act', async () => {
    await using world = new World(kind)
    const outbox = world.outbox({ destinations: { broker: { to: recordingDestination(), events: ['*'] } } })
    await outbox.start()
    await expect(outbox.operator.discard({}, act)).rejects.toMatchObject({ code: 'POSTHASTE_INVALID_OPTION' })
    const id = await publishOne(outbox, event())
    await outbox.flush()
    await outbox.operator.replay({ eventIds: [id] }, act)
    await outbox.operator.pause('broker', act)
    await outbox.operator.setRate('broker', 10, { actor: 'bob' })
    await outbox.operator.resume('broker')
    const audit = await outbox.inspect.audit({ limit: 10 })
    expect(audit.length).toBe(4)
    expect(audit.map(({ actor }) => actor)).toEqual(expect.arrayContaining(['alice', 'bob']))
    const replay = audit.find(({ action }) => action === 'replay')
    expect(replay).toMatchObject({ actor: 'alice', reason: 'ticket 7', count: 1 })
    expect(JSON.parse(replay?.target ?? '')).toMatchObject({ eventIds: [id] })
  })

  it('pauses a destination for all processes and resumes it', async () => {
    await using world = new World(kind)
    const broker = recordingDestination()
    const destinations = { broker: { to: broker, events: ['*'] } }
    const outbox = world.outbox({ destinations })
    await outbox.start()
    await outbox.operator.pause('broker', act)
    const id = await publishOne(outbox, event())
    const other = world.outbox({ destinations })
    await other.processOnce()
    await outbox.processOnce()
    expect(broker.received).toEqual([])
    expect((await deliveryOf(outbox, id)).status).toBe('pending')
    await outbox.operator.resume('broker', act)
    await outbox.flush()
    expect(broker.accepted).toHaveLength(1)
  })
})

describe('a pause', () => {
  it('of another process is noticed at the next renewal, and costs no attempt', async () => {
    const broker = recordingDestination()
    await using worker = createTestOutbox({ destinations: { broker: { to: broker, events: ['*'] } } })
    await using console_ = createTestOutbox({ database: worker.database, clock: worker.runtime as never })
    await worker.outbox.start()
    await console_.outbox.operator.pause('broker', act)
    await worker.advance(6_000)
    await worker.outbox.transaction((tx) => worker.outbox.publish(tx, event()))
    await worker.advance(60_000)
    expect(broker.received).toEqual([])
    await console_.outbox.operator.resume('broker', act)
    await worker.advance(10_000)
    expect(broker.accepted.map(({ attempt }) => attempt)).toEqual([1])
  })
})

describe('a rate limit', () => {
  it('spreads deliveries over time; an operator can change it', async () => {
    const broker = recordingDestination()
    await using t = createTestOutbox({
      destinations: { broker: { to: broker, events: ['*'], ratePerSecond: 10 } },
    })
    await t.outbox.start()
    await t.outbox.transaction((tx) =>
      t.outbox.publishMany(
        tx,
        Array.from({ length: 300 }, (_, n) => event(n)),
      ),
    )
    await t.advance(10_000)
    expect(broker.accepted.length).toBeGreaterThanOrEqual(95)
    expect(broker.accepted.length).toBeLessThanOrEqual(105)
    await t.outbox.operator.setRate('broker', 100, act)
    await t.advance(3_000)
    expect(broker.accepted).toHaveLength(300)
  })
})

describe('cleaning', () => {
  const cleaning = (more: object = {}) =>
    createTestOutbox({
      destinations: {
        broker: { to: failingDestination({ events: 'bad', fail: 'permanent' }), events: ['*'] },
      },
      retentionDoneHours: 1,
      retentionDeadHours: 2,
      cleanupIntervalMs: 60_000,
      cleanupBatchSize: 10,
      // Hours pass, in which nothing else needs to be looked at.
      pollIdleMaxMs: 60_000,
      laneLeaseMs: 300_000,
      retry: fixed({ delayMs: 1 }),
      ...more,
    })

  it('[42] works in bounded steps by itself, until nothing is past its retention', async () => {
    const steps: Record<string, unknown>[] = []
    const log = (_level: string, message: string, fields?: object): void => {
      if (message.startsWith('cleanup')) steps.push({ ...fields })
    }
    await using t = cleaning({ logger: { log } })
    await t.outbox.start()
    await t.outbox.transaction((tx) =>
      t.outbox.publishMany(
        tx,
        Array.from({ length: 95 }, (_, n) => event(n)),
      ),
    )
    await t.drain()
    await t.advance(3_500_000)
    expect(t.published()).toHaveLength(95)
    await t.advance(300_000)
    expect(t.published()).toEqual([])
    expect(await t.deliveries()).toEqual([])
    expect(steps.length).toBeGreaterThanOrEqual(10)
    for (const { done, events } of steps)
      expect(Math.max(done as number, events as number)).toBeLessThanOrEqual(10)
  })

  it('is done by a process that serves nothing if it says so, and not by one that does not want to', async () => {
    await using worker = cleaning({ maintain: false })
    await using keeper = createTestOutbox({
      database: worker.database,
      clock: worker.runtime as never,
      serve: [],
      maintain: true,
      retentionDoneHours: 1,
      cleanupIntervalMs: 60_000,
    })
    await worker.outbox.start()
    await worker.outbox.transaction((tx) => worker.outbox.publish(tx, event('kept')))
    await worker.drain()
    await worker.advance(2 * 3_600_000)
    expect(await worker.deliveries()).toHaveLength(1)
    await keeper.outbox.start()
    await keeper.advance(120_000)
    expect(await worker.deliveries()).toEqual([])
  })

  it('with a time of its own leaves dead letters alone unless they are named', async () => {
    await using t = cleaning()
    await t.outbox.start()
    await t.outbox.transaction((tx) => t.outbox.publish(tx, { type: 'bad', payload: 1 }))
    await t.drain()
    await t.advance(1_000)
    const before = new Date(t.runtime.wallNow())
    expect(await t.outbox.operator.cleanup({ before })).toMatchObject({ dead: 0 })
    expect(await t.outbox.operator.cleanup({ before, includeDead: true })).toMatchObject({ dead: 1 })
  })

  it('[43] counts from the end of a delivery, so a late commit of an old transaction is never removed unseen', async () => {
    await using t = cleaning({ serve: [] })
    await t.outbox.start()
    const late = await t.outbox.begin()
    await late.publish(event('late'))
    await t.advance(10 * 3_600_000)
    await late.commit()
    await t.advance(10 * 3_600_000)
    expect(await t.outbox.operator.cleanup({ before: new Date(t.runtime.wallNow()) })).toMatchObject({
      done: 0,
      events: 0,
    })
    expect(t.published()).toHaveLength(1)
    const broker = recordingDestination()
    await using worker = createTestOutbox({
      database: t.database,
      clock: t.runtime as never,
      destinations: { broker: { to: broker, events: ['*'] } },
    })
    await worker.drain()
    expect(broker.accepted).toHaveLength(1)
  })

  it('[43] keeps dead ones for their own time, and those that hold a key for as long as they do', async () => {
    await using t = cleaning({
      destinations: {
        broker: { to: failingDestination({ fail: 'permanent' }), events: ['*'], deadHead: 'block' },
      },
    })
    await t.outbox.start()
    await t.outbox.transaction((tx) =>
      t.outbox.publishMany(tx, [
        event('keyless'),
        event('head', { key: 'k' }),
        event('behind', { key: 'k' }),
      ]),
    )
    await t.drain()
    await t.advance(1.9 * 3_600_000)
    expect(await t.deliveries()).toHaveLength(3)
    await t.advance(20 * 3_600_000)
    expect((await t.deliveries()).map(({ key, status }) => [key, status])).toEqual([
      ['k', 'dead'],
      ['k', expect.stringMatching(/held|pending/)],
    ])
  })
})
