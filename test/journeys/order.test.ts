/** Order per key: through failures, policies for dead heads, held rows, late commits and restarts. */
import { describe, expect, it } from 'vitest'
import { SWEEP_LIMIT } from '../../src/core/flow/poller.ts'
import { fixed, type OutgoingDelivery } from '../../src/index.ts'
import {
  checkInvariants,
  createTestOutbox,
  failingDestination,
  recordingDestination,
  type ScriptedDestination,
} from '../../src/testing/index.ts'
import { gate, KINDS, World } from './world.ts'

const event = (payload: unknown, key: string | null = 'k', more: object = {}) => ({
  type: payload === 'bad' ? 'bad' : 'good',
  payload,
  key,
  ...more,
})
const payloadsOf = (deliveries: readonly OutgoingDelivery[]) =>
  deliveries.map((sent) => JSON.parse(sent.event.data as string) as unknown)

const withPolicy = (deadHead: 'skip' | 'block' | 'park', to: ScriptedDestination) =>
  createTestOutbox({
    destinations: {
      broker: { to, events: ['*'], deadHead, retry: fixed({ delayMs: 1_000, maxAttempts: 2 }) },
    },
  })
type Test = ReturnType<typeof withPolicy>

const publish = (t: Test, ...payloads: unknown[]) =>
  t.outbox.transaction((tx) =>
    t.outbox.publishMany(
      tx,
      payloads.map((payload) => event(payload)),
    ),
  )
const statuses = async (t: Test) => (await t.deliveries()).map(({ status }) => status)

describe('the head of a key fails', () => {
  it('everything behind it waits until it is through, across reads and restarts', async () => {
    const broker = failingDestination({ events: 'bad', times: 1 })
    await using t = withPolicy('skip', broker)
    await t.outbox.start()
    await publish(t, 'bad', 1, 2)
    await t.drain()
    await publish(t, 3)
    await t.drain()
    expect(payloadsOf(broker.received)).toEqual(['bad'])
    expect(checkInvariants(t.database)).toEqual([])
    await t.outbox.stop()
    await t.outbox.start()
    await t.advance(1_000)
    await t.drain()
    expect(payloadsOf(broker.accepted)).toEqual(['bad', 1, 2, 3])
  })

  it('rows behind it are held in the database and promoted in order when it settles', async () => {
    const broker = failingDestination({ events: 'bad', times: 1 })
    await using t = withPolicy('skip', broker)
    await t.outbox.start()
    await publish(t, 'bad', ...Array.from({ length: 250 }, (_, n) => n))
    await t.drain()
    const during = await statuses(t)
    expect(during[0]).toBe('retry')
    expect(new Set(during.slice(1))).toEqual(new Set(['held']))
    await t.drain({ untilIdle: true })
    expect(payloadsOf(broker.accepted)).toEqual(['bad', ...Array.from({ length: 250 }, (_, n) => n)])
  })

  it('other keys and keyless events go on', async () => {
    const broker = failingDestination({ events: 'bad' })
    await using t = withPolicy('block', broker)
    await t.outbox.start()
    await t.outbox.transaction((tx) =>
      t.outbox.publishMany(tx, [event('bad'), event(1), event(2, 'other'), event(3, null)]),
    )
    await t.drain()
    expect(payloadsOf(broker.accepted).sort()).toEqual([2, 3])
  })
})

