/** The benchmark itself, under npm's Node 24; `npm run bench` (../peers.ts) prepares everything and starts it. */
import { writeFileSync } from 'node:fs'
import { assemble } from './assemble.ts'
import type { Context, Settings } from './context.ts'
import { createDatabase } from './database.ts'
import { planDrain, planLatency, planPublish } from './measure.ts'
import { planGrowth, planMemory } from './measure-growth.ts'
import { planOthers } from './measure-others.ts'
import { runPlan, type Step } from './plan.ts'
import { Series } from './series.ts'
import { SUBJECT_NAMES } from './subject.ts'
import { subjectOn } from './subjects.ts'

const urlsOf = (others: Settings['others']): Record<string, string> =>
  Object.fromEntries(
    Object.entries(others).flatMap(([name, server]) => ('url' in server ? [[name, server.url]] : [])),
  )

const planOf = (context: Context, { sections, others }: Settings): Step[] => [
  ...(sections.includes('drain') ? planDrain(context) : []),
  ...(sections.includes('latency') ? planLatency(context) : []),
  ...(sections.includes('publish') ? planPublish(context) : []),
  ...(sections.includes('growth') ? planGrowth(context) : []),
  ...(sections.includes('memory') ? planMemory(context) : []),
  ...(sections.includes('others') ? planOthers(context, urlsOf(others)) : []),
]

const measure = async (settings: Settings, file: string): Promise<void> => {
  const database = await createDatabase(settings.url)
  let dropped: Promise<void> | null = null
  const drop = (): Promise<void> => {
    dropped ??= database.drop()
    return dropped
  }
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => void drop().finally(() => process.exit(130)))
  }
  try {
    const subjects = await Promise.all(SUBJECT_NAMES.map((name) => subjectOn(database.url, name)))
    for (const subject of subjects) await subject.install(database.url)
    const series = new Series()
    const failures: string[] = []
    const context: Context = { database, sizes: settings.sizes, series, subjects }
    await runPlan(planOf(context, settings), console.log, (step, error) => {
      failures.push(`${step.name}: ${error.message}`)
      series.explain(step.path, error.message)
    })
    writeFileSync(file, `${JSON.stringify(assemble(settings, context, failures), null, 2)}\n`)
  } finally {
    await drop()
  }
}

const [settings, file] = process.argv.slice(2)
if (settings === undefined || file === undefined) throw new Error('started by npm run bench, not by hand')
await measure(JSON.parse(settings) as Settings, file)
