/** How long after a fault its backlog was gone. */
import type { FaultEnd } from './faults.ts'

export interface Recovery {
  readonly p50: number
  readonly p99: number
  readonly max: number
  /** The longest of each kind of fault. */
  readonly byKind: Readonly<Record<string, number>>
}

const percentile = (sorted: readonly number[], share: number): number =>
  sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0

/** The first index whose value is not below. */
const lowerBound = (sorted: readonly number[], value: number): number => {
  let [low, high] = [0, sorted.length]
  while (low < high) {
    const middle = (low + high) >> 1
    if ((sorted[middle] as number) < value) low = middle + 1
    else high = middle
  }
  return low
}

/**
 * Per fault: from its end until everything that was committed by then had arrived. The next fault may make it
 * longer; that is counted against both.
 */
export const recoveryOf = (
  ends: readonly FaultEnd[],
  waits: Iterable<readonly [from: number, to: number]>,
): Recovery => {
  const ordered = ends.toSorted((a, b) => a.at - b.at)
  const sorted = ordered.map(({ at }) => at)
  const longest = sorted.map(() => 0)
  for (const [from, to] of waits) {
    for (let i = lowerBound(sorted, from); i < sorted.length && (sorted[i] as number) < to; i += 1)
      longest[i] = Math.max(longest[i] as number, to - (sorted[i] as number))
  }
  const byKind: Record<string, number> = {}
  for (const [i, { kind }] of ordered.entries())
    byKind[kind] = Math.max(byKind[kind] ?? 0, longest[i] as number)
  const times = longest.toSorted((a, b) => a - b)
  return { p50: percentile(times, 0.5), p99: percentile(times, 0.99), max: times.at(-1) ?? 0, byKind }
}
