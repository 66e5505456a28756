import { describe, expect, it } from 'vitest'
import { createFakeRuntime } from '../../testing/fake-runtime.ts'
import { OutageError } from '../errors.ts'
import type { Delivery, Right } from '../model/delivery.ts'
import { exponential } from '../policy/retry.ts'
import { SILENT_LOGGER } from '../runtime/logger.ts'
import type { Metrics, SendResult, Settlement, SuspectedDelivery } from '../spi/index.ts'
import { Dispatcher } from './dispatcher.ts'
import type { DispatcherOptions } from './dispatcher-options.ts'
import { Quarantine } from './quarantine.ts'

const silentMetrics = new Proxy({}, { get: () => () => undefined }) as Metrics

/** A dispatcher whose outcomes are kept instead of written, or also written at once. */
const create = (over: {
  readonly manual: boolean
  readonly ratePerSecond?: number
  readonly orderedPrefix?: boolean
  readonly receive?: (batch: readonly Delivery[]) => readonly SendResult[] | Promise<readonly SendResult[]>
  readonly suspect?: (delivery: Delivery) => Promise<SuspectedDelivery>
  readonly isRightValid?: (delivery: Delivery) => boolean
  readonly writes?: boolean
  readonly roomFreed?: () => void
}) => {
  const settled: Settlement[] = []
  const runtime = createFakeRuntime()
  const dispatcher: Dispatcher = new Dispatcher({
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
    settler: {
      add: (settlement: Settlement, written: (settled: string) => void) => {
        settled.push(settlement)
        if (over.writes) queueMicrotask(() => written('written'))
      },
      room: () => null,
    },
    runtime,
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
      roomFreed: over.roomFreed ?? (() => undefined),
      ended: (delivery: Delivery) => {
        dispatcher.queues.forget(delivery)
        dispatcher.afterForget()
      },
      suspect: over.suspect,
    },
  } as unknown as DispatcherOptions)
  return { dispatcher, settled, runtime }
}

let count = 0
const delivery = (key: string | null, right: Right): Delivery => {
  count += 1
  const event = { id: `e${count}`, type: 't', key, size: 1 }
  const source = right.kind === 'token' ? 'hot' : 'cold'
  return { id: `d${count}`, event, seq: BigInt(count), attempts: 0, right, source } as unknown as Delivery
}

const lane: Right = { kind: 'lane', workerId: 'w' }
/** As many turns of the event loop as a delivery waits for company. */
const turn = async (): Promise<void> => {
  for (let i = 0; i < 3; i += 1) await new Promise((resolve) => setImmediate(resolve))
}

describe('a rate that is raised', () => {
  it('counts at once: what waits for the old one is not waited out', async () => {
    const receive = (batch: readonly Delivery[]): SendResult[] => batch.map(() => ({ ok: true }))
    const { dispatcher, settled, runtime } = create({
      manual: false,
      ratePerSecond: 0.05,
      receive,
      writes: true,
    })
    for (let n = 0; n < 8; n += 1) dispatcher.enqueueCold(delivery(null, lane))
    await runtime.advance(100)
    expect(settled).toHaveLength(1)
    dispatcher.setRate(20)
    await runtime.advance(1_000)
    expect(settled).toHaveLength(8)
  })
})

describe('what was read', () => {
  it('is handed out after whoever reads has had its turn, so that the next rows are on their way', async () => {
    const order: string[] = []
    const receive = (batch: readonly Delivery[]): SendResult[] => {
      order.push(`${batch.length} handed out`)
      return batch.map(() => ({ ok: true }))
    }
    const { dispatcher, runtime } = create({ manual: false, receive, writes: true })
    for (let n = 0; n < 3; n += 1) dispatcher.enqueueCold(delivery(null, lane))
    await Promise.all([runtime.yield().then(() => order.push('read')), turn()])
    expect(order).toEqual(['read', '3 handed out'])
  })
})

describe('somebody who waits', () => {
  it('waits for what was read but not handed out yet', async () => {
    let handled = 0
    const receive = async (batch: readonly Delivery[]): Promise<SendResult[]> => {
      await turn()
      handled += batch.length
      return batch.map(() => ({ ok: true }))
    }
    const { dispatcher } = create({ manual: false, receive, writes: true })
    dispatcher.enqueueCold(delivery(null, lane))
    await dispatcher.quiet()
    expect(handled).toBe(1)
  })
})

describe('a queue that was full', () => {
  it('says that it has room when its rows are handed out, not when they have been answered', async () => {
    let freed = 0
    const { dispatcher } = create({
      manual: false,
      receive: () => new Promise<never>(() => undefined),
      roomFreed: () => {
        freed += 1
      },
    })
    for (let n = 0; n < 10; n += 1) dispatcher.enqueueCold(delivery(null, lane))
    expect(dispatcher.hasColdQueueCapacity()).toBe(false)
    await turn()
    expect([dispatcher.hasColdQueueCapacity(), freed]).toEqual([true, 1])
  })
})

