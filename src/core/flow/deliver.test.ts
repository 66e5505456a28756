import { describe, expect, it } from 'vitest'
import { createFakeRuntime } from '../../testing/fake-runtime.ts'
import type { Delivery } from '../model/delivery.ts'
import { SILENT_LOGGER } from '../runtime/logger.ts'
import { type DeliverOptions, deliver, type ReceiveContext, Stopping } from './deliver.ts'

/** When a receiver that never ends is told to stop, and when it is left behind. */
const timesOf = async (timeoutMs: number, hardDeadlineMs: number) => {
  const runtime = createFakeRuntime()
  const startedAt = runtime.monotonicNow()
  const times: number[] = []
  const note = (): void => void times.push(runtime.monotonicNow() - startedAt)
  const receive = (_batch: unknown, { signal }: ReceiveContext) => {
    signal.addEventListener('abort', note)
    return new Promise<never>(() => undefined)
  }
  const delivery = { id: 'd', event: { id: 'e', type: 't', key: null }, attempts: 0 } as unknown as Delivery
  const options = {
    destination: { name: 'x', timeoutMs },
    receiver: { kind: 'publisher', receive },
    hardDeadlineMs,
    runtime,
    logger: SILENT_LOGGER,
    tracing: null,
  } as unknown as DeliverOptions
  const ended = deliver([delivery], options, new Stopping()).then(note)
  await runtime.advance(hardDeadlineMs)
  await ended
  return times
}

describe('a receiver that does not end', () => {
  it.each([
    [100, 30_000, [100, 1_100]],
    [29_500, 30_000, [29_500, 30_000]],
    [900, 1_000, [900, 1_000]],
    [0, 30_000, [29_000, 30_000]],
    [0, 1_000, [500, 1_000]],
    [30_000, 30_000, [29_000, 30_000]],
    [60_000, 30_000, [29_000, 30_000]],
  ])(
    'is told so at its timeout of %i ms, and left behind by the hard deadline of %i',
    async (timeoutMs, hardDeadlineMs, times) => {
      expect(await timesOf(timeoutMs, hardDeadlineMs)).toEqual(times)
    },
  )
})
