import { describe, expect, it } from 'vitest'
import { createMemoryDatabase, memoryStore } from '../../stores/memory/index.ts'
import { createFakeRuntime } from '../../testing/fake-runtime.ts'
import type { Delivery } from '../model/delivery.ts'
import { createOutbox } from '../outbox.ts'
import { fixed } from '../policy/retry.ts'
import { SILENT_LOGGER } from '../runtime/logger.ts'
import { NOOP_METRICS } from '../runtime/metrics.ts'
import type { Metrics, ReadRequest, Settlement } from '../spi/index.ts'
import { DestinationFlow, type DestinationParts } from './destination-flow.ts'
import type { HotDelivery } from './hot-intake.ts'
import type { Settled } from './settle.ts'

/** With so much of its surroundings as its parts ask for here. */
const flowOf = (paused: boolean, parts: object = {}): DestinationFlow =>
  new DestinationFlow({
    destination: { name: 'x', to: { send: async () => [] }, breaker: {}, ratePerSecond: null, paused },
    options: { hotQueueCapacity: 10, coldQueueCapacity: 10, queueBytes: 1_000, pollIntervalMs: 1_000 },
    runtime: createFakeRuntime(),
    logger: SILENT_LOGGER,
    metrics: NOOP_METRICS,
    ...parts,
  } as unknown as DestinationParts)

describe('keyed events right after their commit', () => {
  it('are not claimed when their lane went while they waited', async () => {
    const claimed: (readonly string[])[] = []
    const claim = async (_worker: string, ids: readonly string[]) => {
      claimed.push(ids)
      return []
    }
    const ours = new Set([1, 2])
    const flow = flowOf(false, {
      store: { queue: { claim } },
      lanes: { workerId: 'w', owns: (_destination: string, lane: number) => ours.has(lane) },
    })
    const hot = (id: string, lane: number) => ({ id, lane, token: null, event: { key: id } }) as HotDelivery
    flow.offer(hot('kept', 1))
    flow.offer(hot('lost', 2))
    ours.delete(2)
    await new Promise((resolve) => setImmediate(resolve))
    expect(claimed).toEqual([['kept']])
  })
})

describe('a lane that is to be given up', () => {
  it('is busy until suspects that waited in it are given back: their tokens would be taken for new suspicions', () => {
    const written: ((settled: Settled) => void)[] = []
    const given: Settlement[] = []
    const flow = flowOf(true, {
      settler: {
        add: (settlement: Settlement, done: (settled: Settled) => void) => {
          given.push(settlement)
          written.push(done)
        },
      },
      metrics: new Proxy({}, { get: () => () => undefined }) as Metrics,
      ended: () => undefined,
    })
    const waiting = (id: string, suspected: boolean) =>
      ({
        id,
        lane: 7,
        suspected,
        source: 'cold',
        right: { kind: 'lane', workerId: 'w' },
        event: { key: null, size: 1 },
      }) as unknown as Delivery
    flow.dispatcher.enqueueCold(waiting('plain', false))
    flow.dispatcher.enqueueCold(waiting('suspected', true))
    expect(flow.isBusy(7)).toBe(true)
    expect(given.map(({ delivery, outcome }) => [delivery.id, outcome.kind])).toEqual([
      ['suspected', 'released'],
    ])
    for (const done of written) done('written')
    expect(flow.isBusy(7)).toBe(false)
    expect(given).toHaveLength(1)
  })
})

describe('a claim that was lost', () => {
  const waiting = (source: 'hot' | 'cold', right: Delivery['right']): Delivery =>
    ({ id: 'd', lane: 7, source, right, event: { key: null, size: 1 } }) as unknown as Delivery

  it.each([
    ['takes its delivery along', 'hot', { kind: 'token', token: 't' }, 0],
    ['leaves what a poll brought meanwhile', 'cold', { kind: 'lane', workerId: 'w' }, 1],
  ] as const)('%s', (_, source, right, left) => {
    const flow = flowOf(true)
    flow.dispatcher.queues.offer(waiting(source, right as Delivery['right']))
    flow.claimLost('another')
    expect(flow.dispatcher.queues.size).toBe(1)
    flow.claimLost('d')
    expect(flow.dispatcher.queues.size).toBe(left)
  })
})

/** A promise, and what ends it. */
const gate = () => {
  let open: () => void = () => undefined
  const opened = new Promise<void>((resolve) => {
    open = resolve
  })
  return { opened, open }
}

describe('a read from before the head of a key failed', () => {
  it('says nothing about what was behind that head, also when the failure comes while rows are admitted', async () => {
    const database = createMemoryDatabase()
    const store = memoryStore({ database })
    const { read, hold, settle } = store.queue
    const [admitting, goOn, settled, readAgain] = [gate(), gate(), gate(), gate()]
    let isHeld = false
    Object.assign(store.queue, {
      read: async (request: ReadRequest) => {
        const result = await read.call(store.queue, request)
        if (isHeld) readAgain.open()
        const row = result.fresh.find(({ event }) => event?.type === 'behind')
        if (row === undefined || isHeld) return result
        // A row of another key that must be put aside first, which takes a while.
        return { ...result, fresh: [...result.fresh, { ...row, id: 'another', key: 'l', behind: true }] }
      },
      hold: async (workerId: string, destination: string, ids: readonly string[]) => {
        if (!ids.includes('another')) return await hold.call(store.queue, workerId, destination, ids)
        isHeld = true
        admitting.open()
        await goOn.opened
        return ids
      },
      settle: async (...args: Parameters<typeof settle>) => {
        const result = await settle.apply(store.queue, args)
        settled.open()
        return result
      },
    })
    const sent: string[] = []
    const fail = gate()
    const outbox = createOutbox({
      store,
      logger: SILENT_LOGGER,
      pollIntervalMs: 10,
      destinations: {
        x: {
          events: ['*'],
          retry: fixed({ delayMs: 3_600_000 }),
          to: {
            async send([delivery]) {
              sent.push(delivery?.event.type ?? '')
              await fail.opened
              return [{ ok: false, error: new Error('refused') }]
            },
          },
        },
      },
    })
    // In another process, so that only a read can bring it here.
    const other = createOutbox({ store: memoryStore({ database }), logger: SILENT_LOGGER, serve: [] })
    await outbox.start()
    await other.start()
    try {
      await outbox.transaction((tx) => outbox.publish(tx, { type: 'head', payload: 1, key: 'k' }))
      await other.transaction((tx) => other.publish(tx, { type: 'behind', payload: 2, key: 'k' }))
      await admitting.opened
      fail.open()
      await settled.opened
      await new Promise((resolve) => setImmediate(resolve))
      goOn.open()
      await readAgain.opened
      expect(sent).toEqual(['head'])
    } finally {
      await outbox.close()
      await other.close()
    }
  })
})

