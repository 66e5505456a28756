/**
 * One command at a time changes services. The lock is a file that names its holder; the lock of a holder that died is
 * removed by whoever wants it next.
 */
import { linkSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { isAlive, type ProcessRecord, recordOf } from './processes.ts'
import { ServicesError } from './service.ts'

interface Holder extends ProcessRecord {
  /** Two locks of one process differ. */
  readonly turn: string
}

const POLL_MS = 50
const WAIT_MS = 20 * 60_000
/** Removing a dead lock takes a moment; a guard as old as this was left by somebody who died in that moment. */
const GUARD_MS = 10_000

let turns = 0

const readText = (path: string): string | null => {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw error
  }
}

/** Creates the file with its content in one step; false when it exists. */
const createWith = (path: string, content: string): boolean => {
  const draft = `${path}.${process.pid}.${turns++}`
  writeFileSync(draft, content)
  try {
    linkSync(draft, path)
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
    throw error
  } finally {
    rmSync(draft)
  }
}

/** Of several that find the same dead lock, one removes it, and none removes the lock that comes after it. */
const removeDead = (path: string, content: string): void => {
  const guard = `${path}.guard`
  if (!createWith(guard, '')) {
    const since = statSync(guard, { throwIfNoEntry: false })?.mtimeMs
    if (since !== undefined && Date.now() - since > GUARD_MS) rmSync(guard, { force: true })
    return
  }
  try {
    if (readText(path) === content) rmSync(path, { force: true })
  } finally {
    rmSync(guard, { force: true })
  }
}

const parseHolder = (content: string): Holder | null => {
  try {
    return JSON.parse(content) as Holder
  } catch {
    return null
  }
}

export const withLock = async <T>(
  path: string,
  work: () => Promise<T>,
  onWait: (pid: number) => void = () => {},
): Promise<T> => {
  const self = recordOf(process.pid)
  const content = JSON.stringify({ ...self, turn: `${Date.now()}-${turns++}` })
  const deadline = performance.now() + WAIT_MS
  let told = false
  while (!createWith(path, content)) {
    const found = readText(path)
    if (found === null) continue
    const holder = parseHolder(found)
    if (holder === null || !isAlive(holder)) {
      removeDead(path, found)
    } else if (performance.now() > deadline) {
      throw new ServicesError(`Process ${holder.pid} has held ${path} for too long.`)
    } else if (!told) {
      told = true
      onWait(holder.pid)
    }
    await sleep(POLL_MS)
  }
  try {
    return await work()
  } finally {
    rmSync(path, { force: true })
  }
}
