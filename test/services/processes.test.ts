import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { setImmediate as turn } from 'node:timers/promises'
import { afterEach, describe, expect, it } from 'vitest'
import {
  birthOf,
  isAlive,
  killTree,
  type ProcessRecord,
  parseStat,
  recordOf,
  stopTree,
} from '../../scripts/services/processes.ts'

const started: ChildProcess[] = []

/** A shell that prints the id of its child first. */
const shell = async (
  script: string,
  detached = false,
): Promise<{ parent: ChildProcess; childPid: number }> => {
  const parent = spawn('sh', ['-c', script], { stdio: ['ignore', 'pipe', 'ignore'], detached })
  started.push(parent)
  const [bytes] = (await once(parent.stdout as NodeJS.ReadableStream, 'data')) as [Buffer]
  return { parent, childPid: Number(bytes.toString()) }
}

const mustRecord = (pid: number | undefined): ProcessRecord => {
  const record = recordOf(pid ?? 0)
  if (!record) throw new Error(`Process ${pid} is not there.`)
  return record
}

afterEach(() => {
  for (const child of started.splice(0)) child.kill('SIGKILL')
})

describe('a line of /proc/PID/stat', () => {
  const rest = 'S 41 42 42 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 987654 1 2 3'

  it.each(['(node)', '(Web Content)', '(a) S 1 (b)', '())'])('is read, whatever the name: %s', (name) => {
    expect(parseStat(`42 ${name} ${rest}`)).toEqual({
      state: 'S',
      parent: 41,
      session: 42,
      startTicks: '987654',
    })
  })

  it.each(['', '42', '42 (node) S 41'])('is refused when it is not whole: "%s"', (line) => {
    expect(parseStat(line)).toBeNull()
  })
})

describe('a process', () => {
  it('is known by its birth', () => {
    const record = mustRecord(process.pid)
    expect(isAlive(record)).toBe(true)
  })

  it('is not the one that had its id before', () => {
    const { pid, birth } = mustRecord(process.pid)
    expect(isAlive({ pid, birth: `${birth}0` })).toBe(false)
  })

  it('is dead when it ended, even if nobody waited for it', async () => {
    const { parent, childPid } = await shell('sleep 1000 & echo $!; exec sleep 1001')
    // A shell might wait for its child; what it turns into does not.
    while (readFileSync(`/proc/${parent.pid}/comm`, 'utf8') !== 'sleep\n') await turn()
    process.kill(childPid, 'SIGKILL')
    while (birthOf(childPid) !== null) await turn()
    expect(existsSync(`/proc/${childPid}`)).toBe(true)
  })

  it('is killed together with its children', async () => {
    const { parent, childPid } = await shell('sleep 1000 & echo $!; wait')
    const child = mustRecord(childPid)
    await killTree(mustRecord(parent.pid))
    expect(isAlive(child)).toBe(false)
    expect(birthOf(parent.pid ?? 0)).toBeNull()
  })

  it('is asked to end by its own signal', async () => {
    const { parent } = await shell('trap "exit 7" INT; echo 1; while :; do sleep 0.01; done')
    const exit = once(parent, 'exit')
    await stopTree(mustRecord(parent.pid), 'SIGINT')
    expect(await exit).toEqual([7, null])
  })

  it.each(['asked to end', 'gone already'])('leaves no helper behind when it is %s', async (when) => {
    const { parent, childPid } = await shell('sleep 1000 & echo $!; wait', true)
    const [record, helper] = [mustRecord(parent.pid), mustRecord(childPid)]
    if (when === 'gone already') {
      parent.kill('SIGKILL')
      await once(parent, 'exit')
    }
    await stopTree(record, 'SIGTERM')
    expect(isAlive(helper)).toBe(false)
  })

  it('that took the id of ours is left alone', async () => {
    const { parent, childPid } = await shell('echo $$; exec sleep 1000')
    const { pid, birth } = mustRecord(parent.pid)
    expect(childPid).toBe(pid)
    await stopTree({ pid, birth: `${birth}0` }, 'SIGTERM')
    await killTree({ pid, birth: `${birth}0` })
    expect(isAlive({ pid, birth })).toBe(true)
  })
})
