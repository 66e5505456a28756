import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate as turn } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { TYPESCRIPT } from '../../scripts/run.ts'
import { withLock } from '../../scripts/services/lock.ts'
import { recordOf } from '../../scripts/services/processes.ts'

let folder: string
let lock: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'posthaste-lock-'))
  lock = join(folder, 'lock')
})
afterEach(() => rmSync(folder, { recursive: true }))

/** As many as there are, each tells when it is in and out; at most one may be in. */
const crowd = async (size: number): Promise<number> => {
  let inside = 0
  let most = 0
  const work = async (): Promise<void> => {
    most = Math.max(most, ++inside)
    await turn()
    inside--
  }
  await Promise.all(Array.from({ length: size }, async () => await withLock(lock, work)))
  return most
}

const leaveLockOf = (holder: object): void => writeFileSync(lock, JSON.stringify(holder))

describe('the lock', () => {
  it('lets one in at a time, and leaves nothing behind', async () => {
    expect(await crowd(5)).toBe(1)
    expect(readdirSync(folder)).toEqual([])
  })

  it('passes on the result, and is free after a failure', async () => {
    await expect(withLock(lock, async () => await Promise.reject(new Error('no')))).rejects.toThrow('no')
    expect(await withLock(lock, async () => 42)).toBe(42)
  })

  it('names whom it waits for', async () => {
    const waitedFor: number[] = []
    await withLock(lock, async () => {
      const second = withLock(
        lock,
        async () => {},
        (pid) => waitedFor.push(pid),
      )
      while (waitedFor.length === 0) await turn()
      return { second }
    }).then(async ({ second }) => await second)
    expect(waitedFor).toEqual([process.pid])
  })

  it('of a process that is gone is taken over by one of many', async () => {
    const self = recordOf(process.pid)
    leaveLockOf({ pid: process.pid, birth: `${self?.birth}0`, turn: 'dead' })
    expect(await crowd(5)).toBe(1)
    expect(readdirSync(folder)).toEqual([])
  })

  it('without a readable holder is taken over', async () => {
    writeFileSync(lock, '')
    expect(await withLock(lock, async () => 'in')).toBe('in')
  })

  it('holds between processes, also when they find a dead one', async () => {
    leaveLockOf({ pid: process.pid, birth: 'before the last boot', turn: 'dead' })
    const journal = join(folder, 'journal')
    const program = new URL('./lock-process.ts', import.meta.url)
    const args = [...TYPESCRIPT, fileURLToPath(program), lock, journal, '5']
    const processes = Array.from({ length: 3 }, () => spawn(process.execPath, args, { stdio: 'inherit' }))
    const exits = await Promise.all(processes.map(async (each) => await once(each, 'exit')))
    expect(exits).toEqual([
      [0, null],
      [0, null],
      [0, null],
    ])
    const lines = readFileSync(journal, 'utf8').trim().split('\n')
    expect(lines).toHaveLength(30)
    for (let i = 0; i < lines.length; i += 2) expect(lines[i]?.replace('in', 'out')).toBe(lines[i + 1])
  })
})
