/** A destination that comes late and is given what was stored before it. */
import { describe, expect, it } from 'vitest'
import { createTestOutbox, recordingDestination } from '../../src/testing/index.ts'
import { type AnyOutbox, KINDS, World } from './world.ts'

const EPOCH = new Date(0)
const act = { actor: 'alice', reason: 'the new index' }
const event = (n: number, more: object = {}) => ({
  type: 'order.placed',
  payload: n,
  key: `k${n % 2}`,
  ...more,
})

const publish = (outbox: AnyOutbox<never>, numbers: readonly number[], more: object = {}) =>
  outbox.transaction((tx) =>
    outbox.publishMany(
      tx,
      numbers.map((n) => event(n, more)),
    ),
  )

const range = (from: number, to: number): number[] => Array.from({ length: to - from }, (_, i) => from + i)

/** A process that has delivered these for a while, and one of the next release that brings `index`. */
const deployed = async (world: World, numbers: readonly number[], paused: boolean) => {
  const old = { to: recordingDestination(), events: ['*'] }
  const before = world.outbox({ destinations: { old } })
  await before.start()
  await publish(before, numbers)
  await before.flush()
  await before.close()
  const index = recordingDestination()
  const outbox = world.outbox({ destinations: { old, index: { to: index, events: ['order.*'], paused } } })
  await outbox.start()
  return { outbox, index, old: old.to }
}

const numbersAt = ({ accepted }: ReturnType<typeof recordingDestination>): number[] =>
  accepted.map((sent) => Number(sent.event.data))

describe.each(KINDS)('a back-fill on %s', (kind) => {
  it('of a destination that began paused keeps the order of everything, live events included', async () => {
    await using world = new World(kind)
    const { outbox, index, old } = await deployed(world, range(0, 6), true)
    await publish(outbox, range(6, 8))
    const done = await outbox.operator.backfill('index', { since: EPOCH }, act)
    expect(done).toEqual({ scanned: 6, added: 6, complete: true, warnings: [] })
    await publish(outbox, range(8, 10))
    await outbox.operator.resume('index')
    await outbox.flush()
    expect(numbersAt(index).filter((n) => n % 2 === 0)).toEqual([0, 2, 4, 6, 8])
    expect(numbersAt(index).filter((n) => n % 2 === 1)).toEqual([1, 3, 5, 7, 9])
    for (const sent of index.accepted) expect(sent.deduplicationId).toBe(sent.event.id)
    expect(numbersAt(old).filter((n) => n < 6)).toEqual(range(0, 6))
    const [entry] = (await outbox.inspect.audit()).filter(({ action }) => action === 'backfill')
    expect(entry).toMatchObject({ actor: 'alice', reason: 'the new index', count: 6 })
    expect(JSON.parse(entry?.target ?? '')).toEqual({
      destination: 'index',
      since: EPOCH.toISOString(),
      types: ['order.*'],
    })
  })

  it('of one that is not paused says that there is no order against live events', async () => {
    await using world = new World(kind)
    const { outbox, index } = await deployed(world, range(0, 4), false)
    const { added, warnings } = await outbox.operator.backfill('index', { since: EPOCH })
    expect([added, warnings]).toEqual([4, [expect.stringContaining('no order against live events')]])
    await outbox.flush()
    expect(numbersAt(index).sort()).toEqual(range(0, 4))
    expect(await outbox.operator.backfill('index', { since: EPOCH })).toMatchObject({
      added: 0,
      complete: true,
      warnings: [],
    })
  })

  it('can be interrupted and begun again: each event comes once', async () => {
    await using world = new World(kind)
    const { outbox, index } = await deployed(world, range(0, 9), true)
    const stop = new AbortController()
    const told: number[] = []
    const cut = await outbox.operator.backfill('index', {
      since: EPOCH,
      ratePerSecond: 3,
      signal: stop.signal,
      onProgress: ({ added, share }) => {
        told.push(added)
        expect(share).toBeGreaterThan(0)
        expect(share).toBeLessThan(1)
        stop.abort()
      },
    })
    expect([cut.added, cut.complete, told]).toEqual([3, false, [3]])
    const limited = await outbox.operator.backfill('index', { since: EPOCH, limit: 4 })
    expect([limited.added, limited.complete]).toEqual([4, false])
    expect(await outbox.operator.backfill('index', { since: EPOCH })).toMatchObject({
      added: 2,
      complete: true,
    })
    await outbox.operator.resume('index')
    await outbox.flush()
    expect(numbersAt(index).sort()).toEqual(range(0, 9))
  })

  it('by two at once adds each event once', async () => {
    await using world = new World(kind)
    const { outbox, index } = await deployed(world, range(0, 40), true)
    const other = world.outbox()
    const both = await Promise.all([
      outbox.operator.backfill('index', { since: EPOCH, ratePerSecond: 1_000_000 }),
      other.operator.backfill('index', { since: EPOCH, ratePerSecond: 7 }),
    ])
    expect(both.map(({ complete }) => complete)).toEqual([true, true])
    expect(both.reduce((sum, { added }) => sum + added, 0)).toBe(40)
    await outbox.operator.resume('index')
    await outbox.flush()
    expect(numbersAt(index).sort((a, b) => a - b)).toEqual(range(0, 40))
  })

  it('brings what is asked for and nothing that the destination does not hear', async () => {
    await using world = new World(kind)
    const { outbox } = await deployed(world, [1], true)
    const refused = { code: 'POSTHASTE_INVALID_OPTION' }
    const backfill = (options: object) => outbox.operator.backfill('index', { since: EPOCH, ...options })
    await expect(backfill({ types: ['user.created'] })).rejects.toMatchObject(refused)
    await expect(outbox.operator.backfill('nowhere', { since: EPOCH })).rejects.toMatchObject({
      code: 'POSTHASTE_NOT_FOUND',
    })
    expect(await backfill({ types: ['order.paid'] })).toMatchObject({ added: 0, complete: true })
    expect(await backfill({ until: new Date(1_000) })).toMatchObject({ added: 0, complete: true })
    const future = new Date('2999-01-01')
    expect(await outbox.operator.backfill('index', { since: future })).toMatchObject({
      added: 0,
      complete: true,
    })
    expect(await backfill({ types: ['order.placed'], until: future })).toMatchObject({ added: 1 })
    const audit = await outbox.inspect.audit()
    expect(audit.filter(({ action }) => action === 'backfill').map(({ count }) => count)).toEqual([
      1, 0, 0, 0,
    ])
  })

  it('never sends again what the destination heard live and cleanup has forgotten', async () => {
    await using world = new World(kind)
    const [broker, keeper] = [recordingDestination(), recordingDestination()]
    const released = (...events: string[]) =>
      world.outbox({
        destinations: { broker: { to: broker, events }, keeper: { to: keeper, events: ['*'], paused: true } },
      })
    const before = released('order.*')
    await before.start()
    await publish(before, [1, 2])
    await publish(before, [3], { type: 'user.created' })
    await world.until(() => broker.accepted.length === 2)
    await before.processOnce()
    await before.operator.cleanup({ before: new Date(Date.now() + 60_000) })
    expect((await before.inspect.list({ destination: 'broker' })).deliveries).toEqual([])
    await before.close()
    // A new pattern makes the destination younger than its first events, and these it has heard all the same.
    const outbox = released('order.*', 'user.*')
    await outbox.start()
    expect(await outbox.operator.backfill('broker', { since: EPOCH })).toMatchObject({
      scanned: 3,
      added: 1,
      complete: true,
    })
    await world.until(() => broker.accepted.length === 3)
    expect(numbersAt(broker).sort()).toEqual([1, 2, 3])
  })
})

