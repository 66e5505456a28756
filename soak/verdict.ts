/** What a soak says in the end: was anything lost, and is everything flat that must be. */
import type { Verdict } from '../chaos/checker/verdict.ts'
import { type Flatness, flatnessOf } from './flat.ts'
import { SPARED } from './regime.ts'
import { type Group, type Run, type Series, TOLERANCES } from './series.ts'

type ByName = Readonly<Record<string, Flatness>>

export interface SoakVerdict {
  readonly store: string
  readonly seed: number
  readonly minutes: number
  readonly published: number
  readonly delivered: number
  readonly lost: number
  readonly duplicates: number
  readonly samples: number
  /** Bytes, of the processes that live as long as the run. */
  readonly rss: ByName
  readonly handles: ByName
  readonly files: ByName
  /** Bytes. */
  readonly tables: ByName
  readonly indexes: ByName
  readonly rows: ByName
  readonly lag: ByName
  readonly lagMs: Run['lagMs']
  readonly flat: boolean
  readonly notFlat: readonly string[]
  readonly faults: Readonly<Record<string, number>>
  /** Every promise that the checker of chaos runs knows was kept. */
  readonly ok: boolean
}

/** Processes that are killed begin anew, so their series says nothing. */
const isJudged = ({ group, name }: Series): boolean =>
  !['rss', 'handles', 'files'].includes(group) || SPARED.includes(name)

const shown = (group: Group, value: number): string => {
  if (group === 'rss' || group === 'tables' || group === 'indexes')
    return `${(value / 1_048_576).toFixed(1)} MB`
  return group === 'lag' ? `${Math.round(value)} ms` : String(Math.round(value))
}

export const judge = (checked: Verdict, minutes: number, { series, samples, lagMs }: Run): SoakVerdict => {
  const groups: Record<Group, Record<string, Flatness>> = {
    rss: {},
    handles: {},
    files: {},
    tables: {},
    indexes: {},
    rows: {},
    lag: {},
  }
  const notFlat: string[] = series.length === 0 ? ['nothing was measured'] : []
  for (const one of series.filter(isJudged)) {
    const { group, name, points } = one
    const flatness = flatnessOf(points, minutes * 60, TOLERANCES[group])
    if (flatness === null) {
      notFlat.push(`${group} ${name}: too few samples to say`)
      continue
    }
    groups[group][name] = flatness
    const { flat, middle, last, limit } = flatness
    const [from, to, most] = [middle, last, limit].map((value) => shown(group, value))
    if (!flat) notFlat.push(`${group} ${name}: from ${from} to ${to}; up to ${most} would be flat`)
  }
  const { store, seed, committed, delivered, lost, duplicates, faults, ok } = checked
  return {
    store,
    seed,
    minutes,
    published: committed,
    delivered,
    lost,
    duplicates,
    samples,
    ...groups,
    lagMs,
    flat: notFlat.length === 0,
    notFlat,
    faults,
    ok,
  }
}
