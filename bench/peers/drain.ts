/**
 * Drain: processes wait for work, a backlog becomes visible with one commit, and the time ends when nothing of it
 * is left unsettled in the database. Starting the processes is not part of it.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { BenchDatabase } from './database.ts'
import { type Process, startProcess } from './processes.ts'
import type { Subject } from './subject.ts'

export interface DrainOptions {
  readonly events: number
  readonly processes: number
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

export const drain = async (
  database: BenchDatabase,
  subject: Subject,
  options: DrainOptions,
): Promise<Drained> => {
  const { url, query } = database
  await database.reset(subject, options.keepHistory)
  const unpin = options.pinned ? await database.pinHorizon() : null
  const processes = Array.from({ length: options.processes }, () =>
    startProcess({ kind: 'handle', url, subject: subject.name }, options.nodeOptions),
  )
  try {
    await Promise.all(processes.map((each) => each.next('ready')))
    await subject.balanced?.(query, options.processes)
    const { handled, usedMs, rssPeak } = watch(processes)
    const filler = startProcess({ kind: 'fill', url, subject: subject.name, events: options.events })
    await filler.next('filled')
    const serverBefore = await database.processorMs()
    const startedAt = performance.now()
    const rate = (count: number): number => (count * 1_000) / (performance.now() - startedAt)
    const handle = async (wanted: number): Promise<number> => {
      const reached = until(() => handled() >= wanted, `not all of ${wanted} were handled`)
      await Promise.race([reached, ...processes.map((each) => each.endedEarly())])
      return rate(handled())
    }
    const samplePerSecond = await handle(options.sample ?? options.events)
    const used = async (): Promise<Pick<Drained, 'rssPeak' | 'microsPerEvent'>> => {
      const micros = (ms: number): number => (ms * 1_000) / handled()
      const server = [...(await database.processorMs())].map(([pid, ms]) => ms - (serverBefore.get(pid) ?? 0))
      const microsPerEvent = {
        clients: micros(usedMs()),
        server: server.length === 0 ? null : micros(sum(server)),
      }
      return { rssPeak: rssPeak(), microsPerEvent }
    }
    if (options.stopAtSample) return { perSecond: samplePerSecond, samplePerSecond, ...(await used()) }
    await handle(options.events)
    await until(async () => {
      const [row] = await query(subject.unfinished)
      return !row?.unfinished
    }, 'some were never settled')
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
