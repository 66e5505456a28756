/**
 * Whether something has stopped growing. The median of the last third of a run is compared with the median of the
 * middle third: the first third is for filling caches and tables, and medians do not mind a spike.
 */

/** Seconds since the run began, and a value. */
export type Point = readonly [at: number, value: number]

export interface Tolerance {
  /** Of the middle third, 0.1 is a tenth more. */
  readonly share: number
  /** And so much on top, in the unit of the series, for what is small. */
  readonly plus: number
}

export interface Flatness {
  readonly middle: number
  readonly last: number
  readonly max: number
  /** Highest value at which the last third would still count as flat. */
  readonly limit: number
  readonly flat: boolean
}

/** Fewer samples in a third say nothing. */
const FEWEST = 3

export const medianOf = (values: readonly number[]): number => {
  const sorted = values.toSorted((a, b) => a - b)
  const half = sorted.length >> 1
  const upper = sorted[half] ?? Number.NaN
  return sorted.length % 2 === 1 ? upper : ((sorted[half - 1] ?? Number.NaN) + upper) / 2
}

/** Null when there are too few samples to say. */
export const flatnessOf = (
  points: readonly Point[],
  lastsSeconds: number,
  { share, plus }: Tolerance,
): Flatness | null => {
  const within = (from: number, to: number): number[] =>
    points.filter(([at]) => at >= from * lastsSeconds && at < to * lastsSeconds).map(([, value]) => value)
  const [middles, lasts] = [within(1 / 3, 2 / 3), within(2 / 3, Number.POSITIVE_INFINITY)]
  if (middles.length < FEWEST || lasts.length < FEWEST) return null
  const [middle, last] = [medianOf(middles), medianOf(lasts)]
  const limit = middle * (1 + share) + plus
  return { middle, last, max: Math.max(...points.map(([, value]) => value)), limit, flat: last <= limit }
}
