import { describe, expect, it } from 'vitest'
import { createMemoryDatabase, memoryStore } from '../../stores/memory/index.ts'
import { recordingDestination } from '../../testing/index.ts'
import { resolveOptions } from '../options.ts'
import { createOutbox } from '../outbox.ts'
import { SILENT_LOGGER } from '../runtime/logger.ts'
import { createSystemRuntime } from '../runtime/system-runtime.ts'
import { Tuning } from './tuning.ts'

const create = (maxBatch = 10): Tuning => {
  const to = recordingDestination({ maxBatch })
  const destinations = { d: { to, events: ['*'], concurrency: 2, batchSize: 4 } }
  const options = resolveOptions({
    store: memoryStore(),
    destinations,
    pollIntervalMs: 100,
    pollIdleMaxMs: 400,
  })
  return new Tuning(options.destinations.get('d') as never, options)
}

const numbersOf = (tuning: Tuning): number[] => [
  tuning.concurrency,
  tuning.batchSize,
  tuning.pollBatchSize,
  tuning.pollIntervalMs,
  tuning.pollIdleMaxMs,
]

describe('the numbers of a destination', () => {
  it('are those of the options until an operator says otherwise, and again when he takes it back', () => {
    const tuning = create()
    const own = [2, 4, 500, 100, 400]
    expect(numbersOf(tuning)).toEqual(own)
    expect(tuning.apply({})).toBe(false)
    expect(tuning.apply({ concurrency: 9, pollIntervalMs: 1_000, pollBatchSize: 7 })).toBe(true)
    expect(numbersOf(tuning)).toEqual([9, 4, 7, 1_000, 1_000])
    expect(tuning.apply({ concurrency: 9, pollIntervalMs: 1_000, pollBatchSize: 7 })).toBe(false)
    expect(tuning.apply({})).toBe(true)
    expect(numbersOf(tuning)).toEqual(own)
  })

  it('stay within what this release can work with, whatever another one wrote', () => {
    const tuning = create()
    tuning.apply({ concurrency: 5_000, batchSize: 0, pollBatchSize: -3, pollIntervalMs: 1.4 })
    expect(numbersOf(tuning)).toEqual([1_000, 1, 1, 10, 400])
    tuning.apply({ concurrency: 2.6, batchSize: 99 })
    expect([tuning.concurrency, tuning.batchSize]).toEqual([3, 10])
  })

  it.each([0, -5, 1e12, Number.NaN, Number.POSITIVE_INFINITY])(
    'a rate of %d that a hand wrote into the registry stops nobody from starting',
    async (ratePerSecond) => {
      const database = createMemoryDatabase()
      const open = () =>
        createOutbox({
          store: memoryStore({ database }),
          destinations: { a: { to: recordingDestination(), events: ['*'] }, b: { events: ['*'] } },
        })
      const first = open()
      await first.start()
      await first.close()
      const store = memoryStore({ database })
      await store.open({ runtime: createSystemRuntime(), logger: SILENT_LOGGER })
      await store.registry.configure('a', { ratePerSecond }, { actor: 'hand', reason: null })
      await store.registry.configure('b', { paused: true }, { actor: 'hand', reason: null })
      const second = open()
      await second.start()
      expect((await second.inspect.destinations()).map(({ paused }) => paused)).toEqual([false, true])
      await second.close()
    },
  )

  it('say how many a process can have had under way when it ended, before or after it was tuned', () => {
    const tuning = create()
    expect(tuning.mostUnderWay).toBe(8)
    tuning.apply({ concurrency: 1, batchSize: 1 })
    expect(tuning.mostUnderWay).toBe(8)
    tuning.apply({ concurrency: 10 })
    expect(tuning.mostUnderWay).toBe(40)
  })
})