describe('a back-fill', () => {
  it('keeps its pace', async () => {
    await using t = createTestOutbox({ destinations: { old: { to: recordingDestination(), events: ['*'] } } })
    await t.outbox.start()
    await publish(t.outbox as never, range(0, 10))
    await t.drain()
    await using next = createTestOutbox({
      database: t.database,
      clock: t.runtime as never,
      destinations: { index: { to: recordingDestination(), events: ['*'], paused: true } },
    })
    await next.outbox.start()
    const done = next.outbox.operator.backfill('index', { since: EPOCH, ratePerSecond: 2 })
    const added = async (): Promise<number> =>
      (await next.outbox.inspect.counts()).find(({ destination }) => destination === 'index')?.counts
        .pending ?? 0
    await next.advance(500)
    expect(await added()).toBe(2)
    await next.advance(2_000)
    expect(await added()).toBe(6)
    await next.advance(60_000)
    expect(await done).toMatchObject({ added: 10, complete: true })
  })

  it('does not call itself complete while an older transaction is open, and finds its event later', async () => {
    await using t = createTestOutbox({ destinations: { old: { to: recordingDestination(), events: ['*'] } } })
    await t.outbox.start()
    await publish(t.outbox as never, [0])
    const late = await t.outbox.begin()
    await late.publish(event(1))
    await publish(t.outbox as never, [2])
    await using next = createTestOutbox({
      database: t.database,
      clock: t.runtime as never,
      destinations: { index: { to: recordingDestination(), events: ['*'], paused: true } },
    })
    await next.outbox.start()
    const first = next.outbox.operator.backfill('index', { since: EPOCH })
    await next.advance(30_000)
    expect(await first).toMatchObject({
      added: 2,
      complete: false,
      warnings: [expect.stringContaining('run this again later')],
    })
    const second = next.outbox.operator.backfill('index', { since: EPOCH })
    await next.advance(600)
    await late.commit()
    await next.advance(30_000)
    expect(await second).toMatchObject({ added: 1, complete: true, warnings: [] })
  })

  it('of a pattern that came later brings what is older than that pattern alone', async () => {
    const broker = recordingDestination()
    await using t = createTestOutbox({ destinations: { index: { to: broker, events: ['order.*'] } } })
    await t.outbox.start()
    const both = (n: number) => [event(n), event(n + 1, { type: 'user.created' })]
    await t.outbox.transaction((tx) => t.outbox.publishMany(tx, both(0)))
    await t.drain()
    await t.outbox.stop()
    await using next = createTestOutbox({
      database: t.database,
      clock: t.runtime as never,
      destinations: { index: { to: broker, events: ['order.*', 'user.*'] } },
    })
    await next.outbox.start()
    await next.outbox.transaction((tx) => next.outbox.publishMany(tx, both(2)))
    await next.drain()
    const done = next.outbox.operator.backfill('index', { since: EPOCH })
    await next.advance(10_000)
    expect(await done).toMatchObject({ added: 1, complete: true })
    await next.drain()
    expect(numbersAt(broker).sort()).toEqual([0, 1, 2, 3])
  })
})
