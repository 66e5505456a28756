/** `npm run bench:report -- FILE`: the figures of a run into docs/performance.md, as tables and plots. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { ROOT } from '../scripts/run.ts'
import type { BrokersResult } from './brokers/result.ts'
import { aboutBrokers, brokersPlot, brokersTables } from './brokers-report.ts'
import { machineText } from './machine.ts'
import type { BenchResult } from './peers/result.ts'
import { type Plot, plotsOf } from './plots.ts'
import { SUBJECT_LABELS, type Table, tablesOf } from './tables.ts'

const USAGE = `npm run bench:report -- FILE [--page PAGE] [--rows]

  FILE          what npm run bench or npm run bench:brokers wrote with --json FILE
  --page PAGE   the page between whose marks the figures go; default docs/performance.md
  --rows        into the part about what the rows themselves cost, without plots
`

/** Where the figures of each benchmark go. */
const MARKS = {
  peers: ['<!-- figures: begin (npm run bench:report) -->', '<!-- figures: end -->'],
  away: ['<!-- away: begin (npm run bench:report) -->', '<!-- away: end -->'],
  rows: ['<!-- rows: begin (npm run bench:report) -->', '<!-- rows: end -->'],
  brokers: ['<!-- brokers: begin (npm run bench:report) -->', '<!-- brokers: end -->'],
} as const
const PLOTS = 'performance'

const markdownTable = ({ head, rows }: Table): string =>
  [head, head.map((_, i) => (i === 0 ? '---' : '---:')), ...rows]
    .map((cells) => `| ${cells.join(' | ')} |`)
    .join('\n')

const about = (result: BenchResult): string => {
  const { machine, versions, postgres, settings } = result
  const libraries = (['posthaste', 'graphile', 'pgboss'] as const).flatMap((name) =>
    versions[name] === undefined ? [] : [`${SUBJECT_LABELS[name]} ${versions[name]}`],
  )
  const { awayMs } = settings
  const server = Object.entries(postgres).map(([name, value]) => `${name} ${value}`)
  return [
    `Measured on ${result.date.slice(0, 10)} with \`${result.command}\`.`,
    '',
    machineText(machine, 'server and clients'),
    `- PostgreSQL: ${server.join(', ')}.`,
    `- Node ${result.node}; ${libraries.join(', ')}.`,
    ...(awayMs === undefined || awayMs === 0
      ? []
      : [`- A round trip to the server takes ${awayMs} ms more than on the machine itself.`]),
    `- ${settings.rounds} rounds in turns, payloads of ${settings.payloadBytes} bytes. In brackets: the lowest and the highest run.`,
  ].join('\n')
}

/** Files of before wrote large numbers without commas. */
const readable = (name: string): string =>
  name.replaceAll(/\d{4,}/g, (digits) => Number(digits).toLocaleString('en-US'))

const targetRows = ({ targets: all }: BenchResult): Table['rows'] =>
  all.map(({ name, target, measured, met }) => [
    readable(name),
    target,
    measured,
    met ? 'met' : '**not met**',
  ])

const targets = (result: BenchResult): string[] => {
  const rows = targetRows(result)
  const { failures } = result
  return [
    ...(rows.length === 0 ? [] : [markdownTable({ head: ['target', 'wanted', 'measured', ''], rows })]),
    ...(failures.length === 0
      ? []
      : [`Could not be measured:\n\n${failures.map((each) => `- ${each}`).join('\n')}`]),
  ]
}

interface Section {
  readonly marks: readonly [begin: string, end: string]
  readonly about: readonly string[]
  readonly plots: readonly Plot[]
  readonly tables: readonly Table[]
}

const sectionOf = (result: BenchResult | BrokersResult, isAboutRows: boolean): Section => {
  if ('kind' in result)
    return {
      marks: MARKS.brokers,
      about: [aboutBrokers(result)],
      plots: [brokersPlot(result)],
      tables: brokersTables(result),
    }
  const isAway = (result.settings.awayMs ?? 0) > 0
  return {
    marks: isAboutRows ? MARKS.rows : isAway ? MARKS.away : MARKS.peers,
    about: [about(result), ...targets(result)],
    // The names of their files are those of the whole benchmark with a server that is near.
    plots: isAway || isAboutRows ? [] : plotsOf(result),
    tables: tablesOf(result),
  }
}

const textOf = ({ about: texts, plots, tables }: Section): string =>
  [
    ...texts,
    ...plots.map(({ name, alt }) => `![${alt}](${PLOTS}/${name}.svg)`),
    ...tables.map(markdownTable),
  ].join('\n\n')

const main = (): number => {
  const { values, positionals } = parseArgs({
    options: { page: { type: 'string' }, rows: { type: 'boolean' }, help: { type: 'boolean' } },
    allowPositionals: true,
  })
  const [file, ...others] = positionals
  if (values.help === true) {
    process.stdout.write(USAGE)
    return 0
  }
  if (file === undefined || others.length > 0 || !existsSync(file)) {
    console.error(
      `${file === undefined ? 'Which file?' : `There is no ${positionals.join(' ')}.`}\n\n${USAGE}`,
    )
    return 2
  }
  const page = values.page ?? join(ROOT, 'docs', 'performance.md')
  const text = readFileSync(page, 'utf8')
  const result = JSON.parse(readFileSync(file, 'utf8')) as BenchResult | BrokersResult
  const section = sectionOf(result, values.rows === true)
  const { marks, plots, tables } = section
  const [begin, end] = [text.indexOf(marks[0]), text.indexOf(marks[1])]
  if (begin === -1 || end < begin) {
    console.error(`${page} has no place for figures: a line "${marks[0]}" and below it a line "${marks[1]}".`)
    return 1
  }
  const folder = join(page, '..', PLOTS)
  mkdirSync(folder, { recursive: true })
  for (const { name, svg } of plots) writeFileSync(join(folder, `${name}.svg`), svg)
  writeFileSync(page, `${text.slice(0, begin)}${marks[0]}\n\n${textOf(section)}\n\n${text.slice(end)}`)
  console.log(`${page}: ${plots.length} plots and ${tables.length} tables`)
  return 0
}

try {
  process.exitCode = main()
} catch (error) {
  console.error(`${(error as Error).message}\n\n${USAGE}`)
  process.exitCode = 2
}
