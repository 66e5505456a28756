/** Plots of a run as SVG, written by hand: bars from zero with the spread of the runs, and every value in figures. */
import { count, framed, linearScale, logarithmicScale, type Scale, text } from '../scripts/svg.ts'
import type { BenchResult, BySubject, Figure } from './peers/result.ts'
import { SUBJECT_NAMES, type SubjectName } from './peers/subject.ts'
import { SUBJECT_LABELS } from './tables.ts'

export interface Plot {
  /** Of the file, without its ending. */
  readonly name: string
  readonly alt: string
  readonly svg: string
}

interface Bar {
  readonly label: string
  readonly figure: Figure
  readonly colour: string
}

interface Group {
  readonly title: string
  readonly bars: readonly Bar[]
}

interface Chart {
  readonly title: string
  /** What is measured, its unit, and which way is better. */
  readonly subtitle: string
  readonly groups: readonly Group[]
  readonly logarithmic?: boolean
  readonly format: (value: number) => string
}

export const COLOURS: Readonly<Record<SubjectName | 'none', string>> = {
  posthaste: '#0b6e4f',
  graphile: '#d08c2c',
  pgboss: '#7d5ba6',
  handmade: '#6b7a8f',
  samerows: '#9aa7b8',
  none: '#a9b2bd',
}

const WIDTH = 760
const LEFT = 190
const RIGHT = 96
const TOP = 74
const BAR = 18
const GAP = 6
const GROUP_TITLE = 24
const GROUP_GAP = 14
const BOTTOM = 34

const RANGE = [LEFT, WIDTH - RIGHT] as const

const drawBar = (
  { label, figure, colour }: Bar,
  y: number,
  scale: Scale,
  format: Chart['format'],
): string => {
  const middle = y + BAR / 2
  const name = text(LEFT - 10, middle + 4, label, 'text-anchor="end"')
  const { median, min, max } = figure
  if (median === null || min === null || max === null) {
    return `${name}${text(LEFT + 6, middle + 4, figure.reason ?? 'not measured', 'fill="#667" font-style="italic"')}`
  }
  const [start, end, low, high] = [LEFT, scale.at(median), scale.at(min), scale.at(max)]
  const spread =
    figure.runs.length < 2
      ? ''
      : `<path d="M${low.toFixed(1)} ${middle}H${high.toFixed(1)}M${low.toFixed(1)} ${middle - 4}v8M${high.toFixed(1)} ${middle - 4}v8" stroke="#1c2530" stroke-width="1.2"/>`
  const width = Math.max(1, end - start).toFixed(1)
  return [
    name,
    `<rect x="${start}" y="${y}" width="${width}" height="${BAR}" rx="2" fill="${colour}"/>`,
    spread,
    text(Math.max(end, high) + 7, middle + 4, format(median), 'font-weight="600"'),
  ].join('')
}

const scaleOf = ({ groups, logarithmic }: Chart): Scale => {
  const figures = groups.flatMap(({ bars }) => bars.map(({ figure }) => figure))
  const highest = Math.max(1e-3, ...figures.map(({ max }) => max ?? 0))
  const lowest = Math.min(highest, ...figures.flatMap(({ min }) => (min === null || min <= 0 ? [] : [min])))
  return logarithmic ? logarithmicScale(lowest, highest, RANGE) : linearScale(highest, RANGE)
}

export const draw = (chart: Chart, footer: string): string => {
  const scale = scaleOf(chart)
  const parts: string[] = []
  let y = TOP
  for (const { title, bars } of chart.groups) {
    if (title !== '') {
      parts.push(text(LEFT, y + 14, title, 'font-weight="600"'))
      y += GROUP_TITLE
    }
    for (const bar of bars) {
      parts.push(drawBar(bar, y, scale, chart.format))
      y += BAR + GAP
    }
    y += GROUP_GAP
  }
  const bottom = y - GROUP_GAP
  const height = bottom + BOTTOM + 18
  const grid = scale.ticks.map((tick) => {
    const x = scale.at(tick).toFixed(1)
    const line = `<path d="M${x} ${TOP - 6}V${bottom}" stroke="#dfe3e8"/>`
    return `${line}${text(Number(x), bottom + 16, chart.format(tick), 'text-anchor="middle" fill="#556"')}`
  })
  const { title, subtitle } = chart
  return framed({ title, subtitle, footer, width: WIDTH, height }, [...grid, ...parts])
}

