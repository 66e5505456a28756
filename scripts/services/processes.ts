/**
 * Processes outlive the command that starts them, and process ids are used again. So a process is ours only if it
 * began at the instant that was noted when we started it.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'

export interface ProcessRecord {
  readonly pid: number
  /** Boot and start time: differs for every process that ever had this id. */
  readonly birth: string
}

export interface ProcessStat {
  readonly state: string
  readonly parent: number
  /** The process that began it: servers are started in a session of their own. */
  readonly session: number
  readonly startTicks: string
}

const POLL_MS = 25
/** Writing everything to disk takes a while after a benchmark. */
const STOP_WITHIN_MS = 120_000
const KILL_WITHIN_MS = 10_000

/** A line of /proc/PID/stat. The name in it is in brackets and may itself contain brackets and spaces. */
export const parseStat = (line: string): ProcessStat | null => {
  const fields = line.slice(line.lastIndexOf(')') + 2).split(' ')
  const [state, parent, , session] = fields
  const startTicks = fields[19]
  if (!line.includes(')') || !state || !parent || !session || !startTicks) return null
  return { state, parent: Number(parent), session: Number(session), startTicks }
}

const readText = (path: string): string | null => {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return null
  }
}

const statOf = (pid: number): ProcessStat | null => {
  const line = readText(`/proc/${pid}/stat`)
  return line === null ? null : parseStat(line)
}

/** The first thread may be gone while others still hold the ports. */
const hasEnded = (pid: number, { state }: ProcessStat): boolean =>
  state === 'X' || (state === 'Z' && threadsOf(pid) <= 1)

const threadsOf = (pid: number): number => {
  try {
    return readdirSync(`/proc/${pid}/task`).length
  } catch {
    return 0
  }
}

/** Null for a process that ended, even if nobody has waited for it yet. */
export const birthOf = (pid: number): string | null => {
  const stat = statOf(pid)
  if (stat !== null) {
    const boot = readText('/proc/sys/kernel/random/boot_id')?.trim() ?? ''
    return hasEnded(pid, stat) ? null : `${boot}/${stat.startTicks}`
  }
  // Without /proc only containers are run, and only the lock asks; whether the process lives is all there is to know.
  return process.platform !== 'linux' && exists(pid) ? 'alive' : null
}

const exists = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

export const recordOf = (pid: number): ProcessRecord | null => {
  const birth = birthOf(pid)
  return birth === null ? null : { pid, birth }
}

export const isAlive = ({ pid, birth }: ProcessRecord): boolean => birthOf(pid) === birth

/** Those below it, and those of its session whose parents ended before them. */
const helpersOf = ({ pid, birth }: ProcessRecord): ProcessRecord[] => {
  // Its id is not used again while its session lives; if it is, that is somebody else's.
  const now = birthOf(pid)
  if (now !== null && now !== birth) return []
  const children = new Map<number, number[]>()
  const inSession: number[] = []
  for (const entry of readdirSync('/proc')) {
    const stat = /^\d+$/.test(entry) ? statOf(Number(entry)) : null
    if (!stat) continue
    children.set(stat.parent, [...(children.get(stat.parent) ?? []), Number(entry)])
    if (stat.session === pid && Number(entry) !== pid) inSession.push(Number(entry))
  }
  const below = (parent: number): number[] =>
    (children.get(parent) ?? []).flatMap((child) => [child, ...below(child)])
  return [...new Set([...below(pid), ...inSession])].flatMap((helper) => recordOf(helper) ?? [])
}

const send = (record: ProcessRecord, signal: NodeJS.Signals): void => {
  if (!isAlive(record)) return
  try {
    process.kill(record.pid, signal)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}

const allEnd = async (records: readonly ProcessRecord[], withinMs: number): Promise<boolean> => {
  const deadline = performance.now() + withinMs
  while (records.some(isAlive)) {
    if (performance.now() > deadline) return false
    await sleep(POLL_MS)
  }
  return true
}

/** Ends the server and all of its children at once, as a crash of the machine would. */
export const killTree = async (record: ProcessRecord): Promise<void> => {
  const all = [record, ...helpersOf(record)]
  for (const one of all) send(one, 'SIGKILL')
  if (!(await allEnd(all, KILL_WITHIN_MS)))
    throw new Error(`Process ${record.pid} survived SIGKILL for ${KILL_WITHIN_MS} ms.`)
}

/** Asks politely, and insists when that takes too long. Helpers that it leaves behind end too. */
export const stopTree = async (record: ProcessRecord, signal: NodeJS.Signals): Promise<void> => {
  const helpers = helpersOf(record)
  send(record, signal)
  if (!(await allEnd([record], STOP_WITHIN_MS))) await killTree(record)
  for (const helper of helpers) send(helper, 'SIGKILL')
  await allEnd(helpers, KILL_WITHIN_MS)
}
