import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { InvalidOptionError } from '../errors.ts'
import {
  exponential,
  fixed,
  linear,
  policyForType,
  type RetryPolicy,
  retryDelayMs,
  retryForType,
  steps,
} from './retry.ts'

const middle = () => 0.5
const delays = (policy: RetryPolicy, count: number, random = middle) =>
  Array.from({ length: count }, (_, i) => policy.computeDelayMs(i + 1, random))

const anyMs = fc.oneof(fc.nat(100_000), fc.double({ min: 0, max: 366 * 24 * 3_600_000, noNaN: true }))
const anyPolicy: fc.Arbitrary<RetryPolicy> = fc.oneof(
  fc
    .record({
      baseMs: anyMs,
      maxMs: anyMs,
      multiplier: fc.double({ min: 1, max: 100, noNaN: true }),
      jitter: fc.oneof(
        fc.constantFrom('half' as const, 'none' as const),
        fc.double({ min: 0, max: 1, noNaN: true }),
      ),
    })
    .map(exponential),
  anyMs.map((stepMs) => linear({ stepMs })),
  anyMs.map((delayMs) => fixed({ delayMs })),
  fc.array(anyMs, { minLength: 1 }).map((delaysMs) => steps({ delaysMs })),
)
const anyAttempts = fc.oneof(
  fc.integer({ min: 1, max: 100 }),
  fc.double(),
  fc.constant(Number.MAX_SAFE_INTEGER),
)

describe('every policy', () => {
  it('gives whole delays that are never negative, never NaN and never endless, whatever comes in', () => {
    fc.assert(
      fc.property(anyPolicy, anyAttempts, fc.double(), (policy, attempts, random) => {
        const delayMs = policy.computeDelayMs(attempts, () => random)
        expect(Number.isSafeInteger(delayMs)).toBe(true)
        expect(delayMs).toBeGreaterThanOrEqual(0)
        expect(delayMs).toBeLessThanOrEqual(2 * 366 * 24 * 3_600_000)
      }),
    )
  })

  it('gives up after 10 attempts unless told otherwise', () => {
    expect(exponential().maxAttempts).toBe(10)
    expect(linear({ maxAttempts: Number.POSITIVE_INFINITY }).maxAttempts).toBe(Number.POSITIVE_INFINITY)
  })
})

describe('exponential', () => {
  it('doubles from 200 ms to 60 s by default', () => {
    expect(delays(exponential(), 11)).toEqual([
      200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 51_200, 60_000, 60_000,
    ])
  })

  it('multiplies the capped delay by U(0.5, 1.5)', () => {
    expect(exponential().computeDelayMs(1, () => 0)).toBe(100)
    expect(exponential().computeDelayMs(20, () => 0)).toBe(30_000)
    expect(exponential().computeDelayMs(20, () => 0.999_999_9)).toBe(90_000)
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 2000 }),
        fc.double({ min: 0, max: 1, noNaN: true }),
        (attempts, u) => {
          const expected = Math.min(60_000, 200 * 2 ** (attempts - 1)) * (0.5 + u)
          expect(Math.abs(exponential().computeDelayMs(attempts, () => u) - expected)).toBeLessThanOrEqual(
            0.5,
          )
        },
      ),
    )
  })

  it('gives 60, 120, 240 s ±25 % with a base of 60 s, a cap of an hour and 3 attempts', () => {
    const policy = exponential({ baseMs: 60_000, maxMs: 3_600_000, jitter: 0.25, maxAttempts: 3 })
    expect(delays(policy, 3)).toEqual([60_000, 120_000, 240_000])
    expect(policy.computeDelayMs(1, () => 0)).toBe(45_000)
    expect(policy.computeDelayMs(1, () => 1)).toBe(75_000)
    expect(policy.computeDelayMs(50, () => 1)).toBe(4_500_000)
    expect(policy.maxAttempts).toBe(3)
  })

  it('draws no random number without jitter', () => {
    const never = () => {
      throw new Error('drawn')
    }
    expect(exponential({ jitter: 'none', multiplier: 3 }).computeDelayMs(3, never)).toBe(1800)
  })

  it('never shrinks with more attempts, for the same draw', () => {
    fc.assert(
      fc.property(fc.nat(500), fc.double({ min: 0, max: 1, noNaN: true }), (attempts, u) => {
        const policy = exponential({ multiplier: 1.7 })
        const earlier = policy.computeDelayMs(attempts, () => u)
        expect(policy.computeDelayMs(attempts + 1, () => u)).toBeGreaterThanOrEqual(earlier)
      }),
    )
  })

  it('goes beyond the range of a timer only when asked to', () => {
    const days30 = 30 * 24 * 3_600_000
    expect(exponential({ baseMs: days30, maxMs: days30, jitter: 'none' }).computeDelayMs(1, middle)).toBe(
      days30,
    )
    expect(linear().computeDelayMs(1e9, middle)).toBe(2 ** 31 - 1)
  })
})

