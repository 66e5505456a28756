import { describe, expect, it } from 'vitest'
import { createFakeRuntime } from '../../testing/fake-runtime.ts'
import { ERROR_CODES, StoreError } from '../errors.ts'
import { SILENT_LOGGER } from '../runtime/logger.ts'
import { NOOP_METRICS } from '../runtime/metrics.ts'
import type { Settlement, SettleRequest, Store } from '../spi/index.ts'
import { type Settled, Settler } from './settle.ts'

/** What becomes of these deliveries over a database that refuses `bad` for its content and knows `lost` no more. */
const settle = async (...ids: readonly string[]): Promise<Record<string, Settled>> => {
  const runtime = createFakeRuntime()
  const write = async ({ settlements }: SettleRequest) => {
    const given = settlements.map(({ delivery }) => delivery.id)
    if (given.includes('bad')) throw new StoreError(ERROR_CODES.conflict, 'refused')
    return { lost: given.filter((id) => id === 'lost'), promoted: [] }
  }
  const store = { capabilities: { parallelSettles: 1 }, queue: { settle: write } } as unknown as Store
  const options = { historyLimit: 10, maxBuffered: 100, maxBatch: 100, metrics: NOOP_METRICS }
  const settler = new Settler(store, runtime, SILENT_LOGGER, options, () => undefined)
  const ended: Record<string, Settled> = {}
  for (const id of ids) {
    const settlement = { delivery: { id }, outcome: { kind: 'done' } } as unknown as Settlement
    settler.add(settlement, (settled) => {
      ended[id] = settled
    })
  }
  await runtime.advance(60_000)
  return ended
}

/** A settler whose database answers only when it is told to, flush by flush. */
const createSlow = () => {
  const answers: (() => void)[] = []
  const write = () =>
    new Promise((resolve) => {
      answers.push(() => resolve({ lost: [], promoted: [] }))
    })
  const runtime = createFakeRuntime()
  const store = { capabilities: { parallelSettles: 2 }, queue: { settle: write } } as unknown as Store
  const options = { historyLimit: 10, maxBuffered: 100, maxBatch: 1, metrics: NOOP_METRICS }
  const settler = new Settler(store, runtime, SILENT_LOGGER, options, () => undefined)
  const add = (id: string): void =>
    settler.add({ delivery: { id }, outcome: { kind: 'done' } } as unknown as Settlement, () => undefined)
  const isWritten = () => {
    const seen = { yet: false }
    void settler.written().then(() => {
      seen.yet = true
    })
    return seen
  }
  return { settler, add, answers, isWritten, turns: () => runtime.settle() }
}

describe('who waits until what was added is written', () => {
  it('does not wait for what is added meanwhile, and does for all that came before, in whatever order', async () => {
    const { add, answers, isWritten, turns } = createSlow()
    for (const id of ['a', 'b', 'c']) add(id)
    const written = isWritten()
    await turns()
    add('d')
    answers[1]?.()
    await turns()
    answers[2]?.()
    await turns()
    expect(written.yet).toBe(false)
    answers[0]?.()
    await turns()
    expect(written.yet).toBe(true)
  })

  it('does not wait at all where nothing is on its way, nor for what was given up', async () => {
    const { settler, add, isWritten, turns } = createSlow()
    const before = isWritten()
    await turns()
    add('a')
    const after = isWritten()
    settler.abandon()
    await turns()
    expect([before.yet, after.yet]).toEqual([true, true])
  })
})

it('is kept while the database cannot be asked, also when waiting alone would not help', async () => {
  const runtime = createFakeRuntime()
  let tries = 0
  const write = async () => {
    tries += 1
    if (runtime.monotonicNow() < 5_000)
      throw new StoreError(ERROR_CODES.storeUnavailable, 'the password is wrong', { transient: false })
    return { lost: [], promoted: [] }
  }
  const store = { capabilities: { parallelSettles: 1 }, queue: { settle: write } } as unknown as Store
  const options = { historyLimit: 10, maxBuffered: 100, maxBatch: 100, metrics: NOOP_METRICS }
  const settler = new Settler(store, runtime, SILENT_LOGGER, options, () => undefined)
  const ended: Settled[] = []
  for (const id of ['a', 'b'])
    settler.add({ delivery: { id }, outcome: { kind: 'done' } } as unknown as Settlement, (settled) =>
      ended.push(settled),
    )
  await runtime.advance(60_000)
  expect(ended).toEqual(['written', 'written'])
  // All of them together, and not each by itself.
  expect(tries).toBeLessThan(20)
})

describe('a batch of outcomes', () => {
  it('is written but for the one that the database refuses', async () => {
    expect(await settle('a', 'bad', 'b')).toEqual({ a: 'written', bad: 'refused', b: 'written' })
  })

  it('tells those apart to which the right was lost', async () => {
    expect(await settle('a', 'lost')).toEqual({ a: 'written', lost: 'lost' })
  })
})
