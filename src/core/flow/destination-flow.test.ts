import { describe, expect, it } from 'vitest'
import { createFakeRuntime } from '../../testing/fake-runtime.ts'
import type { Delivery } from '../model/delivery.ts'
import { SILENT_LOGGER } from '../runtime/logger.ts'
import type { Metrics, Settlement } from '../spi/index.ts'
import { DestinationFlow, type DestinationParts } from './destination-flow.ts'
import type { HotDelivery } from './hot-intake.ts'
import type { Settled } from './settle.ts'

describe('keyed events right after their commit', () => {
  it('are not claimed when their lane went while they waited', async () => {
    const claimed: (readonly string[])[] = []
    const claim = async (_worker: string, ids: readonly string[]) => {
      claimed.push(ids)
      return []
    }
    const ours = new Set([1, 2])
    const flow = new DestinationFlow({
      destination: {
        name: 'x',
        to: { send: async () => [] },
        breaker: {},
        ratePerSecond: null,
        paused: false,
      },
      options: { hotQueueCapacity: 10, coldQueueCapacity: 10, queueBytes: 1_000, pollIntervalMs: 1_000 },
      store: { queue: { claim } },
      runtime: createFakeRuntime(),
      logger: SILENT_LOGGER,
      lanes: { workerId: 'w', owns: (_destination: string, lane: number) => ours.has(lane) },
    } as unknown as DestinationParts)
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
    const flow = new DestinationFlow({
      destination: {
        name: 'x',
        to: { send: async () => [] },
        breaker: {},
        ratePerSecond: null,
        paused: true,
      },
      options: { hotQueueCapacity: 10, coldQueueCapacity: 10, queueBytes: 1_000, pollIntervalMs: 1_000 },
      settler: {
        add: (settlement: Settlement, done: (settled: Settled) => void) => {
          given.push(settlement)
          written.push(done)
        },
      },
      runtime: createFakeRuntime(),
      logger: SILENT_LOGGER,
      metrics: new Proxy({}, { get: () => () => undefined }) as Metrics,
      ended: () => undefined,
    } as unknown as DestinationParts)
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