describe('linear, fixed and steps', () => {
  it('grow by one step per failure, count one delay, and go through the list', () => {
    expect(delays(linear(), 3)).toEqual([60_000, 120_000, 180_000])
    expect(delays(linear({ stepMs: 10, maxMs: 25 }), 4)).toEqual([10, 20, 25, 25])
    expect(delays(linear({ maxMs: Number.POSITIVE_INFINITY }), 1)).toEqual([60_000])
    expect(delays(fixed({ delayMs: 5 }), 3)).toEqual([5, 5, 5])
    expect(delays(steps({ delaysMs: [1, 10, 100] }), 5)).toEqual([1, 10, 100, 100, 100])
  })

  it('try once more than there are steps', () => {
    expect(steps({ delaysMs: [1, 10] }).maxAttempts).toBe(3)
    expect(steps({ delaysMs: [1, 10], maxAttempts: 9 }).maxAttempts).toBe(9)
  })
})

describe('options', () => {
  it.each([
    () => exponential({ baseMs: -1 }),
    () => exponential({ baseMs: Number.NaN }),
    () => exponential({ maxMs: Number.POSITIVE_INFINITY }),
    () => exponential({ multiplier: 0.5 }),
    () => exponential({ jitter: 1.5 }),
    () => exponential({ jitter: 'full' as 'half' }),
    () => exponential({ maxAttempts: 0 }),
    () => exponential({ maxAttempts: 2.5 }),
    () => exponential({ baseMs: '200' as unknown as number }),
    () => linear({ stepMs: -1 }),
    () => fixed({} as { delayMs: number }),
    () => steps({ delaysMs: [] }),
    () => steps({ delaysMs: [1, Number.NaN] }),
    () => retryForType({ default: exponential(), types: { '*.x': exponential() } }),
  ])('that cannot work are refused: %s', (build) => {
    expect(build).toThrow(InvalidOptionError)
  })
})

describe('retryForType', () => {
  const [usual, exact, near, far, any] = [1, 2, 3, 4, 5].map((delayMs) => fixed({ delayMs })) as [
    RetryPolicy,
    RetryPolicy,
    RetryPolicy,
    RetryPolicy,
    RetryPolicy,
  ]

  it('lets the most specific pattern decide, in whatever order they stand', () => {
    const types = { 'order.*': far, 'order.line.*': near, 'order.line.added': exact, 'user.created': any }
    const policy = retryForType({ default: usual, types })
    expect(policyForType(policy, 'order.line.added')).toBe(exact)
    expect(policyForType(policy, 'order.line.removed')).toBe(near)
    expect(policyForType(policy, 'order.placed')).toBe(far)
    expect(policyForType(policy, 'invoice.sent')).toBe(usual)
    expect(policyForType(retryForType({ default: usual, types: { '*': any, a: exact } }), 'b')).toBe(any)
  })

  it('is a policy itself: the default one', () => {
    const policy = retryForType({ default: usual, types: {} })
    expect(policy.maxAttempts).toBe(10)
    expect(policy.computeDelayMs(1, middle)).toBe(1)
    expect(policyForType(usual, 'x')).toBe(usual)
  })

  it('go on with the policy itself where one written by hand throws or answers nonsense', () => {
    const byHand = (forType: () => unknown): RetryPolicy =>
      ({ ...exponential(), forType }) as unknown as RetryPolicy
    const throwing = byHand(() => {
      throw new Error('no policy today')
    })
    for (const policy of [throwing, byHand(() => null), byHand(() => ({})), byHand(() => 'often')])
      expect(policyForType(policy, 'x')).toBe(policy)
  })
})

describe('retryDelayMs', () => {
  it.each([Number.NaN, -1, '5', undefined])(
    'falls back to the default policy when a policy answers %s',
    (answer) => {
      const policy = { maxAttempts: 1, computeDelayMs: () => answer as number }
      expect(retryDelayMs(policy, 1, middle)).toBe(200)
    },
  )

  it('contains a policy that throws', () => {
    const policy = {
      maxAttempts: 1,
      computeDelayMs: () => {
        throw new Error('boom')
      },
    }
    expect(retryDelayMs(policy, 2, middle)).toBe(400)
  })

  it('rounds and bounds what a policy says', () => {
    const saying = (delayMs: number) => ({ maxAttempts: 1, computeDelayMs: () => delayMs })
    expect(retryDelayMs(saying(1.6), 1, middle)).toBe(2)
    expect(retryDelayMs(saying(Number.POSITIVE_INFINITY), 1, middle)).toBe(366 * 24 * 3_600_000)
  })
})

describe('the options of a policy', () => {
  it.each([
    [() => exponential({ basMs: 1 } as object), 'did you mean "baseMs"'],
    [() => linear({ stepMS: 1 } as object), 'did you mean "stepMs"'],
    [() => fixed({ delayMs: 1, maxAttemps: 2 } as { delayMs: number }), 'did you mean "maxAttempts"'],
    [() => steps({ delaysMs: [1], max: 2 } as { delaysMs: number[] }), 'does not know "max"'],
  ])('are refused when their name is not known', (make, text) => {
    expect(make).toThrow(text)
  })
})
