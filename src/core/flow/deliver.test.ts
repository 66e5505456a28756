import { describe, expect, it } from 'vitest'
import { createFakeRuntime } from '../../testing/fake-runtime.ts'
import type { Delivery } from '../model/delivery.ts'
import { SILENT_LOGGER } from '../runtime/logger.ts'
import { type DeliverOptions, deliver, type Receiver } from './deliver.ts'
import { type ReceiveContext, Stopping } from './receive-context.ts'

const delivery = { id: 'd', event: { id: 'e', type: 't', key: null }, attempts: 0 } as unknown as Delivery

const optionsWith = (
  receive: Receiver['receive'],
  { runtime = createFakeRuntime(), timeoutMs = 0, hardDeadlineMs = 30_000 } = {},
) =>
  ({
    destination: { name: 'x', timeoutMs },
    receiver: { kind: 'publisher', receive },
    hardDeadlineMs,
    runtime,
    logger: SILENT_LOGGER,
    tracing: null,
  }) as unknown as DeliverOptions

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
  const options = optionsWith(receive, { runtime, timeoutMs, hardDeadlineMs })
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

describe('the signal of an attempt that has ended', () => {
  const sent = [{ ok: true }] as const
  const stop = new Error('the outbox is stopping')
  const ends: [string, Receiver['receive']][] = [
    ['at once', () => sent],
    [
      'with a throw',
      () => {
        throw new Error('no')
      },
    ],
    ['later', async () => sent],
    ['with a rejection', () => Promise.reject(new Error('no'))],
  ]

  /** Only what is still kept hears of a stop, so a stop shows what is. */
  const endedBy = async (end: Receiver['receive'], looks: (context: ReceiveContext) => void) => {
    const stopping = new Stopping()
    let kept: ReceiveContext | null = null
    const receive: Receiver['receive'] = (batch, context) => {
      kept = context
      looks(context)
      return end(batch, context)
    }
    await deliver([delivery], optionsWith(receive), stopping)
    return { context: kept as unknown as ReceiveContext, stopping }
  }

  it.each(ends)('%s is not kept for a stop', async (_, end) => {
    const { context, stopping } = await endedBy(end, ({ signal }) => expect(signal.aborted).toBe(false))
    stopping.abort(stop)
    expect(context.signal.aborted).toBe(false)
  })

  it.each(ends)('%s is not kept either when somebody looks at it only then', async (_, end) => {
    const { context, stopping } = await endedBy(end, () => undefined)
    const { signal } = context
    stopping.abort(stop)
    expect(signal.aborted).toBe(false)
  })

  it.each(ends)('%s before a stop says so also when it is first looked at after it', async (_, end) => {
    const { context, stopping } = await endedBy(end, () => undefined)
    stopping.abort(stop)
    expect(context.signal.aborted).toBe(false)
  })

  it('because it was told to stop is aborted, whenever it is first looked at', async () => {
    const stopping = new Stopping()
    let kept: ReceiveContext | null = null
    const receive: Receiver['receive'] = async (_batch, context) => {
      kept = context
      stopping.abort(stop)
      return sent
    }
    await deliver([delivery], optionsWith(receive), stopping)
    expect((kept as unknown as ReceiveContext).signal.reason).toBe(stop)
  })
})

describe('an attempt', () => {
  it('is over when it was given up, and not before', async () => {
    const runtime = createFakeRuntime()
    const contexts: ReceiveContext[] = []
    const receive: Receiver['receive'] = (_batch, context) => {
      contexts.push(context)
      return new Promise<never>(() => undefined)
    }
    const options = optionsWith(receive, { runtime, timeoutMs: 100 })
    const ended = deliver([delivery], options, new Stopping())
    await runtime.advance(1_099)
    expect(contexts).toMatchObject([{ over: false, signal: { aborted: true } }])
    await runtime.advance(1)
    await ended
    expect(contexts).toMatchObject([{ over: true }])
  })

  it('that was told to stop is over when nobody waits for it any more', () => {
    const stopping = new Stopping()
    const contexts: ReceiveContext[] = []
    const receive: Receiver['receive'] = (_batch, context) => {
      contexts.push(context)
      return new Promise<never>(() => undefined)
    }
    void deliver([delivery], optionsWith(receive), stopping)
    stopping.abort(new Error('the outbox is stopping'))
    expect(contexts).toMatchObject([{ over: false, signal: { aborted: true } }])
    stopping.abandon()
    expect(contexts).toMatchObject([{ over: true }])
  })
})
