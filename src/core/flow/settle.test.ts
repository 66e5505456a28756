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

describe('a batch of outcomes', () => {
  it('is written but for the one that the database refuses', async () => {
    expect(await settle('a', 'bad', 'b')).toEqual({ a: 'written', bad: 'refused', b: 'written' })
  })

  it('tells those apart to which the right was lost', async () => {
    expect(await settle('a', 'lost')).toEqual({ a: 'written', lost: 'lost' })
  })
})
