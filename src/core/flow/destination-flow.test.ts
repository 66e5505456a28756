import { describe, expect, it } from 'vitest'
import { createFakeRuntime } from '../../testing/fake-runtime.ts'
import { SILENT_LOGGER } from '../runtime/logger.ts'
import { DestinationFlow, type DestinationParts } from './destination-flow.ts'
import type { HotDelivery } from './hot-intake.ts'

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
