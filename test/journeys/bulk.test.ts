/** Acts on many deliveries: tried without doing anything, spread over time, told about, interrupted. */
import { describe, expect, it } from 'vitest'
import { createTestOutbox, failingDestination, recordingDestination } from '../../src/testing/index.ts'
import { KINDS, World } from './world.ts'

const event = (n: number, more: object = {}) => ({ type: 'order.placed', payload: n, ...more })
const many = (count: number, more: object = {}) => Array.from({ length: count }, (_, n) => event(n, more))

describe.each(KINDS)('an operator with many deliveries on %s', (kind) => {
  it('tries first what an act would do; nothing changes and nothing is recorded', async () => {
    await using world = new World(kind)
    const broker = failingDestination({ events: 'bad', fail: 'permanent' })
    const other = recordingDestination()
    const outbox = world.outbox({
      destinations: { broker: { to: broker, events: ['*'] }, other: { to: other, events: ['*'] } },
    })
    await outbox.start()
    const since = new Date(Date.now() - 60_000)
    await outbox.transaction((tx) => outbox.publishMany(tx, [...many(3), ...many(2, { type: 'bad' })]))
    await outbox.flush()
    const dry = { dryRun: true }
    const { operator } = outbox
    expect(await operator.redrive({ destination: 'broker' }, dry)).toBe(2)
    expect(await operator.discard({ destination: 'broker' }, dry)).toBe(2)
    expect(await operator.replay({ destination: 'broker', since }, dry)).toBe(3)
    expect(await operator.replay({ destination: 'other', type: 'bad', since }, dry)).toBe(2)
    expect(await operator.replay({ destination: 'broker', until: since }, dry)).toBe(0)
    expect(await outbox.inspect.audit()).toEqual([])
    expect(
      await operator.replay({ destination: 'broker', since, until: new Date(Date.now() + 60_000) }),
    ).toBe(3)
    await outbox.flush()
    expect([broker.accepted.length, other.accepted.length]).toEqual([6, 5])
  })

  it('finds what died of the same reason together, and sends it again together', async () => {
    await using world = new World(kind)
    const broker = failingDestination({
      fail: ({ event: { data } }) =>
        Number(data) < 3
          ? Object.assign(new Error(`customer ${data} is unknown`), { code: 'E_CUSTOMER' })
          : new Error('"amount" is missing'),
    })
    const { fixed } = await import('../../src/index.ts')
    const outbox = world.outbox({
      destinations: { broker: { to: broker, events: ['*'], retry: fixed({ delayMs: 1, maxAttempts: 1 }) } },
    })
    await outbox.start()
    await outbox.transaction((tx) => outbox.publishMany(tx, many(5)))
    await world.until(async () => (await outbox.inspect.counts())[0]?.counts.dead === 5)
    const { groups, scanned, more } = await outbox.inspect.deadGroups({ destination: 'broker' })
    expect([scanned, more]).toEqual([5, false])
    expect(groups.map(({ count, reason, type }) => [count, reason, type])).toEqual([
      [3, 'customer <n> is unknown', 'order.placed'],
      [2, '<value> is missing', 'order.placed'],
    ])
    expect(new Set(groups.map(({ fingerprint }) => fingerprint)).size).toBe(2)
    broker.script({ fail: 'never' })
    const [first] = groups
    expect(await outbox.operator.redrive({ deliveryIds: first?.deliveryIds ?? [] })).toBe(3)
    await outbox.flush()
    expect(broker.accepted.map((sent) => Number(sent.event.data)).sort()).toEqual([0, 1, 2])
    expect((await outbox.inspect.deadGroups({ limit: 1 })).more).toBe(true)
    const lanes = await outbox.inspect.lanes({ destination: 'broker' })
    const [worker] = await outbox.inspect.workers()
    expect(lanes).toHaveLength(64)
    expect(new Set(lanes.map(({ workerId }) => workerId))).toEqual(new Set([worker?.workerId]))
  })
})

describe('an act at a pace', () => {
  it('[64][65] spreads a replay over time, and replays nothing twice', async () => {
    const broker = recordingDestination()
    await using t = createTestOutbox({ destinations: { broker: { to: broker, events: ['*'] } } })
    await t.outbox.start()
    await t.outbox.transaction((tx) => t.outbox.publishMany(tx, many(6)))
    await t.drain()
    const told: [number, number][] = []
    const replayed = t.outbox.operator.replay(
      { destination: 'broker' },
      { ratePerSecond: 2, onProgress: ({ done, total }) => told.push([done, total]) },
    )
    await t.advance(500)
    expect(broker.accepted).toHaveLength(8)
    await t.advance(60_000)
    expect(await replayed).toBe(6)
    expect(broker.accepted).toHaveLength(12)
    expect(broker.accepted.map(({ run }) => run).sort()).toEqual([...Array(6).fill(1), ...Array(6).fill(2)])
    expect(told).toEqual([
      [2, 6],
      [4, 6],
      [6, 6],
    ])
    const audit = await t.outbox.inspect.audit()
    expect(audit.map(({ action, count }) => [action, count])).toEqual([
      ['replay', 2],
      ['replay', 2],
      ['replay', 2],
    ])
    expect(JSON.parse(audit[0]?.target ?? '')).toMatchObject({ destination: 'broker' })
  })

  it('ends when it is told to; what is done stays done', async () => {
    const broker = recordingDestination()
    await using t = createTestOutbox({
      destinations: { broker: { to: broker, events: ['*'], paused: true } },
    })
    await t.outbox.start()
    await t.outbox.transaction((tx) => t.outbox.publishMany(tx, many(6)))
    const stop = new AbortController()
    const discarded = t.outbox.operator.discard(
      { destination: 'broker' },
      { ratePerSecond: 1, signal: stop.signal },
    )
    await t.advance(1_500)
    stop.abort()
    expect(await discarded).toBe(2)
    expect(await t.outbox.operator.discard({ destination: 'broker' }, { signal: stop.signal })).toBe(0)
    expect((await t.deliveries()).filter(({ status }) => status === 'discarded')).toHaveLength(2)
  })
})
