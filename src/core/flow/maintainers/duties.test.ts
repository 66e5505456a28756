import { expect, it } from 'vitest'
import { UNROUTED } from '../../model/delivery.ts'
import type { ResolvedOptions } from '../../options.ts'
import { createCountingMetrics } from '../../runtime/metrics.ts'
import type { DestinationCounts, Store } from '../../spi/index.ts'
import { pendingDuty } from './duties.ts'

it('says that nothing is left of what is no longer counted, such as events that were routed meanwhile', async () => {
  const counts = { pending: 3, done: 0, retry: 0, dead: 0, discarded: 0, scheduled: 0, held: 0 }
  const looks: DestinationCounts[][] = [[{ destination: UNROUTED, counts, oldestLagMs: 400_000 }], []]
  const inspection = { counts: async () => looks.shift() ?? [] }
  const metrics = createCountingMetrics()
  const duty = pendingDuty({ inspection } as unknown as Store, {} as ResolvedOptions, metrics)
  await duty.step()
  expect(metrics.gauge('setPending', UNROUTED)).toBe(3)
  await duty.step()
  expect(metrics.gauge('setPending', UNROUTED)).toBe(0)
  expect(metrics.gauge('oldestLagMs', UNROUTED)).toBe(0)
})
