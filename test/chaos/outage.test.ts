/** What `npm run outage` makes of its figures. */
import { describe, expect, it } from 'vitest'
import { type Figures, problemsOf, slownessOf } from '../../chaos/outage/verdict.ts'

const PACE = { committedPerSecond: 100, heardPerSecond: 100, p50Ms: 10, p99Ms: 40 }

const well: Figures = {
  broker: 'kafka',
  seconds: 60,
  awayMs: 70_000,
  committed: 9_000,
  delivered: 9_000,
  lost: 0,
  duplicates: 3,
  outOfOrder: 0,
  dead: 0,
  attemptsSpent: 0,
  waitingAtEnd: 6_000,
  breaker: { openAfterMs: 200, openShare: 0.98 },
  recoveryMs: 12_000,
  other: { before: PACE, during: PACE, after: PACE },
  otherLost: 0,
}

describe('an outage', () => {
  it('is well when everything arrived and nothing was spent', () => {
    expect([...problemsOf(well), ...slownessOf(well)]).toEqual([])
  })

  it.each<readonly [string, Partial<Figures>]>([
    ['never reached the broker', { lost: 1 }],
    ['never reached the other destination', { otherLost: 1 }],
    ['came after a later one', { outOfOrder: 1 }],
    ['are dead', { dead: 1 }],
    ['attempts were spent', { attemptsSpent: 1 }],
    ['never seen open', { breaker: { openAfterMs: null, openShare: 0 } }],
    ['not everything was delivered', { recoveryMs: null }],
  ])('is not when it %s', (words, change) => {
    const problems = problemsOf({ ...well, ...change })
    expect(problems).toHaveLength(1)
    expect(problems[0]).toContain(words)
  })

  it.each([
    ['heard 60 %', { heardPerSecond: 60 }],
    ['median was 3000 ms', { p50Ms: 3_000 }],
  ])('nor when the other destination %s', (words, slow) => {
    const problems = slownessOf({ ...well, other: { ...well.other, during: { ...PACE, ...slow } } })
    expect(problems).toHaveLength(1)
    expect(problems[0]).toContain(words)
  })
})
