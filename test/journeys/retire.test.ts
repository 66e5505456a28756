/** A destination that goes: while it is registered it collects deliveries, and an operator ends that. */
import { describe, expect, it } from 'vitest'
import { createTestOutbox, failingDestination, recordingDestination } from '../../src/testing/index.ts'
import { KINDS, publishOne, World } from './world.ts'

const event = (more: object = {}) => ({ type: 'order.placed', payload: {}, ...more })
const act = { actor: 'alice', reason: 'the index is gone' }

/** Both destinations are registered, and nobody serves `search`: its process is gone, with a dead letter and more that wait. */
const leftBehind = async (world: World, waiting = 3) => {
  const before = world.outbox({
    destinations: {
      broker: { to: recordingDestination(), events: ['*'] },
      search: { to: failingDestination({ fail: 'permanent' }), events: ['order.*'] },
    },
  })
  await publishOne(before, event())
  await before.processOnce()
  await before.close()
  const broker = recordingDestination()
  const outbox = world.outbox({ destinations: { broker: { to: broker, events: ['*'] } } })
  await outbox.start()
  for (let n = 0; n < waiting; n += 1)
    await publishOne(outbox, event(n === 0 ? { delayMs: 60_000 } : { key: 'k' }))
  return { outbox, broker }
}

describe.each(KINDS)('a destination that is retired on %s', (kind) => {
  it('was collecting deliveries, and loses them, its dead letters, and all that comes', async () => {
    await using world = new World(kind)
    const { outbox, broker } = await leftBehind(world)
    const left = async () => (await outbox.inspect.list({ destination: 'search' })).deliveries
    expect((await left()).map(({ status }) => status).sort()).toEqual([
      'dead',
      'pending',
      'pending',
      'scheduled',
    ])
    expect(await outbox.operator.retire('search', { dryRun: true })).toEqual({ discarded: 4, left: 4 })
    expect((await left()).some(({ status }) => status === 'discarded')).toBe(false)
    expect(await outbox.inspect.audit()).toEqual([])

    expect(await outbox.operator.retire('search', act)).toEqual({ discarded: 4, left: 0 })
    expect((await left()).every(({ status }) => status === 'discarded')).toBe(true)
    expect(
      (await outbox.inspect.audit()).map(({ actor, action, reason, count }) => [
        actor,
        action,
        reason,
        count,
      ]),
    ).toEqual([
      ['alice', 'discard', act.reason, 4],
      ['alice', 'retire', act.reason, 1],
    ])
    expect((await outbox.inspect.destinations()).find(({ name }) => name === 'search')?.patterns).toEqual([])

    const { length } = broker.accepted
    await publishOne(outbox, event())
    await outbox.flush()
    await outbox.operator.cleanup()
    expect(broker.accepted.length).toBeGreaterThan(length)
    expect(await left()).toHaveLength(4)
    expect(await outbox.operator.retire('search', act)).toEqual({ discarded: 0, left: 0 })
  })

  it('is not routed to by a process that only writes, nor when others expand for it', async () => {
    await using world = new World(kind)
    const { outbox } = await leftBehind(world, 0)
    await outbox.operator.retire('search', act)
    const writer = world.outbox()
    const id = await publishOne(writer, event())
    await outbox.flush()
    const detail = await outbox.inspect.event(id)
    expect(detail?.deliveries.map(({ destination }) => destination)).toEqual(['broker'])
  })

  it('is given up in steps that can be watched and stopped, and is finished by a second call', async () => {
    await using world = new World(kind)
    const { outbox } = await leftBehind(world, 0)
    await outbox.transaction((tx) =>
      outbox.publishMany(
        tx,
        Array.from({ length: 450 }, () => event()),
      ),
    )
    const stop = new AbortController()
    const seen: number[] = []
    const stopped = await outbox.operator.retire('search', {
      ...act,
      signal: stop.signal,
      onProgress: ({ done, total }) => {
        seen.push(done, total)
        stop.abort()
      },
    })
    expect([stopped.discarded, stopped.left, ...seen]).toEqual([200, 251, 200, 451])
    expect(await outbox.operator.retire('search', act)).toEqual({ discarded: 251, left: 0 })
  })

  it('is refused while a live process serves it, and when nobody ever declared it', async () => {
    await using world = new World(kind)
    const outbox = world.outbox({
      destinations: { search: { to: recordingDestination(), events: ['*'] } },
    })
    await outbox.start()
    const [worker] = await outbox.inspect.workers()
    for (const more of [{}, { dryRun: true }])
      await expect(outbox.operator.retire('search', { ...act, ...more })).rejects.toMatchObject({
        code: 'POSTHASTE_CONFLICT',
        message: expect.stringContaining(`"search" is served by ${worker?.name}: deploy without it first`),
      })
    await expect(outbox.operator.retire('serch', act)).rejects.toMatchObject({
      code: 'POSTHASTE_NOT_FOUND',
      message: expect.stringContaining('there is no destination "serch"; registered are: search.'),
    })
    expect((await outbox.inspect.destinations())[0]?.patterns).toEqual(['*'])
    expect(await outbox.inspect.audit()).toEqual([])
  })

  it('hears again from the moment on in which it is declared again, and is not back-filled before', async () => {
    await using world = new World(kind)
    const { outbox } = await leftBehind(world, 1)
    await outbox.operator.retire('search', act)
    await publishOne(outbox, event())
    await expect(
      outbox.operator.backfill('search', { since: new Date(Date.now() - 3_600_000) }),
    ).rejects.toMatchObject({ code: 'POSTHASTE_CONFLICT' })

    const search = recordingDestination()
    const back = world.outbox({ destinations: { search: { to: search, events: ['order.*'] } } })
    await back.start()
    const id = await publishOne(back, event())
    await back.flush()
    await back.operator.cleanup()
    await back.flush()
    expect(search.accepted.map(({ event: { id: heard } }) => heard)).toEqual([id])
  })
})

describe('a destination that is retired while a process serves it, which was starting or seemed to be gone', () => {
  const search = { to: recordingDestination(), events: ['order.*'] }
  const gone = [{ name: 'search', patterns: [] }]

  it('is brought back by that process', async () => {
    await using t = createTestOutbox({ destinations: { search } })
    await t.outbox.start()
    await t.store.registry.declare(gone)
    await t.advance(20_000)
    expect((await t.outbox.inspect.destinations()).map(({ patterns }) => patterns)).toEqual([['order.*']])
  })

  it('is not brought back by one that leaves it to others', async () => {
    await using t = createTestOutbox({
      destinations: { search, broker: { to: recordingDestination(), events: ['*'] } },
      serve: ['broker'],
    })
    await t.outbox.start()
    await t.store.registry.declare(gone)
    await t.advance(20_000)
    const { patterns } = (await t.outbox.inspect.destinations()).find(({ name }) => name === 'search') ?? {}
    expect(patterns).toEqual([])
  })
})
