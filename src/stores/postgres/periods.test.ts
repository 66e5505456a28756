import { describe, expect, it } from 'vitest'
import { lowestIdAt, missingRanges } from './periods.ts'

const at = (text: string): number => Date.parse(`${text}T12:00:00Z`)
const names = (...args: Parameters<typeof missingRanges>): string[] =>
  missingRanges(...args).map(({ name }) => name)

describe('ranges of ids', () => {
  it('begin with their milliseconds', () => {
    expect(lowestIdAt(0)).toBe('00000000-0000-0000-0000-000000000000')
    expect(lowestIdAt(0x0193_2b1c_5a00)).toBe('01932b1c-5a00-0000-0000-000000000000')
  })

  it('are days from the running one on', () => {
    expect(names('day', at('2026-02-27'), at('2026-03-02'), [])).toEqual([
      'p20260227',
      'p20260228',
      'p20260301',
      'p20260302',
    ])
  })

  it('are months from the running one on, also past a year', () => {
    expect(names('month', at('2026-11-30'), at('2027-01-15'), [])).toEqual(['p202611', 'p202612', 'p202701'])
  })

  it('meet without a gap', () => {
    for (const period of ['day', 'month'] as const) {
      const ranges = missingRanges(period, at('2026-01-30'), at('2026-04-02'), [])
      for (const [i, range] of ranges.slice(1).entries()) expect(range.low).toBe(ranges[i]?.high)
    }
  })

  it('leave out what exists', () => {
    const days = missingRanges('day', at('2026-02-27'), at('2026-03-02'), [])
    expect(names('day', at('2026-02-28'), at('2026-03-03'), days)).toEqual(['p20260303'])
    const months = missingRanges('month', at('2026-02-27'), at('2026-03-02'), [])
    expect(names('day', at('2026-03-30'), at('2026-04-01'), months)).toEqual(['p20260401'])
  })

  it('fill a month that began with days', () => {
    const days = missingRanges('day', at('2026-02-26'), at('2026-02-27'), [])
    expect(names('month', at('2026-02-26'), at('2026-03-15'), days)).toEqual(['p20260228', 'p202603'])
  })
})
