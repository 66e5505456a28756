import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { InvalidOptionError } from '../errors.ts'
import { createRateLimiter } from './rate-limit.ts'

const anyLimit = fc.record({
  perSecond: fc.double({ min: 0.01, max: 5000, noNaN: true }),
  burst: fc.integer({ min: 1, max: 200 }),
})
const anySteps = fc.array(fc.record({ passMs: fc.nat(2000), count: fc.nat(500) }), { maxLength: 40 })

describe('createRateLimiter', () => {
  it('grants the burst at once and then the rate', () => {
    const limiter = createRateLimiter({ perSecond: 10, burst: 5 })
    expect(limiter.take(0, 100)).toBe(5)
    expect(limiter.take(0, 1)).toBe(0)
    expect(limiter.waitMs(0)).toBe(100)
    expect(limiter.take(99, 1)).toBe(0)
    expect(limiter.take(100, 5)).toBe(1)
    expect(limiter.take(10_000, 100)).toBe(5)
  })

  it('allows what one second allows at once when no burst is given', () => {
    expect(createRateLimiter({ perSecond: 30 }).take(0, 100)).toBe(30)
    expect(createRateLimiter({ perSecond: 0.5 }).take(0, 100)).toBe(1)
  })

  it('never grants more than burst + rate × time, however it is asked', () => {
    fc.assert(
      fc.property(anyLimit, anySteps, (limit, steps) => {
        const limiter = createRateLimiter(limit)
        let nowMs = 1000
        let granted = 0
        for (const { passMs, count } of steps) {
          nowMs += passMs
          const now = limiter.take(nowMs, count)
          expect(now).toBeLessThanOrEqual(count)
          granted += now
        }
        const allowed = limit.burst + (limit.perSecond * (nowMs - 1000)) / 1000
        expect(granted).toBeLessThanOrEqual(allowed + 0.001)
      }),
    )
  })

  it('keeps its word: after waitMs there is one, and well before there is none', () => {
    fc.assert(
      fc.property(anyLimit, fc.nat(60_000), fc.nat(50_000), (limit, rampMs, passMs) => {
        const limiter = createRateLimiter(limit)
        limiter.slowStart(500, rampMs)
        let nowMs = 500 + passMs
        limiter.take(nowMs, 1_000_000)
        const waitMs = limiter.waitMs(nowMs)
        if (waitMs > 2) expect(limiter.take(nowMs + waitMs - 2, 1)).toBe(0)
        nowMs += waitMs
        expect(limiter.take(nowMs, 1)).toBe(1)
      }),
    )
  })

  it('uses the rate to the full when somebody always asks', () => {
    const limiter = createRateLimiter({ perSecond: 333, burst: 10 })
    let granted = 0
    for (let nowMs = 0; nowMs <= 10_000; nowMs += 7) granted += limiter.take(nowMs, 100)
    expect(granted).toBeGreaterThan(3330)
    expect(granted).toBeLessThanOrEqual(3340)
  })

  it('gives nothing for a clock that stands still, steps back or is broken', () => {
    const limiter = createRateLimiter({ perSecond: 1, burst: 1 })
    expect(limiter.take(5000, 1)).toBe(1)
    for (const nowMs of [5000, 0, Number.NaN, 5000]) expect(limiter.take(nowMs, 1)).toBe(0)
    expect(limiter.take(6000, 1)).toBe(1)
  })

  it('takes back what was granted but not used, within the burst', () => {
    const limiter = createRateLimiter({ perSecond: 1, burst: 5 })
    limiter.take(0, 5)
    limiter.giveBack(2)
    expect(limiter.take(0, 5)).toBe(2)
    for (const count of [99, -1, Number.NaN]) limiter.giveBack(count)
    expect(limiter.take(0, 99)).toBe(5)
  })

  it('takes senseless counts for none', () => {
    const limiter = createRateLimiter({ perSecond: 1, burst: 5 })
    for (const count of [0, -3, Number.NaN, 0.5]) expect(limiter.take(0, count)).toBe(0)
    expect(limiter.take(0, 2.9)).toBe(2)
  })

  it('climbs from a tenth of the rate to all of it after a slow start', () => {
    const limiter = createRateLimiter({ perSecond: 1000, burst: 100 })
    limiter.slowStart(0, 10_000)
    const perSecond = Array.from({ length: 12 }, (_, second) => {
      let granted = 0
      for (let ms = 0; ms < 1000; ms += 5) granted += limiter.take(second * 1000 + ms, 1000)
      return granted
    })
    expect(perSecond[0]).toBeGreaterThan(130)
    expect(perSecond[0]).toBeLessThan(165)
    for (let i = 1; i < 10; i++)
      expect(perSecond[i]).toBeGreaterThanOrEqual((perSecond[i - 1] as number) + 80)
    expect(perSecond[11]).toBeGreaterThanOrEqual(999)
    expect(perSecond[11]).toBeLessThanOrEqual(1001)
  })

  it('does not spend at once what was saved before a slow start', () => {
    const limiter = createRateLimiter({ perSecond: 100, burst: 100 })
    limiter.slowStart(0, 1000)
    expect(limiter.take(0, 1000)).toBe(10)
  })

  it('ends a ramp when the next one has no length', () => {
    const limiter = createRateLimiter({ perSecond: 100, burst: 1 })
    limiter.slowStart(0, 60_000)
    limiter.slowStart(0, 0)
    limiter.take(0, 1)
    expect(limiter.waitMs(0)).toBe(10)
  })

  it('changes its rate without giving back what was spent', () => {
    const limiter = createRateLimiter({ perSecond: 1, burst: 1 })
    expect(limiter.take(0, 1)).toBe(1)
    limiter.setRate(0, { perSecond: 100, burst: 10 })
    expect(limiter.take(0, 10)).toBe(0)
    expect(limiter.take(50, 10)).toBe(5)
    limiter.take(1000, 0)
    limiter.setRate(1000, { perSecond: 100, burst: 2 })
    expect(limiter.take(1000, 10)).toBe(2)
  })

  it.each([
    { perSecond: 0 },
    { perSecond: -1 },
    { perSecond: Number.NaN },
    { perSecond: Number.POSITIVE_INFINITY },
    { perSecond: 1, burst: 0 },
    { perSecond: 1, burst: 1.5 },
  ])('refuses %j', (limit) => {
    expect(() => createRateLimiter(limit)).toThrow(InvalidOptionError)
    expect(() => createRateLimiter({ perSecond: 1 }).setRate(0, limit)).toThrow(InvalidOptionError)
  })

  it('refuses a ramp without sense', () => {
    expect(() => createRateLimiter({ perSecond: 1 }).slowStart(0, -1)).toThrow(InvalidOptionError)
  })
})
