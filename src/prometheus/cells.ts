/** The figures of one outbox: a cell for each combination of labels, found by the list that the recorder keeps of it. */
import type { Family, FamilyName, LabelValues } from '../core/runtime/metric-families.ts'
import { FAMILIES } from '../core/runtime/metric-families.ts'
import type { MetricSink } from '../core/runtime/recorded-metrics.ts'

interface Cell {
  /** The figure, or the sum of what was observed. */
  value: number
  /** How many fell into each bucket alone; the last one has no upper bound. Empty unless it is a histogram. */
  readonly counts: number[]
}

export interface Sample {
  /** Behind the name of the family: `_total`, `_bucket` and so on. */
  readonly suffix: string
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

export class Cells implements MetricSink {
  readonly #families = new Map<FamilyName, Map<LabelValues, Cell>>()
  readonly #constant: Readonly<Record<string, string>>

  constructor(constant: Readonly<Record<string, string>>) {
    this.#constant = constant
  }

  add(family: FamilyName, labels: LabelValues, value: number): void {
    this.#cell(family, labels).value += value
  }

  set(family: FamilyName, labels: LabelValues, value: number): void {
    this.#cell(family, labels).value = value
  }

  observe(family: FamilyName, labels: LabelValues, value: number): void {
    const cell = this.#cell(family, labels)
    const { buckets = [] } = FAMILIES[family] as Family
    let i = 0
    while (i < buckets.length && value > (buckets[i] as number)) i += 1
    cell.counts[i] = (cell.counts[i] as number) + 1
    cell.value += value
  }

  *samples(name: FamilyName): Generator<Sample> {
    const family: Family = FAMILIES[name]
    for (const [values, cell] of this.#families.get(name) ?? []) {
      const labels = { ...this.#constant }
      for (const [i, label] of family.labels.entries()) labels[label] = values[i] ?? ''
      if (family.kind === 'histogram') yield* buckets(family, labels, cell)
      else yield { suffix: family.kind === 'counter' ? '_total' : '', labels, value: cell.value }
    }
  }

  #cell(name: FamilyName, labels: LabelValues): Cell {
    let cells = this.#families.get(name)
    if (cells === undefined) {
      cells = new Map()
      this.#families.set(name, cells)
    }
    const known = cells.get(labels)
    if (known !== undefined) return known
    const { buckets } = FAMILIES[name] as Family
    const made = { value: 0, counts: buckets === undefined ? [] : [...buckets.map(() => 0), 0] }
    cells.set(labels, made)
    return made
  }
}

function* buckets(family: Family, labels: Sample['labels'], { counts, value }: Cell): Generator<Sample> {
  let total = 0
  for (const [i, count] of counts.entries()) {
    total += count
    const le = String(family.buckets?.[i] ?? '+Inf')
    yield { suffix: '_bucket', labels: { ...labels, le }, value: total }
  }
  yield { suffix: '_sum', labels, value }
  yield { suffix: '_count', labels, value: total }
}