const subjectBars = <T>(of: BySubject<T>, figure: (value: T) => Figure | undefined): Bar[] =>
  SUBJECT_NAMES.flatMap((name) => {
    const value = of[name]
    const found = value === undefined ? undefined : figure(value)
    return found === undefined ? [] : [{ label: SUBJECT_LABELS[name], figure: found, colour: COLOURS[name] }]
  })

const drainChart = ({ drain, settings }: BenchResult): Chart | null =>
  drain === undefined
    ? null
    : {
        title: `Drain of ${count(settings.events)} waiting events`,
        subtitle: 'events per second, durably settled; more is better',
        groups: [
          { title: 'one process', bars: subjectBars(drain, (figure) => figure) },
          { title: 'two processes', bars: subjectBars(drain, (figure) => figure.twoProcesses) },
        ],
        format: count,
      }

const latencyChart = ({ latency }: BenchResult): Chart | null => {
  if (latency === undefined) return null
  const rates = Object.keys(latency.posthaste?.unkeyed ?? {})
  const groups = (['unkeyed', 'keyed'] as const).flatMap((kind) =>
    rates.flatMap((rate) =>
      (['p50', 'p99'] as const).map((which) => ({
        title: `${which}, ${kind}, ${count(Number(rate))} events per second`,
        bars: subjectBars(latency, (figures) => figures[kind][rate]?.[which]),
      })),
    ),
  )
  return {
    title: 'From commit to handler',
    subtitle: 'milliseconds, on a logarithmic scale; less is better',
    groups,
    logarithmic: true,
    format: (value) => (value < 10 ? String(Number(value.toPrecision(2))) : count(value)),
  }
}

const publishChart = ({ publish }: BenchResult): Chart | null =>
  publish === undefined
    ? null
    : {
        title: 'What publishing costs the business transaction',
        subtitle: 'transactions per second over 16 connections; more is better',
        groups: [
          {
            title: '',
            bars: (['none', 'handmade', 'samerows', 'posthaste', 'graphile', 'pgboss'] as const).flatMap(
              (name) => {
                const figure = publish[name]
                return figure === undefined
                  ? []
                  : [{ label: SUBJECT_LABELS[name], figure, colour: COLOURS[name] }]
              },
            ),
          },
        ],
        format: count,
      }

const growthChart = ({ growth, settings }: BenchResult): Chart | null => {
  if (growth === undefined) return null
  const levels = Object.keys(growth.posthaste?.finished ?? {})
  const backlogs = Object.keys(growth.posthaste?.pending ?? {})
  return {
    title: 'Drain as tables grow',
    subtitle: `events per second, ${count(settings.growthEvents)} at a time; more is better`,
    groups: [
      ...levels.map((rows) => ({
        title: rows === '0' ? 'no history' : `beside ${count(Number(rows))} finished rows`,
        bars: subjectBars(growth, (figures) => figures.finished[rows]),
      })),
      { title: 'with a transaction held open', bars: subjectBars(growth, (figures) => figures.pinned) },
      ...backlogs.map((rows) => ({
        title: `the first of ${count(Number(rows))} waiting events`,
        bars: subjectBars(growth, (figures) => figures.pending[rows]),
      })),
    ],
    format: count,
  }
}

export const plotsOf = (result: BenchResult): Plot[] => {
  const footer = `${result.date.slice(0, 10)} · PostgreSQL ${result.postgres.server_version ?? '?'} · Node ${result.node} · ${result.machine.cores} cores · bars: medians of ${result.settings.rounds} rounds; lines: lowest and highest run`
  const charts: Readonly<Record<string, Chart | null>> = {
    drain: drainChart(result),
    latency: latencyChart(result),
    publish: publishChart(result),
    growth: growthChart(result),
  }
  return Object.entries(charts).flatMap(([name, chart]) =>
    chart === null ? [] : [{ name, alt: `${chart.title}: ${chart.subtitle}`, svg: draw(chart, footer) }],
  )
}
