/** The figures of a run as tables, for the terminal and for docs/performance.md alike. */
import type { BenchResult, Figure } from './peers/result.ts'
import { SUBJECT_NAMES, type SubjectName } from './peers/subject.ts'

export interface Table {
  readonly head: readonly string[]
  readonly rows: readonly (readonly string[])[]
}

export const SUBJECT_LABELS: Readonly<Record<SubjectName | 'none', string>> = {
  posthaste: 'Posthaste',
  graphile: 'graphile-worker',
  pgboss: 'pg-boss',
  handmade: 'hand-written table',
  samerows: 'the same rows by hand',
  none: 'no outbox',
}

const DASH = '–'

const count = (value: number): string => Math.round(value).toLocaleString('en-US')
const tenths = (value: number): string => value.toFixed(1)
const milliseconds = (value: number): string => value.toFixed(2)

/** The median, and how far apart the lowest and the highest run were. */
export const shown = (figure: Figure | undefined, format = count): string => {
  if (figure === undefined || figure.median === null || figure.min === null || figure.max === null)
    return DASH
  if (figure.runs.length < 2) return format(figure.median)
  return `${format(figure.median)} (${format(figure.min)}–${format(figure.max)})`
}

const present = <T>(of: Readonly<Partial<Record<SubjectName, T>>>): (readonly [SubjectName, T])[] =>
  SUBJECT_NAMES.flatMap((name) => {
    const value = of[name]
    return value === undefined ? [] : [[name, value] as const]
  })

const drainTable = ({ drain, settings }: BenchResult): Table[] =>
  drain === undefined
    ? []
    : [
        {
          head: [`drain of ${count(settings.events)}, events/s`, '1 process', '2 processes'],
          rows: present(drain).map(([name, figure]) => [
            SUBJECT_LABELS[name],
            shown(figure),
            shown(figure.twoProcesses),
          ]),
        },
        {
          head: ['processor time of that drain, one process, µs per event', 'the process', 'the server'],
          rows: present(drain).map(([name, { microsPerEvent }]) => [
            SUBJECT_LABELS[name],
            shown(microsPerEvent.clients, tenths),
            shown(microsPerEvent.server, tenths),
          ]),
        },
      ]

const latencyTables = ({ latency }: BenchResult): Table[] => {
  if (latency === undefined) return []
  const rates = Object.keys(latency.posthaste?.unkeyed ?? {})
  return (['unkeyed', 'keyed'] as const).map((kind) => ({
    head: [
      `commit to handler, ${kind}, ms`,
      ...rates.flatMap((rate) => [`p50 at ${count(Number(rate))} /s`, `p99 at ${count(Number(rate))} /s`]),
    ],
    rows: present(latency).map(([name, figures]) => [
      SUBJECT_LABELS[name],
      ...rates.flatMap((rate) => [
        shown(figures[kind][rate]?.p50, milliseconds),
        shown(figures[kind][rate]?.p99, milliseconds),
      ]),
    ]),
  }))
}

const publishTable = ({ publish }: BenchResult): Table[] => {
  if (publish === undefined) return []
  const without = publish.none?.median ?? null
  return [
    {
      head: ['business transactions, 16 connections', 'transactions/s', 'of those without an outbox'],
      rows: (['none', ...SUBJECT_NAMES] as const).flatMap((name) => {
        const figure = publish[name]
        if (figure === undefined) return []
        const share =
          without === null || figure.median === null
            ? DASH
            : `${Math.round((figure.median / without) * 100)} %`
        return [[SUBJECT_LABELS[name], shown(figure), share]]
      }),
    },
  ]
}

const growthTable = ({ growth, settings }: BenchResult): Table[] => {
  if (growth === undefined) return []
  const levels = Object.keys(growth.posthaste?.finished ?? {})
  const backlogs = Object.keys(growth.posthaste?.pending ?? {})
  return [
    {
      head: [
        `drain of ${count(settings.growthEvents)}, events/s`,
        ...levels.map((rows) => `${count(Number(rows))} finished`),
        'pinned horizon',
        ...backlogs.map((rows) => `${count(Number(rows))} pending`),
      ],
      rows: present(growth).map(([name, figures]) => [
        SUBJECT_LABELS[name],
        ...levels.map((rows) => shown(figures.finished[rows])),
        shown(figures.pinned),
        ...backlogs.map((rows) => shown(figures.pending[rows])),
      ]),
    },
  ]
}

const memoryTable = ({ memory }: BenchResult): Table[] =>
  memory === undefined
    ? []
    : [
        {
          head: [`draining ${count(memory.backlog)}, one process`, 'most memory (RSS), MiB'],
          rows: [
            [SUBJECT_LABELS.posthaste, shown(memory.posthaste)],
            [`${SUBJECT_LABELS.posthaste}, \`--max-semi-space-size=16\``, shown(memory.limited)],
            [SUBJECT_LABELS.handmade, shown(memory.handmade)],
          ],
        },
      ]

const othersTable = ({ others, settings }: BenchResult): Table[] =>
  others === undefined
    ? []
    : [
        {
          head: [
            'Posthaste on other databases',
            `drain of ${count(settings.events)}, events/s`,
            'publish, transactions/s',
            'without an outbox',
          ],
          rows: Object.entries(others).map(([name, server]) =>
            'skipped' in server
              ? [name, server.skipped, DASH, DASH]
              : [name, shown(server.drain), shown(server.publish), shown(server.publishNone)],
          ),
        },
      ]

export const tablesOf = (result: BenchResult): Table[] => [
  ...drainTable(result),
  ...latencyTables(result),
  ...publishTable(result),
  ...growthTable(result),
  ...memoryTable(result),
  ...othersTable(result),
]
