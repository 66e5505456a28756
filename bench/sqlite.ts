/** `npm run bench:sqlite`: what the outbox costs on a SQLite file, beside the table that most people write first. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import type { DrainResult } from './drain-process.ts'
import {
  type Compared,
  fillBacklog,
  measureDrain,
  measureLatency,
  measurePollingLatency,
  measurePublish,
} from './measure.ts'
import { createProgress, tableOf } from './show.ts'

const HELP = `npm run bench:sqlite -- [--quick] [--json] [--dir D]

  --quick   a tenth of everything, to see that it works
  --json    one JSON object as the last line
  --dir D   folder for the database, which is removed in the end; default the system's temporary one
`

const FULL = { single: 2_500, many: 50_000, backlog: 100_000, seconds: 10, perSecond: 50 }
const QUICK = { single: 250, many: 5_000, backlog: 10_000, seconds: 2, perSecond: 50 }
const POLL_MS = 100

const mebibytes = (bytes: number): number => Math.round(bytes / 1_048_576)

const perSecond = (backlog: number, { elapsedMs }: DrainResult): number =>
  Math.round((backlog * 1_000) / elapsedMs)

const measureAll = async (folder: string, size: typeof FULL) => {
  const progress = createProgress(process.stdout)
  const [publishing, backlogFile, steady] = ['publish.db', 'backlog.db', 'steady.db'].map((name) =>
    join(folder, name),
  ) as [string, string, string]
  const one = await progress.step('publish, one event per transaction', (advance) =>
    measurePublish(publishing, size.single, 1, advance),
  )
  const many = await progress.step('publish, 100 events per transaction', (advance) =>
    measurePublish(publishing, size.many, 100, advance),
  )
  await progress.step('fill the backlog', (advance) => fillBacklog(backlogFile, size.backlog, advance))
  const order = { file: backlogFile, backlog: size.backlog }
  const mine = await progress.step('drain the backlog', (advance) =>
    measureDrain({ ...order, subject: 'outbox' }, advance),
  )
  const theirs = await progress.step('drain the backlog of the home-made table', (advance) =>
    measureDrain({ ...order, subject: 'homeMade' }, advance),
  )
  const latency = await progress.step('commit to listener at a steady rate', (advance) =>
    measureLatency(steady, size.perSecond, size.seconds, advance),
  )
  const polling = await progress.step('the same with the home-made table', (advance) =>
    measurePollingLatency(steady, size.perSecond, size.seconds, POLL_MS, advance),
  )
  const [mineRate, theirRate] = [perSecond(size.backlog, mine), perSecond(size.backlog, theirs)]
  const drain: Compared = {
    perSecond: mineRate,
    homeMadePerSecond: theirRate,
    ratio: Number((mineRate / theirRate).toFixed(2)),
  }
  return {
    driver: 'libsql',
    node: process.version,
    publishOne: one,
    publishHundred: many,
    drain: { backlog: size.backlog, ...drain },
    latencyMs: { perSecond: size.perSecond, ...latency, homeMade: { pollMs: POLL_MS, ...polling } },
    rssMiB: {
      backlog: size.backlog,
      before: mebibytes(mine.rssBefore),
      peak: mebibytes(mine.rssPeak),
      after: mebibytes(mine.rssAfter),
      homeMadePeak: mebibytes(theirs.rssPeak),
    },
    statementsPerEvent: {
      publishOne: one.statementsPerEvent,
      publishHundred: many.statementsPerEvent,
      settleSteady: latency.settleStatementsPerEvent,
      settleDrain: Number((mine.statements.settling / size.backlog).toFixed(4)),
      drainInAll: Number((mine.statements.all / size.backlog).toFixed(4)),
    },
  }
}

type Measured = Awaited<ReturnType<typeof measureAll>>

const count = (value: number): string => value.toLocaleString('en-US')
const times = (ratio: number): string => `${ratio.toFixed(2)} ×`

const show = (m: Measured): string => {
  const rate = (name: string, c: Compared): string[] => [
    name,
    `${count(c.perSecond)} /s`,
    `${count(c.homeMadePerSecond)} /s`,
    times(c.ratio),
  ]
  const latency = (name: string, { p50, p99 }: { p50: number; p99: number }): string[] => [
    name,
    `${p50.toFixed(2)} ms`,
    `${p99.toFixed(2)} ms`,
  ]
  const { latencyMs, rssMiB, statementsPerEvent: s } = m
  return [
    tableOf([
      ['libsql, WAL, synchronous=FULL', 'posthaste', 'home-made table', 'ratio'],
      rate('publish, 1 event per transaction', m.publishOne),
      rate('publish, 100 events per transaction', m.publishHundred),
      rate(`drain ${count(m.drain.backlog)}, each durably settled`, m.drain),
    ]),
    tableOf([
      [`commit to listener at ${latencyMs.perSecond} /s`, 'p50', 'p99'],
      latency('hot, without a key', latencyMs.keyless),
      latency('hot, with a key', latencyMs.keyed),
      latency(`home-made table, polled every ${latencyMs.homeMade.pollMs} ms`, latencyMs.homeMade),
    ]),
    tableOf([
      [`memory while draining ${count(rssMiB.backlog)}`, 'before', 'peak', 'after'],
      ['resident set', `${rssMiB.before} MiB`, `${rssMiB.peak} MiB`, `${rssMiB.after} MiB`],
    ]),
    tableOf([
      ['statements per event, with BEGIN and COMMIT', ''],
      ['publish, 1 event per transaction', String(s.publishOne)],
      ['publish, 100 events per transaction', String(s.publishHundred)],
      ['settle at the steady rate', String(s.settleSteady)],
      ['settle while draining', String(s.settleDrain)],
      ['everything while draining', String(s.drainInAll)],
    ]),
    '  The home-made table: INSERT in the transaction; a poller selects 500 pending rows, calls the\n' +
      '  listener and marks them done, in one transaction. No fan-out, retries, order per key, second\n' +
      '  process or history.',
  ].join('\n\n')
}

const main = async (): Promise<number> => {
  let values: {
    readonly json?: boolean
    readonly quick?: boolean
    readonly help?: boolean
    readonly dir?: string
  }
  try {
    const options = {
      json: { type: 'boolean' },
      quick: { type: 'boolean' },
      help: { type: 'boolean' },
      dir: { type: 'string' },
    } as const
    values = parseArgs({ options, strict: true }).values
  } catch (error) {
    console.error(`${(error as Error).message.split('. ')[0]}\n\n${HELP}`)
    return 2
  }
  if (values.help === true) {
    process.stdout.write(HELP)
    return 0
  }
  const folder = mkdtempSync(join(values.dir ?? tmpdir(), 'posthaste-bench-'))
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }))
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(130))
  const measured = await measureAll(folder, values.quick === true ? QUICK : FULL)
  console.log(`\n${show(measured)}\n`)
  if (values.json === true) console.log(JSON.stringify({ quick: values.quick === true, ...measured }))
  return 0
}

process.exitCode = await main()