describe('a dead head', () => {
  it('[24] is put aside by policy skip, and its key goes on', async () => {
    const broker = failingDestination({ events: 'bad' })
    await using t = withPolicy('skip', broker)
    await t.outbox.start()
    await publish(t, 'bad', 1, 2)
    await t.drain({ untilIdle: true })
    expect(payloadsOf(broker.accepted)).toEqual([1, 2])
    expect(await statuses(t)).toEqual(['dead', 'done', 'done'])
  })

  it.each(['block', 'park'] as const)(
    '[24] keeps its key waiting by policy %s until an operator redrives it; then all goes in order',
    async (policy) => {
      const broker = failingDestination({ events: 'bad' })
      await using t = withPolicy(policy, broker)
      await t.outbox.start()
      await publish(t, 'bad', 1, 2)
      await t.drain({ untilIdle: true })
      await publish(t, 3)
      await t.advance(600_000)
      expect(payloadsOf(broker.accepted)).toEqual([])
      expect((await statuses(t))[0]).toBe('dead')
      const [blocked] = await t.outbox.inspect.blockedKeys({ limit: 10 })
      expect(blocked).toMatchObject({ destination: 'broker', key: 'k', headStatus: 'dead', waiting: 3 })
      broker.script({ fail: 'never' })
      expect(await t.outbox.operator.redrive({ destination: 'broker', key: 'k' })).toBe(1)
      await t.drain({ untilIdle: true })
      expect(payloadsOf(broker.accepted)).toEqual(['bad', 1, 2, 3])
      expect(broker.accepted[0]).toMatchObject({ run: 2, attempt: 1 })
      expect(broker.accepted[0]?.deduplicationId).toBe(`${broker.accepted[0]?.event.id}:2`)
    },
  )

  it.each(['block', 'park'] as const)(
    '[24] of policy %s lets its key go when it is discarded',
    async (policy) => {
      const broker = failingDestination({ events: 'bad' })
      await using t = withPolicy(policy, broker)
      await t.outbox.start()
      await publish(t, 'bad', 1, 2)
      await t.drain({ untilIdle: true })
      const [dead] = (await t.deliveries()).filter(({ status }) => status === 'dead')
      await t.outbox.operator.discard({ deliveryIds: [dead?.id as string] })
      await t.drain({ untilIdle: true })
      expect(payloadsOf(broker.accepted)).toEqual([1, 2])
      expect(await statuses(t)).toEqual(['discarded', 'done', 'done'])
    },
  )

  it('[24] that dies again after a redrive keeps its key waiting again', async () => {
    const broker = failingDestination({ events: 'bad', fail: 'permanent' })
    await using t = withPolicy('block', broker)
    await t.outbox.start()
    await publish(t, 'bad', 1)
    await t.drain()
    await t.outbox.operator.redrive({ key: 'k' })
    await t.drain({ untilIdle: true })
    expect(payloadsOf(broker.accepted)).toEqual([])
    await t.outbox.operator.discard({ key: 'k', type: 'bad' })
    await t.drain({ untilIdle: true })
    expect(payloadsOf(broker.accepted)).toEqual([1])
  })

  it('several dead of one key are redriven in their old order', async () => {
    const broker = failingDestination({ fail: 'permanent' })
    await using t = withPolicy('skip', broker)
    await t.outbox.start()
    await publish(t, 1, 2, 3)
    await t.drain()
    expect(await statuses(t)).toEqual(['dead', 'dead', 'dead'])
    broker.script({ fail: 'never' })
    expect(await t.outbox.operator.redrive({ key: 'k' })).toBe(3)
    await t.drain()
    expect(payloadsOf(broker.accepted)).toEqual([1, 2, 3])
  })

  it('blocked keys are not part of the lag, parked or not yet due rows neither', async () => {
    const broker = failingDestination({ events: 'bad' })
    await using t = withPolicy('park', broker)
    await t.outbox.start()
    await publish(t, 'bad', 1)
    await t.drain({ untilIdle: true })
    await t.advance(3_600_000)
    const [counts] = (await t.outbox.inspect.counts()).filter(({ destination }) => destination === 'broker')
    expect(counts?.oldestLagMs).toBeNull()
  })
})

describe('a batch that keeps the order', () => {
  it('carries several of one key, and resumes at the first that failed', async () => {
    const broker = failingDestination({ events: 'bad', times: 1, orderedPrefix: true, maxBatch: 10 })
    await using t = withPolicy('skip', broker)
    const publishAll = publish(t, 1, 'bad', 2, 3)
    await publishAll
    await t.outbox.start()
    await t.drain({ untilIdle: true })
    expect(payloadsOf(broker.accepted)).toEqual([1, 'bad', 2, 3])
    expect(Math.max(...broker.sends.map((batch) => batch.length))).toBeGreaterThan(1)
  })
})

