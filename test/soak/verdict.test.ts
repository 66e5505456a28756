/** A verdict is worth as much as the leaks that it finds. */
import { describe, expect, it } from 'vitest'
import type { Verdict } from '../../chaos/checker/verdict.ts'
import { flatnessOf, type Point } from '../../soak/flat.ts'
import { plotsOf } from '../../soak/plots.ts'
import { type Group, type Run, type Series, TOLERANCES } from '../../soak/series.ts'
import { judge } from '../../soak/verdict.ts'

const MINUTES = 15
const SECONDS = MINUTES * 60
const MB = 1_048_576

const over = (value: (at: number) => number): Point[] =>
  Array.from({ length: SECONDS / 5 }, (_, i) => [(i + 1) * 5, value((i + 1) * 5)] as const)

const series = (group: Group, name: string, value: (at: number) => number): Series => ({
  group,
  name,
  points: over(value),
})

const checked = { store: 'sqlite', seed: 1, committed: 10, delivered: 20, lost: 0, duplicates: 1, ok: true }

const judged = (...all: readonly Series[]) =>
  judge({ ...checked, faults: { 'kill-worker': 2 } } as unknown as Verdict, MINUTES, {
    beganAt: 0,
    samples: SECONDS / 5,
    series: all,
    lagMs: { p50: 1, p99: 2, max: 3 },
  } satisfies Run)

describe('flat', () => {
  it('is what warms up, wobbles, has spikes and stays', () => {
    const warm = series('rss', 'worker1', (at) => (at < 200 ? at * MB : 200 * MB) + (at % 35) * MB)
    const spikes = series('lag', 'p99', (at) => (at % 60 === 0 ? 9_000 : 20))
    const sawtooth = series('tables', 'deliveries', (at) => (1 + (at % 60) / 60) * MB)
    expect(judged(warm, spikes, sawtooth)).toMatchObject({ flat: true, notFlat: [], lost: 0, ok: true })
  })

  it.each<[Group, string, number, number]>([
    ['rss', 'worker1', 120 * MB, 0.1 * MB],
    ['handles', 'both1', 8, 0.05],
    ['files', 'producer1', 30, 0.05],
    ['tables', 'finished', MB, 4_096],
    ['indexes', 'deliveries_pkey', MB, 4_096],
    ['rows', 'dedup', 10, 10],
    ['lag', 'oldest', 100, 10],
  ])('is not what leaks: %s of %s', (group, name, from, perSecond) => {
    const { flat, notFlat } = judged(series(group, name, (at) => from + perSecond * at))
    expect(flat).toBe(false)
    expect(notFlat).toEqual([expect.stringContaining(`${group} ${name}: from `)])
  })

  it('is not asked of processes that are killed and begin anew', () => {
    expect(
      judged(
        series('rss', 'worker2', (at) => at * MB),
        series('lag', 'p50', () => 1),
      ).flat,
    ).toBe(true)
  })

  it('cannot be said of too few samples, nor of nothing', () => {
    expect(flatnessOf([[1, 1]], SECONDS, TOLERANCES.rss)).toBeNull()
    expect(judged()).toMatchObject({ flat: false, notFlat: ['nothing was measured'] })
  })
})

describe('plots', () => {
  it('are one SVG per kind of measurement, with every line and a tick per fault', () => {
    const tables = Array.from({ length: 9 }, (_, i) => series('tables', `table${i}`, () => i * MB))
    const plots = plotsOf({ series: [series('lag', 'p99', () => 20), ...tables] }, SECONDS, [10, 20], 'foot')
    expect(plots.map(({ name }) => name)).toEqual(['tables', 'lag'])
    const [first] = plots
    expect(first?.svg.match(/stroke-width="1.5" *\/>|stroke-width="1.5"\/>/g)).toHaveLength(2 + 7)
    expect(first?.svg).toContain('3 others')
  })
})
