/** Whatever happens in whatever order: no row ends up where nobody looks, and what can be delivered is. */
import fc from 'fast-check'
import '../fast-check.ts'
import { describe, expect, it } from 'vitest'
import { fixed } from '../../src/index.ts'
import { checkInvariants, createTestOutbox, failingDestination } from '../../src/testing/index.ts'

type Test = ReturnType<typeof create>

const create = (seed: number, deadHead: 'skip' | 'block' | 'park') => {
  const broker = failingDestination({ fail: 'never' })
  const retry = fixed({ delayMs: 2_000, maxAttempts: 2 })
  const test = createTestOutbox({
    seed,
    destinations: {
      broker: { to: broker, events: ['*'], deadHead, retry, concurrency: 2 },
      other: { to: failingDestination({ times: 1 }), events: ['order.*'], retry },
    },
    hotQueueCapacity: 3,
    coldQueueCapacity: 5,
    pollBatchSize: 3,
    drainMs: 0,
  })
  return { ...test, broker }
}

const key = fc.constantFrom(null, 'a', 'b')
const step = fc.oneof(
  fc.record({
    do: fc.constant('publish' as const),
    type: fc.constantFrom('order.placed', 'user.created'),
    count: fc.integer({ min: 1, max: 6 }),
    key,
    delayMs: fc.constantFrom(0, 0, 0, 3_000),
  }),
  fc.record({
    do: fc.constant('script' as const),
    fail: fc.constantFrom('never', 'error', 'permanent', 'outage', 'lostReply', 'hang'),
  }),
  fc.record({ do: fc.constant('advance' as const), ms: fc.integer({ min: 0, max: 20_000 }) }),
  fc.record({
    do: fc.constantFrom('start', 'stop', 'release', 'pause', 'resume', 'redrive', 'replay', 'discard'),
  }),
)
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never

const perform = async (t: Test, it: Step): Promise<void> => {
  const { outbox, broker } = t
  switch (it.do) {
    case 'publish': {
      const draft = {
        type: it.type,
        payload: {},
        key: it.key,
        ...(it.delayMs > 0 ? { delayMs: it.delayMs } : {}),
      }
      await outbox.transaction((tx) =>
        outbox.publishMany(
          tx,
          Array.from({ length: it.count }, () => draft),
        ),
      )
      return
    }
    case 'script':
      return broker.script({ fail: it.fail })
    case 'advance':
      return await t.advance(it.ms)
    case 'start':
      return await outbox.start()
    case 'stop':
      return void (await outbox.stop())
    case 'release':
      return broker.release()
    case 'pause':
    case 'resume':
      return await outbox.operator[it.do]('broker').catch(() => undefined)
    case 'redrive':
    case 'replay':
    case 'discard':
      await outbox.operator[it.do]({ destination: 'broker', limit: 2 })
  }
}

/** Everything is repaired: from here on each row must find its end. */
const heal = async (t: Test): Promise<void> => {
  t.broker.script({ fail: 'never' })
  t.broker.release()
  await t.outbox.start()
  await t.outbox.operator.resume('broker')
  for (let round = 0; round < 6; round += 1) {
    await t.advance(120_000)
    await t.outbox.operator.redrive({ destination: 'broker', limit: 1_000 })
  }
  await t.advance(120_000)
}

describe('every row is found by some sweep', () => {
  it('[22] after any sequence of steps, once the faults stop, everything has ended', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 1_000_000 }),
        fc.constantFrom('skip', 'block', 'park'),
        fc.array(step, { maxLength: 25 }),
        async (seed, deadHead, steps) => {
          await using t = create(seed, deadHead)
          for (const it of steps) {
            await perform(t, it)
            expect(checkInvariants(t.database)).toEqual([])
          }
          await heal(t)
          expect(checkInvariants(t.database)).toEqual([])
          const open = (await t.deliveries()).filter(({ status }) => !['done', 'discarded'].includes(status))
          expect(
            open.map(({ destination, status, lastError }) => ({ destination, status, lastError })),
          ).toEqual([])
        },
      ),
      { numRuns: 60, seed: 20_260_101, endOnFailure: false },
    )
  }, 120_000)
})
