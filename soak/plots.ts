/** Plots of a soak: lines over time, with a tick at the bottom for every fault. */
import { count, framed, linearScale, logarithmicScale, type Scale, text } from '../scripts/svg.ts'
import type { Point } from './flat.ts'
import type { Group, Run, Series } from './series.ts'

const WIDTH = 760
const HEIGHT = 330
const LEFT = 70
const RIGHT = 190
const TOP = 70
const BOTTOM = 60
const COLOURS = ['#0b6e4f', '#d08c2c', '#7d5ba6', '#2f6fb0', '#b0413e', '#6b7a8f', '#3d9a9b', '#8a6d3b']
/** More lines than this cannot be told apart; the rest is drawn as its sum. */
const MOST_LINES = 7

interface Line {
  readonly label: string
  readonly points: readonly Point[]
}

interface Chart {
  readonly title: string
  readonly subtitle: string
  readonly lines: readonly Line[]
  readonly logarithmic?: boolean
  readonly format: (value: number) => string
}

export interface Plot {
  /** Of the file, without its ending. */
  readonly name: string
  readonly svg: string
}

const plain = (value: number): string => (value < 10 ? String(Number(value.toFixed(1))) : count(value))

/** A process that is killed comes back with another line. */
const GAP_SECONDS = 15

const path = (points: readonly Point[], x: Scale['at'], y: Scale['at']): string =>
  points
    .map(([at, value], i) => {
      const before = points[i - 1]?.[0] ?? Number.NEGATIVE_INFINITY
      return `${at - before > GAP_SECONDS ? 'M' : 'L'}${x(at).toFixed(1)} ${y(value).toFixed(1)}`
    })
    .join('')

/** Names at the right, at the height of their last value, but not over each other. */
const legend = (lines: readonly Line[], y: Scale['at'], format: Chart['format']): string[] => {
  const wanted = lines
    .map(({ label, points }, i) => ({
      label,
      last: points.at(-1)?.[1] ?? 0,
      colour: COLOURS[i % COLOURS.length],
    }))
    .toSorted((a, b) => y(a.last) - y(b.last))
  let lowest = TOP - 12
  const spots = wanted.map(({ last }) => {
    lowest = Math.max(lowest + 15, y(last) + 4)
    return lowest
  })
  // What does not fit at the bottom is moved up as a whole.
  const over = Math.max(0, (spots.at(-1) ?? 0) - (HEIGHT - BOTTOM + 6))
  return wanted.map(({ label, last, colour }, i) =>
    text(
      WIDTH - RIGHT + 8,
      (spots[i] ?? 0) - over,
      `${label} ${format(last)}`,
      `font-size="11" fill="${colour}"`,
    ),
  )
}

const draw = (chart: Chart, lastsSeconds: number, faultsAt: readonly number[], footer: string): string => {
  const values = chart.lines.flatMap(({ points }) => points.map(([, value]) => value))
  const highest = Math.max(1e-3, ...values)
  const bottom = HEIGHT - BOTTOM
  const y = chart.logarithmic
    ? logarithmicScale(1, highest, [bottom, TOP])
    : linearScale(highest, [bottom, TOP])
  const minutes = linearScale(lastsSeconds / 60, [LEFT, WIDTH - RIGHT])
  const x = (seconds: number): number => LEFT + (seconds / lastsSeconds) * (WIDTH - RIGHT - LEFT)
  const grid = y.ticks.map((tick) => {
    const at = y.at(tick)
    const label = text(LEFT - 8, at + 4, chart.format(tick), 'text-anchor="end" fill="#556"')
    return `<path d="M${LEFT} ${at.toFixed(1)}H${WIDTH - RIGHT}" stroke="#dfe3e8"/>${label}`
  })
  const times = minutes.ticks
    .filter((tick) => tick * 60 <= lastsSeconds)
    .map((tick) => text(x(tick * 60), bottom + 22, `${plain(tick)} min`, 'text-anchor="middle" fill="#556"'))
  const faults = faultsAt
    .filter((at) => at >= 0 && at <= lastsSeconds)
    .map((at) => `<path d="M${x(at).toFixed(1)} ${bottom}v7" stroke="#b0413e" stroke-width="1.5"/>`)
  const lines = chart.lines.map(
    ({ points }, i) =>
      `<path d="${path(points, x, y.at)}" fill="none" stroke="${COLOURS[i % COLOURS.length]}" stroke-width="1.5"/>`,
  )
  const { title, subtitle } = chart
  return framed({ title, subtitle, footer, width: WIDTH, height: HEIGHT }, [
    ...grid,
    ...times,
    ...faults,
    ...lines,
    ...legend(chart.lines, y.at, chart.format),
  ])
}

const highestOf = ({ points }: Line): number => Math.max(...points.map(([, value]) => value))

const sumOf = (lines: readonly Line[]): Point[] => {
  const sums = new Map<number, number>()
  for (const { points } of lines) for (const [at, value] of points) sums.set(at, (sums.get(at) ?? 0) + value)
  return [...sums]
}

/** The largest, and the sum of all others. */
const largest = (lines: readonly Line[]): Line[] => {
  const sorted = lines.toSorted((a, b) => highestOf(b) - highestOf(a))
  if (sorted.length <= MOST_LINES) return sorted
  const rest = sorted.slice(MOST_LINES - 1)
  return [...sorted.slice(0, MOST_LINES - 1), { label: `${rest.length} others`, points: sumOf(rest) }]
}

const megabytes = (lines: readonly Line[]): Line[] =>
  lines.map(({ label, points }) => ({
    label,
    points: points.map(([at, value]) => [at, value / 1_048_576] as const),
  }))

export const plotsOf = (
  { series }: Pick<Run, 'series'>,
  lastsSeconds: number,
  faultsAt: readonly number[],
  footer: string,
): Plot[] => {
  const of = (group: Group): Line[] =>
    series.filter((one: Series) => one.group === group).map(({ name, points }) => ({ label: name, points }))
  const mb = 'MB; ticks at the bottom are faults'
  const charts: Readonly<Record<string, Chart>> = {
    rss: {
      title: 'Memory of the processes',
      subtitle: `resident ${mb}`,
      lines: megabytes(of('rss')),
      format: plain,
    },
    handles: {
      title: 'Handles of the processes',
      subtitle: 'active resources of the event loop; ticks at the bottom are faults',
      lines: of('handles'),
      format: plain,
    },
    files: {
      title: 'Open files and sockets of the processes',
      subtitle: 'descriptors; ticks at the bottom are faults',
      lines: of('files'),
      format: plain,
    },
    tables: {
      title: 'Sizes of tables',
      subtitle: mb,
      lines: megabytes(largest(of('tables'))),
      format: plain,
    },
    indexes: {
      title: 'Sizes of indexes',
      subtitle: mb,
      lines: megabytes(largest(of('indexes'))),
      format: plain,
    },
    rows: {
      title: 'Rows in tables',
      subtitle: 'rows; ticks at the bottom are faults',
      lines: largest(of('rows')),
      format: plain,
    },
    lag: {
      title: 'Lag',
      subtitle:
        'ms, logarithmic: commit to delivery per window, and the oldest that is due; ticks are faults',
      lines: of('lag'),
      logarithmic: true,
      format: plain,
    },
  }
  return Object.entries(charts).flatMap(([name, chart]) =>
    chart.lines.length === 0 ? [] : [{ name, svg: draw(chart, lastsSeconds, faultsAt, footer) }],
  )
}
