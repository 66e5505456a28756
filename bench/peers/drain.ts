/**
 * Drain: processes wait for work, a backlog becomes visible with one commit, and the time ends when nothing of it
 * is left unsettled in the database. Starting the processes is not part of it, nor is a first, smaller backlog, behind which
 * their code is compiled as it is in a process that has run for a while.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { BenchDatabase } from './database.ts'
import { type Process, startProcess } from './processes.ts'
import type { Subject } from './subject.ts'

export interface DrainOptions {
  readonly events: number
  readonly processes: number
  /** Drained by the same processes before anything counts; 0 if it is left out. */
  readonly warmUpEvents?: number
  readonly keepHistory?: boolean
  readonly pinned?: boolean
  /** The rate of the first ones alone is measured too. */
  readonly sample?: number
  /** Ends there, because the rest would say nothing new and take long. */
  readonly stopAtSample?: boolean
  /** For the processes that handle. */
  readonly nodeOptions?: readonly string[]
}

export interface Drained {
  readonly perSecond: number
  readonly samplePerSecond: number
  /** Of the process that had most, in bytes. */
  readonly rssPeak: number
  /** Processor time of one event, in microseconds: of the processes that handle, and of the server where that is known. */
  readonly microsPerEvent: { readonly clients: number; readonly server: number | null }
}

/** Far beyond any honest result. */
const DEADLINE_MS = 15 * 60_000
/** Looking more often would take from the processors what is to be measured: every millisecond cost a tenth of one of them. */
const LOOK_MS = 5

const sum = (values: readonly number[]): number => values.reduce((all, value) => all + value, 0)

const watch = (processes: readonly Process[]) => {
  const counts = processes.map(() => 0)
  const used = processes.map(() => 0)
  let rssPeak = 0
  processes.forEach((each, index) => {
    each.on((message) => {
      if (message.kind !== 'handled') return
      counts[index] = message.count
      used[index] = message.usedMs
      rssPeak = Math.max(rssPeak, message.rssPeak)
    })
  })
  return { handled: () => sum(counts), usedMs: () => sum(used), rssPeak: () => rssPeak }
}

const until = async (reached: () => boolean | Promise<boolean>, what: string): Promise<void> => {
  const deadline = performance.now() + DEADLINE_MS
  while (!(await reached())) {
    if (performance.now() > deadline) throw new Error(`gave up: ${what}`)
    await sleep(LOOK_MS)
  }
}

/** Resolves when the backlog is visible; its process ends by itself. */
const fill = async ({ url }: BenchDatabase, { name }: Subject, events: number): Promise<Process> => {
  const filler = startProcess({ kind: 'fill', url, subject: name, events })
  await filler.next('filled')
  return filler
}

const settled = ({ query }: BenchDatabase, { unfinished }: Subject): Promise<void> =>
  until(async () => {
    const [row] = await query(unfinished)
    return !row?.unfinished
  }, 'some were never settled')

export const drain = async (
  database: BenchDatabase,
  subject: Subject,
  options: DrainOptions,
): Promise<Drained> => {
  const { url, query } = database
  await database.reset(subject, options.keepHistory)
  let unpin: (() => Promise<void>) | null = null
  const processes = Array.from({ length: options.processes }, () =>
    startProcess({ kind: 'handle', url, subject: subject.name }, options.nodeOptions),
  )
  try {
    await Promise.all(processes.map((each) => each.next('ready')))
    await subject.balanced?.(query, options.processes)
    const watched = watch(processes)
    const reach = async (wanted: number): Promise<void> => {
      const reached = until(() => watched.handled() >= wanted, `not all of ${wanted} were handled`)
      await Promise.race([reached, ...processes.map((each) => each.endedEarly())])
    }
    const { warmUpEvents = 0 } = options
    if (warmUpEvents > 0) {
      const filler = await fill(database, subject, warmUpEvents)
      await reach(warmUpEvents)
      await settled(database, subject)
      await filler.ended
      await database.tidy(subject)
    }
    unpin = options.pinned ? await database.pinHorizon() : null
    const handledBefore = watched.handled()
    const handled = (): number => watched.handled() - handledBefore
    const filler = await fill(database, subject, options.events)
    const serverBefore = await database.processorMs()
    const usedBefore = watched.usedMs()
    const startedAt = performance.now()
    const rate = (count: number): number => (count * 1_000) / (performance.now() - startedAt)
    const handle = async (wanted: number): Promise<number> => {
      await reach(handledBefore + wanted)
      return rate(handled())
    }
    const samplePerSecond = await handle(options.sample ?? options.events)
    const used = async (): Promise<Pick<Drained, 'rssPeak' | 'microsPerEvent'>> => {
      const micros = (ms: number): number => (ms * 1_000) / handled()
      const server = [...(await database.processorMs())].map(([pid, ms]) => ms - (serverBefore.get(pid) ?? 0))
      const microsPerEvent = {
        clients: micros(watched.usedMs() - usedBefore),
        server: server.length === 0 ? null : micros(sum(server)),
      }
      return { rssPeak: watched.rssPeak(), microsPerEvent }
    }
    if (options.stopAtSample) return { perSecond: samplePerSecond, samplePerSecond, ...(await used()) }
    await handle(options.events)
    await settled(database, subject)
    const perSecond = rate(options.events)
    const whole = await used()
    await filler.ended
    await Promise.all(processes.map((each) => each.stop()))
    return { perSecond, samplePerSecond, ...whole }
  } finally {
    await Promise.all(processes.map((each) => each.kill()))
    await unpin?.()
  }
}
