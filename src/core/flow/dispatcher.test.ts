import { describe, expect, it } from 'vitest'
import { createFakeRuntime } from '../../testing/fake-runtime.ts'
import type { Delivery, Right } from '../model/delivery.ts'
import { exponential } from '../policy/retry.ts'
import { SILENT_LOGGER } from '../runtime/logger.ts'
import type { Metrics, SendResult, Settlement, SuspectedDelivery } from '../spi/index.ts'
import { Dispatcher } from './dispatcher.ts'
import type { DispatcherOptions } from './dispatcher-options.ts'
import { Quarantine } from './quarantine.ts'

const silentMetrics = new Proxy({}, { get: () => () => undefined }) as Metrics

/** A dispatcher whose outcomes are kept instead of written. */
const create = (over: {
  readonly manual: boolean
  readonly ratePerSecond?: number
  readonly orderedPrefix?: boolean
  readonly receive?: (batch: readonly Delivery[]) => readonly SendResult[]
  readonly suspect?: (delivery: Delivery) => Promise<SuspectedDelivery>
  readonly isRightValid?: (delivery: Delivery) => boolean
}) => {
  const settled: Settlement[] = []
  const dispatcher = new Dispatcher({
    destination: {
      name: 'x',
      to: { orderedPrefix: over.orderedPrefix ?? true },
      breaker: {},
      ratePerSecond: over.ratePerSecond ?? null,
      paused: false,
      retry: exponential(),
      deadHead: 'skip',
      timeoutMs: 0,
    },
    tuning: { concurrency: 1, batchSize: 10 },
    receiver: { kind: 'publisher', receive: over.receive ?? (() => []) },
    settler: { add: (settlement: Settlement) => void settled.push(settlement), room: () => null },
    runtime: createFakeRuntime(),
    logger: SILENT_LOGGER,
    metrics: silentMetrics,
    bounds: { hot: 10, cold: 10, bytes: 1_000 },
    hardDeadlineMs: 1_000,
    tracing: null,
    manual: over.manual,
    quarantine: new Quarantine(),
    events: {
      isRightValid: over.isRightValid ?? (() => true),
      failed: () => undefined,
      roomFreed: () => undefined,
      ended: () => undefined,
      suspect: over.suspect,
    },
  } as unknown as DispatcherOptions)
  return { dispatcher, settled }
}

let count = 0
const delivery = (key: string | null, right: Right): Delivery => {
  count += 1
  const event = { id: `e${count}`, type: 't', key, size: 1 }
  const source = right.kind === 'token' ? 'hot' : 'cold'
  return { id: `d${count}`, event, seq: BigInt(count), attempts: 0, right, source } as unknown as Delivery
}

const lane: Right = { kind: 'lane', workerId: 'w' }
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

describe('a destination that is paused', () => {
  it('gives back the claims that wait, and the lanes’ owners need not wait for their leases', () => {
    const { dispatcher, settled } = create({ manual: true })
    const hot = delivery(null, { kind: 'token', token: 't' })
    dispatcher.enqueueHot(hot)
    dispatcher.setPaused(true)
    expect(settled.map(({ delivery, outcome }) => [delivery.id, outcome.kind])).toEqual([
      [hot.id, 'released'],
    ])
  })
})

describe('a suspect whose destination is paused before its turn', () => {
  /** What was written down and what was sent; `counting` happens while it is written down. */
  const offer = (counting: (dispatcher: Dispatcher) => void) => {
    const calls: string[] = []
    const { dispatcher, settled } = create({
      manual: false,
      receive: (batch) => {
        calls.push('sent')
        return batch.map((): SendResult => ({ ok: true }))
      },
      suspect: async ({ id }) => {
        calls.push('counted')
        counting(dispatcher)
        return { id, attempts: 1, suspicions: 3 }
      },
    })
    dispatcher.enqueueCold({ ...delivery(null, lane), alone: true } as Delivery)
    return { dispatcher, calls, settled }
  }

  it('is neither counted nor sent until it goes on', async () => {
    const { dispatcher, calls } = offer(() => undefined)
    dispatcher.setPaused(true)
    await turn()
    expect(calls).toEqual([])
    dispatcher.setPaused(false)
    await turn()
    expect(calls).toEqual(['counted', 'sent'])
  })

  it.each([
    ['before the end', (each: Dispatcher) => each.setPaused(true)],
    [
      'at the end',
      (each: Dispatcher) => {
        each.setPaused(true)
        each.stopTaking()
      },
    ],
  ])('is given back with its token when it was counted and put back %s', async (_when, counting) => {
    const { dispatcher, calls, settled } = offer(counting)
    await turn()
    dispatcher.stopTaking()
    expect(calls).toEqual(['counted'])
    expect(settled.map(({ outcome }) => outcome.kind)).toEqual(['released'])
  })

  it('is counted once, also when the pause begins while it is counted', async () => {
    const { dispatcher, calls } = offer((each) => each.setPaused(true))
    await turn()
    expect(calls).toEqual(['counted'])
    dispatcher.setPaused(false)
    await turn()
    expect(calls).toEqual(['counted', 'sent'])
  })
})

describe('a rate limit', () => {
  it('counts what was taken, not what waits behind it', async () => {
    const { dispatcher } = create({ manual: true, ratePerSecond: 20 })
    const [first, second] = [delivery('k', lane), delivery('k', lane)] as const
    for (const each of [first, second]) dispatcher.enqueueCold(each)
    expect(await dispatcher.take(2)).toEqual([first])
    dispatcher.conclude(first, { verdict: 'done' })
    expect(await dispatcher.take(2)).toEqual([second])
  })
})

describe('an ordered batch in which a key fails', () => {
  it('spends an attempt of the first one alone: what followed it was never accepted', async () => {
    const receive = (batch: readonly Delivery[]) =>
      batch.map((): SendResult => ({ ok: false, error: new Error('refused') }))
    const { dispatcher, settled } = create({ manual: false, receive })
    const [first, second] = [delivery('k', lane), delivery('k', lane)] as const
    for (const each of [first, second]) dispatcher.enqueueCold(each)
    await turn()
    expect(settled.map(({ delivery, outcome }) => [delivery.id, outcome.kind])).toEqual([[first.id, 'retry']])
  })
})

describe('a delivery whose right ran out before its turn', () => {
  it('closes its key with it: what waits behind it is not sent once the right is back', async () => {
    const sent: string[] = []
    let isOver = true
    const { dispatcher } = create({
      manual: false,
      orderedPrefix: false,
      receive: (batch) => {
        sent.push(...batch.map(({ id }) => id))
        return batch.map((): SendResult => ({ ok: true }))
      },
      // The first look comes too early: the lease is renewed right after it.
      isRightValid: () => {
        const isValid = !isOver
        isOver = false
        return isValid
      },
    })
    const [head, follower, other] = [
      delivery('k', lane),
      delivery('k', { ...lane }),
      delivery('o', { ...lane }),
    ]
    dispatcher.setPaused(true)
    for (const each of [head, follower, other]) dispatcher.enqueueCold(each)
    dispatcher.setPaused(false)
    await turn()
    await turn()
    expect(sent).toEqual([other.id])
  })
})