describe('a commit that comes late', () => {
  it('[1] is delivered although higher numbers were read before it became visible', async () => {
    const broker = recordingDestination()
    await using t = withPolicy('skip', broker)
    await t.outbox.start()
    const late = await t.outbox.begin()
    await late.publish(event('late', null))
    for (let n = 0; n < 5; n += 1) {
      await t.outbox.transaction((tx) => t.outbox.publish(tx, event(n, null)))
      await t.advance(1_000)
    }
    expect(payloadsOf(broker.accepted)).toEqual([0, 1, 2, 3, 4])
    await late.commit()
    await t.drain()
    expect(payloadsOf(broker.accepted)).toEqual([0, 1, 2, 3, 4, 'late'])
  })

  it('[1] of another process is found behind the cursor by the sweep', async () => {
    const broker = recordingDestination()
    await using worker = withPolicy('skip', broker)
    await using writer = createTestOutbox({ database: worker.database, clock: worker.runtime as never })
    await worker.outbox.start()
    const late = await writer.outbox.begin()
    await late.publish(event('late', null))
    await writer.outbox.transaction((tx) => writer.outbox.publish(tx, event('early', null)))
    await worker.advance(5_000)
    expect(payloadsOf(broker.accepted)).toEqual(['early'])
    await late.commit()
    await worker.advance(5_000)
    expect(payloadsOf(broker.accepted)).toEqual(['early', 'late'])
  })

  it('[1] of a key is not overtaken by an event that was published after it committed', async () => {
    const broker = recordingDestination()
    await using worker = withPolicy('skip', broker)
    await using writer = createTestOutbox({ database: worker.database, clock: worker.runtime as never })
    await worker.outbox.start()
    const unrelated = await writer.outbox.begin()
    const first = await writer.outbox.begin()
    await first.publish(event('e1'))
    await unrelated.publish(event('other', null))
    await unrelated.commit()
    await worker.advance(5_000)
    await first.commit()
    await writer.outbox.transaction((tx) => writer.outbox.publish(tx, event('e2')))
    await worker.advance(5_000)
    expect(payloadsOf(broker.accepted)).toEqual(['other', 'e1', 'e2'])
  })

  it('[1] is not overtaken in its key behind more rows in flight than a sweep lists by itself', async () => {
    const held = gate()
    const heard: unknown[] = []
    await using worker = createTestOutbox({
      destinations: { sink: { events: ['*'], concurrency: 1 } },
      coldQueueCapacity: 10_000,
    })
    worker.outbox.on('sink', '*', async ({ payload }) => {
      heard.push(payload)
      await held.promise
    })
    await using writer = createTestOutbox({ database: worker.database, clock: worker.runtime as never })
    await worker.outbox.start()
    const crowd = Array.from({ length: SWEEP_LIMIT + 500 }, (_, n) => event(n, `other ${n % 50}`))
    await writer.outbox.transaction((tx) => writer.outbox.publishMany(tx, crowd))
    const first = await writer.outbox.begin()
    await first.publish(event('e1'))
    await writer.outbox.transaction((tx) => writer.outbox.publish(tx, event('last', 'other')))
    await worker.advance(5_000)
    await first.commit()
    await writer.outbox.transaction((tx) => writer.outbox.publish(tx, event('e2')))
    await worker.advance(5_000)
    held.open()
    await worker.drain()
    expect(heard).toHaveLength(crowd.length + 3)
    expect(heard.filter((payload) => payload === 'e1' || payload === 'e2')).toEqual(['e1', 'e2'])
  })
})

describe.each(KINDS)('many workers on %s', (kind) => {
  it('keep the order of every key while lanes change hands', async () => {
    await using world = new World(kind)
    const seen: { key: string; n: number }[] = []
    const create = () => {
      const outbox = world.outbox({
        destinations: { sink: { events: ['*'] } },
        pollIntervalMs: 10,
        laneLeaseMs: 1_000,
      })
      outbox.on<{ n: number }>('sink', '*', async ({ key, payload }) => {
        await new Promise((resolve) => setImmediate(resolve))
        seen.push({ key: key as string, n: payload.n })
        world.ring()
      })
      return outbox
    }
    const first = create()
    await first.start()
    const keys = ['a', 'b', 'c', 'd', 'e']
    const perKey = 20
    const writing = gate()
    void (async () => {
      for (let n = 0; n < perKey; n += 1) {
        await first.transaction((tx) =>
          first.publishMany(
            tx,
            keys.map((key) => ({ type: 'tick', payload: { n }, key })),
          ),
        )
      }
      writing.open()
    })()
    const others = [create(), create()]
    for (const other of others) await other.start()
    await writing.promise
    await world.until(() => seen.length >= keys.length * perKey)
    for (const key of keys) {
      const order = seen.filter((one) => one.key === key).map(({ n }) => n)
      expect(order, key).toEqual(Array.from({ length: perKey }, (_, n) => n))
    }
  })
})
