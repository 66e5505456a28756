import { describe, expect, it } from 'vitest'
import { lowestIdAt, missingPeriods, periodNamed } from './periods.ts'

const at = (text: string): number => Date.parse(`${text}T12:00:00Z`)
const names = (...args: Parameters<typeof missingPeriods>): string[] =>
  missingPeriods(...args).map(({ name }) => name)
const named = (...all: string[]) => all.map((name) => periodNamed(name)!)

describe('periods', () => {
  it('are known by their names', () => {
    expect(periodNamed('p20240229')).toEqual({
      name: 'p20240229',
      startMs: Date.UTC(2024, 1, 29),
      endMs: Date.UTC(2024, 2, 1),
    })
    expect(periodNamed('p202412')?.endMs).toBe(Date.UTC(2025, 0, 1))
    for (const other of ['pmax', 'p2024', 'p20240230', 'p202413', 'x20240101', 'p202401011'])
      expect(periodNamed(other), other).toBeNull()
  })

  it('begin with the first id of their first millisecond', () => {
    expect(lowestIdAt(0)).toBe('0'.repeat(32))
    expect(lowestIdAt(1_800_000_000_000)).toBe('01a3185c5000'.padEnd(32, '0'))
  })

  it('are missing from today to the end of what is looked ahead to', () => {
    expect(names([], 'day', at('2026-12-30'), at('2027-01-01'))).toEqual([
      'p20261230',
      'p20261231',
      'p20270101',
    ])
    expect(names([], 'month', at('2026-12-30'), at('2027-01-01'))).toEqual(['p202612', 'p202701'])
    expect(names([], 'day', at('2026-12-30'), at('2026-12-30'))).toEqual(['p20261230'])
  })

  it('are added behind the last one, also when the period has changed', () => {
    const [start, end] = [at('2026-11-15'), at('2026-11-17')]
    expect(names(named('p20261115', 'p20261116'), 'day', start, end)).toEqual(['p20261117'])
    expect(names(named('p20261115', 'p20261116', 'p20261117'), 'day', start, end)).toEqual([])
    expect(names(named('p202611'), 'day', start, at('2026-12-02'))).toEqual(['p20261201', 'p20261202'])
    expect(names(named('p20261115'), 'month', start, at('2026-12-02'))).toEqual(['p202611', 'p202612'])
    expect(names(named('p20250101'), 'day', start, start)).toEqual(['p20261115'])
  })
})