/** Its head fails once, and the second time it ends when it is told to. */
const outboxWithSlowHead = (
  store: ReturnType<typeof memoryStore>,
  sent: string[],
  again: ReturnType<typeof gate>,
  endHead: ReturnType<typeof gate>,
) =>
  createOutbox({
    store,
    logger: SILENT_LOGGER,
    pollIntervalMs: 10,
    destinations: {
      x: {
        events: ['*'],
        retry: fixed({ delayMs: 1 }),
        to: {
          async send([delivery]) {
            sent.push(delivery?.event.type ?? '')
            if (sent.length === 1) return [{ ok: false, error: new Error('once') }]
            if (sent.length === 2) {
              again.open()
              await endHead.opened
            }
            return [{ ok: true }]
          },
        },
      },
    },
  })

describe('a row that the database is told to keep behind its head', () => {
  it('is not sent from memory meanwhile, even if its head ends', async () => {
    const store = memoryStore({ database: createMemoryDatabase() })
    const { claim, hold, settle } = store.queue
    const [again, endHead, ended] = [gate(), gate(), gate()]
    const [claimed, takeClaimed, holding, goOn] = [gate(), gate(), gate(), gate()]
    let behindId = ''
    Object.assign(store.queue, {
      claim: async (...args: Parameters<typeof claim>) => {
        const heads = await claim.apply(store.queue, args)
        if (sent.length < 2) return heads
        behindId = args[1][0] ?? ''
        claimed.open()
        await takeClaimed.opened
        return heads
      },
      hold: async (...args: Parameters<typeof hold>) => {
        if (args[2].includes(behindId)) {
          holding.open()
          await goOn.opened
        }
        return await hold.apply(store.queue, args)
      },
      settle: async (...args: Parameters<typeof settle>) => {
        const result = await settle.apply(store.queue, args)
        if (sent.length >= 2) ended.open()
        return result
      },
    })
    const sent: string[] = []
    const outbox = outboxWithSlowHead(store, sent, again, endHead)
    await outbox.start()
    try {
      await outbox.transaction((tx) => outbox.publish(tx, { type: 'head', payload: 1, key: 'k' }))
      await again.opened
      await outbox.transaction((tx) => outbox.publish(tx, { type: 'behind', payload: 2, key: 'k' }))
      await claimed.opened
      await holding.opened
      takeClaimed.open()
      endHead.open()
      await ended.opened
      await new Promise((resolve) => setImmediate(resolve))
      expect(sent).toEqual(['head', 'head'])
      goOn.open()
      while (sent.length < 3) await new Promise((resolve) => setImmediate(resolve))
      expect(sent).toEqual(['head', 'head', 'behind'])
    } finally {
      await outbox.close()
    }
  })

  it('is not sent from memory either when it was claimed before, and the claim answers afterwards', async () => {
    const store = memoryStore({ database: createMemoryDatabase() })
    const { claim, hold, settle } = store.queue
    const [again, endHead, headSettles] = [gate(), gate(), gate()]
    const [claimed, takeClaimed, held, settling] = [gate(), gate(), gate(), gate()]
    let behindId = ''
    Object.assign(store.queue, {
      claim: async (...args: Parameters<typeof claim>) => {
        const heads = await claim.apply(store.queue, args)
        if (sent.length < 2) return heads
        behindId = args[1][0] ?? ''
        claimed.open()
        await takeClaimed.opened
        return heads
      },
      hold: async (...args: Parameters<typeof hold>) => {
        const ids = await hold.apply(store.queue, args)
        if (ids.includes(behindId)) held.open()
        return ids
      },
      settle: async (...args: Parameters<typeof settle>) => {
        if (sent.length >= 2) {
          settling.open()
          await headSettles.opened
        }
        return await settle.apply(store.queue, args)
      },
    })
    const sent: string[] = []
    const outbox = outboxWithSlowHead(store, sent, again, endHead)
    const turns = async () => {
      for (let i = 0; i < 20; i++) await new Promise((resolve) => setImmediate(resolve))
    }
    await outbox.start()
    try {
      await outbox.transaction((tx) => outbox.publish(tx, { type: 'head', payload: 1, key: 'k' }))
      await again.opened
      await outbox.transaction((tx) => outbox.publish(tx, { type: 'behind', payload: 2, key: 'k' }))
      await claimed.opened
      await held.opened
      await turns()
      takeClaimed.open()
      await turns()
      endHead.open()
      await settling.opened
      await turns()
      expect(sent).toEqual(['head', 'head'])
      headSettles.open()
      while (sent.length < 3) await turns()
      expect(sent).toEqual(['head', 'head', 'behind'])
    } finally {
      headSettles.open()
      await outbox.close()
    }
  })
})
