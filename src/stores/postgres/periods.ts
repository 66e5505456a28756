/** Days and months as ranges of ids: ids of ours begin with their milliseconds, so a range of time is one of ids. */
import type { PartitionPeriod } from './options.ts'

/** A partition that should be there: from `low` up to, but not including, `high`. */
export interface IdRange {
  /** `p20261115` for a day, `p202611` for a month. */
  readonly name: string
  readonly low: string
  readonly high: string
}

const DAY_MS = 86_400_000

/** The lowest id of this millisecond. */
export const lowestIdAt = (ms: number): string => {
  const digits = Math.max(0, Math.floor(ms)).toString(16).padStart(12, '0')
  return `${digits.slice(0, 8)}-${digits.slice(8)}-0000-0000-000000000000`
}

const rangeOf = (period: PartitionPeriod, fromMs: number, toMs: number): IdRange => {
  const date = new Date(fromMs).toISOString().slice(0, 10).replaceAll('-', '')
  return {
    name: `p${period === 'day' ? date : date.slice(0, 6)}`,
    low: lowestIdAt(fromMs),
    high: lowestIdAt(toMs),
  }
}

const daysBetween = (fromMs: number, toMs: number): readonly IdRange[] => {
  const days: IdRange[] = []
  for (let at = Math.floor(fromMs / DAY_MS) * DAY_MS; at < toMs; at += DAY_MS) {
    days.push(rangeOf('day', at, at + DAY_MS))
  }
  return days
}

const monthAt = (ms: number, later = 0): number => {
  const date = new Date(ms)
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + later, 1)
}

type Bounds = Pick<IdRange, 'low' | 'high'>

const overlap = (one: Bounds, other: Bounds): boolean => one.low < other.high && other.low < one.high

const covers = (outer: Bounds, inner: Bounds): boolean => outer.low <= inner.low && inner.high <= outer.high

/**
 * What is missing between two times. Where days were made before and months are wanted now, the rest of a month
 * that has begun with days is made of days.
 */
export const missingRanges = (
  period: PartitionPeriod,
  fromMs: number,
  toMs: number,
  existing: readonly Bounds[],
): readonly IdRange[] => {
  const isFree = (range: IdRange): boolean => !existing.some((one) => overlap(one, range))
  if (period === 'day') return daysBetween(fromMs, toMs).filter(isFree)
  const missing: IdRange[] = []
  for (let start = monthAt(fromMs); start < toMs; start = monthAt(start, 1)) {
    const end = monthAt(start, 1)
    const month = rangeOf('month', start, end)
    if (isFree(month)) missing.push(month)
    else if (!existing.some((one) => covers(one, month)))
      missing.push(...daysBetween(Math.max(start, fromMs), end).filter(isFree))
  }
  return missing
}