describe('a worker that fails unexpectedly', () => {
  const broken = {
    get ok(): true {
      throw new Error('no answer')
    },
  }

  it('has its deliveries tried again, and their keys wait for them', async () => {
    const { dispatcher, settled } = create({ manual: false, receive: (batch) => batch.map(() => broken) })
    const one = delivery('k', lane)
    dispatcher.enqueueCold(one)
    await turn()
    expect(settled.map(({ delivery: { id }, outcome, attempts }) => [id, outcome.kind, attempts])).toEqual([
      [one.id, 'retry', 1],
    ])
    expect(dispatcher.queues.running).toBe(0)
    expect(dispatcher.queues.isStalledBy(one)).toBe(true)
  })

  it('does not keep a breaker that is half open waiting for its answer', async () => {
    let answer: SendResult = { ok: false, error: new OutageError('down') }
    const { dispatcher, settled, runtime } = create({
      manual: false,
      writes: true,
      receive: (batch) => batch.map(() => answer),
    })
    const [one, two] = [delivery(null, lane), delivery(null, lane)]
    dispatcher.enqueueCold(one)
    dispatcher.enqueueCold(two)
    await runtime.settle()
    expect(dispatcher.breaker.allows(runtime.monotonicNow())).toBe('none')
    answer = broken
    await runtime.advance(60_000)
    expect(settled.map(({ outcome }) => outcome.kind)).toContain('retry')
    answer = { ok: true }
    const three = delivery(null, lane)
    dispatcher.enqueueCold(three)
    await runtime.advance(60_000)
    expect(settled.map(({ delivery: { id }, outcome }) => [id, outcome.kind])).toContainEqual([
      three.id,
      'done',
    ])
  })
})

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

describe('a delivery that breaks the connection', () => {
  /** Hangs up whenever one of the given is among what is sent, or at everything. */
  const place = () => {
    const batches: string[][] = []
    const state = { isDown: false, poison: '' }
    const made = create({
      manual: false,
      orderedPrefix: false,
      writes: true,
      receive: (batch) => {
        const ids = batch.map(({ id }) => id)
        batches.push(ids)
        if (state.isDown || ids.includes(state.poison)) throw new OutageError('the place hung up')
        return batch.map((): SendResult => ({ ok: true }))
      },
    })
    return { ...made, batches, state }
  }
  const cold = (key: string | null = null) => delivery(key, lane)
  const hot = (key: string): Delivery => ({ ...delivery(key, lane), source: 'hot' })

  it('is charged alone, whoever shared its batches', async () => {
    const { dispatcher, settled, runtime, state } = place()
    const [poison, ...others] = Array.from({ length: 10 }, () => cold()) as [Delivery, ...Delivery[]]
    state.poison = poison.id
    for (const each of [...others.slice(0, 5), poison, ...others.slice(5)]) dispatcher.enqueueCold(each)
    const outcomes = () =>
      settled.filter(({ outcome }) => outcome.kind !== 'done').map(({ delivery }) => delivery.id)
    for (let n = 0; n < 100 && outcomes().length === 0; n += 1) {
      // Something new answers, and closes the breaker.
      dispatcher.enqueueCold(cold())
      await runtime.advance(1_000)
    }
    expect(outcomes()).toEqual([poison.id])
    const done = settled.flatMap(({ delivery, outcome }) => (outcome.kind === 'done' ? [delivery.id] : []))
    expect(done).toEqual(expect.arrayContaining(others.map(({ id }) => id)))
  })

  it('is not looked for in an outage of everything: batches are whole when it is over', async () => {
    const { dispatcher, settled, runtime, batches, state } = place()
    state.isDown = true
    const all = Array.from({ length: 10 }, () => cold())
    for (const each of all) dispatcher.enqueueCold(each)
    await runtime.advance(10 * 60_000)
    batches.length = 0
    state.isDown = false
    await runtime.advance(60_000)
    expect(batches.map((batch) => batch.length)).toEqual([1, 9])
    expect(settled.map(({ outcome }) => outcome.kind)).toEqual(all.map(() => 'done'))
  })

  it('keeps nobody waiting who comes after it, be it as hot as can be', async () => {
    const { dispatcher, runtime, batches, state } = place()
    const poison = hot('k')
    state.poison = poison.id
    dispatcher.enqueueHot(poison)
    await runtime.settle()
    expect(dispatcher.breaker.allows(runtime.monotonicNow())).toBe('none')
    batches.length = 0
    const others = [cold(), cold('o')]
    for (const each of others) dispatcher.enqueueCold(each)
    // As long as the breaker is open at first.
    await runtime.advance(1_000)
    expect(batches.flat().slice(0, 2)).toEqual(others.map(({ id }) => id))
  })
})
