/** Growth and memory: what happens after years, on a bad day, and with a backlog that nobody wanted. */
import { type Context, count } from './context.ts'
import { drain } from './drain.ts'
import { inRounds, type Step } from './plan.ts'
import { measuredIn, type Subject } from './subject.ts'

const OVERHEAD_SECONDS = 4
const SLOW_PER_SECOND = 8_000
/** Rows that a generated history grows by in a second. */
const HISTORY_PER_SECOND = 40_000
const HISTORY_STEP = 250_000

const addHistory = async ({ database }: Context, subject: Subject, from: number, to: number) => {
  if ('none' in subject.history) return
  for (let start = from; start < to; start += HISTORY_STEP) {
    const rows = Math.min(HISTORY_STEP, to - start)
    for (const sql of subject.history.sql) await database.query(sql, [rows, start])
  }
}

const planSubject = (context: Context, subject: Subject): Step[] => {
  const { database, sizes, series } = context
  const { growthEvents: events, warmUpEvents } = sizes
  const levels = sizes.growth.filter((rows) => rows > 0)
  const path = (what: string): string => `growth/${subject.name}/${what}`
  const drainStep = (
    what: string,
    name: string,
    options: { keepHistory?: boolean; pinned?: boolean },
  ): Step => ({
    name: `drain ${count(events)} ${name}, ${subject.label}`,
    seconds: OVERHEAD_SECONDS + (2 * (warmUpEvents + events)) / SLOW_PER_SECOND,
    path: path(what),
    async run() {
      const { perSecond } = await drain(database, subject, { events, warmUpEvents, processes: 1, ...options })
      series.add(this.path, perSecond)
      return `${count(perSecond)} /s`
    },
  })
  const historyStep = (from: number, to: number): Step => ({
    name: `${count(to)} finished rows, ${subject.label}`,
    seconds: (to - from) / HISTORY_PER_SECOND,
    path: path(`finished/${to}`),
    async run() {
      await addHistory(context, subject, from, to)
      return 'ready'
    },
  })
  const plain = (): Step => drainStep('finished/0', 'without history', {})
  const steps = inRounds(sizes.rounds, () => [
    plain(),
    drainStep('pinned', 'under a pinned horizon', { pinned: true }),
  ])
  if ('none' in subject.history) {
    for (const rows of levels) series.explain(path(`finished/${rows}`), subject.history.none)
    return steps
  }
  const withHistory = levels.flatMap((rows, index) => [
    historyStep(levels[index - 1] ?? 0, rows),
    ...inRounds(sizes.rounds, () => [
      drainStep(`finished/${rows}`, `beside ${count(rows)} finished rows`, { keepHistory: true }),
    ]),
  ])
  // Once more without history, in case the machine became slower or faster meanwhile.
  return [...steps, ...withHistory, ...inRounds(sizes.rounds, () => [plain()])]
}

/** The first events of a large backlog. */
const planPending = ({ database, sizes, series }: Context, subject: Subject): Step => ({
  name: `a backlog of ${count(sizes.pending)}, ${subject.label}`,
  seconds: OVERHEAD_SECONDS + sizes.pending / SLOW_PER_SECOND,
  path: `growth/${subject.name}/pending`,
  async run() {
    const options = { events: sizes.pending, processes: 1, sample: sizes.growthEvents, stopAtSample: true }
    const { samplePerSecond } = await drain(database, subject, options)
    series.add(this.path, samplePerSecond)
    await database.reset(subject)
    return `the first ${count(sizes.growthEvents)} at ${count(samplePerSecond)} /s`
  },
})

export const planGrowth = (context: Context): Step[] => {
  const subjects = measuredIn('growth', context.subjects)
  return [
    ...subjects.flatMap((subject) => planSubject(context, subject)),
    ...subjects.map((subject) => planPending(context, subject)),
  ]
}

/**
 * Half of what a busy process of Node 24 occupies is room for young objects that V8 takes because it is there. So
 * memory is measured beside the hand-written table, and with that room limited to what Node 20 takes.
 */
const MEMORY_RUNS = [
  { name: 'posthaste', subject: 'posthaste', nodeOptions: [] },
  { name: 'limited', subject: 'posthaste', nodeOptions: ['--max-semi-space-size=16'] },
  { name: 'handmade', subject: 'handmade', nodeOptions: [] },
] as const

/** The whole of a large backlog. */
export const planMemory = ({ database, sizes, series, subjects }: Context): Step[] =>
  MEMORY_RUNS.flatMap(({ name, subject: wanted, nodeOptions }) =>
    subjects
      .filter((subject) => subject.name === wanted)
      .map((subject) => ({
        name: [`memory with a backlog of ${count(sizes.pending)}, ${subject.label}`, ...nodeOptions].join(
          ' ',
        ),
        seconds: OVERHEAD_SECONDS + (1.5 * sizes.pending) / SLOW_PER_SECOND,
        path: `memory/${name}`,
        async run() {
          const { rssPeak } = await drain(database, subject, {
            events: sizes.pending,
            processes: 1,
            nodeOptions,
          })
          await database.reset(subject)
          const mebibytes = rssPeak / 1_048_576
          series.add(this.path, mebibytes)
          return `at most ${Math.round(mebibytes)} MiB`
        },
      })),
  )
