/**
 * Days and months as ranges of ids. Ids begin with the milliseconds at which they were made, so a period is a
 * range of them, and a partition needs only to know where its own ends.
 */
import type { PartitionPeriod } from './options.ts'

export interface Period {
  /** `p20261115` or `p202611`. */
  readonly name: string
  readonly startMs: number
  readonly endMs: number
}

export const TAIL = 'pmax'

/** The digits of the lowest id that was made at this time. */
export const lowestIdAt = (ms: number): string =>
  Math.max(0, Math.trunc(ms)).toString(16).padStart(12, '0').padEnd(32, '0')

const periodOf = (ms: number, period: PartitionPeriod): Period => {
  const date = new Date(ms)
  const [year, month, day] = [date.getUTCFullYear(), date.getUTCMonth(), date.getUTCDate()]
  const digits = date.toISOString().slice(0, 10).replaceAll('-', '')
  return period === 'day'
    ? { name: `p${digits}`, startMs: Date.UTC(year, month, day), endMs: Date.UTC(year, month, day + 1) }
    : {
        name: `p${digits.slice(0, 6)}`,
        startMs: Date.UTC(year, month, 1),
        endMs: Date.UTC(year, month + 1, 1),
      }
}

const NAME = /^p(\d{4})(\d{2})(\d{2})?$/

/** Null for the tail, and for partitions that somebody else has made. */
export const periodNamed = (name: string): Period | null => {
  const [, year, month, day] = NAME.exec(name) ?? []
  if (year === undefined || month === undefined) return null
  const ms = Date.UTC(Number(year), Number(month) - 1, Number(day ?? '1'))
  const period = periodOf(ms, day === undefined ? 'month' : 'day')
  return period.name === name ? period : null
}

/**
 * Periods to be made so that `untilMs` has one, lowest first. Partitions are split off the tail, so they can only be
 * added behind the last one there is, whatever period that was made for.
 */
export const missingPeriods = (
  existing: readonly Period[],
  period: PartitionPeriod,
  nowMs: number,
  untilMs: number,
): readonly Period[] => {
  const highest = existing.reduce((end, { endMs }) => Math.max(end, endMs), 0)
  const missing: Period[] = []
  for (let ms = Math.max(nowMs, highest); ms <= untilMs || missing.length === 0; ) {
    if (ms > untilMs && highest > nowMs) break
    const next = periodOf(ms, period)
    if (!existing.some(({ name }) => name === next.name)) missing.push(next)
    ms = next.endMs
  }
  return missing
}
