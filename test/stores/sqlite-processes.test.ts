/** Several processes on one file at once. */
import { fork } from 'node:child_process'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { TYPESCRIPT } from '../../scripts/run.ts'
import { sqliteStore } from '../../src/stores/sqlite/index.ts'
import { type TestFolder, testContext, testFolder } from './sqlite-files.ts'
import { read } from './sqlite-words.ts'

let folder: TestFolder

beforeEach(() => {
  folder = testFolder()
})

afterEach(() => folder.remove())

/** Starts all of them, lets them go at the same moment, and waits for their ends. */
const together = async (commands: readonly (readonly string[])[]): Promise<void> => {
  const script = new URL('./sqlite-process.ts', import.meta.url)
  const processes = commands.map((args) => {
    const child = fork(script, args, {
      execArgv: [...TYPESCRIPT],
      stdio: ['ignore', 'inherit', 'pipe', 'ipc'],
    })
    let errors = ''
    child.stderr?.on('data', (chunk: Buffer) => {
      errors += chunk.toString()
    })
    const ready = new Promise<void>((resolve) => child.once('message', () => resolve()))
    const ended = new Promise<void>((resolve, reject) => {
      child.once('exit', (code) => (code === 0 ? resolve() : reject(new Error(`exit ${code}\n${errors}`))))
    })
    return { child, ready, ended }
  })
  await Promise.all(processes.map(({ ready, ended }) => Promise.race([ready, ended])))
  for (const { child } of processes) child.send('go')
  await Promise.all(processes.map(({ ended }) => ended))
}

const open = async () => {
  const store = sqliteStore({ file: folder.file, driver: 'libsql' })
  await store.open(testContext())
  return store
}

describe('processes on one file', () => {
  it('[46] ten first boots at once leave one schema', async () => {
    await together(Array.from({ length: 10 }, () => ['boot', folder.file]))
    const store = await open()
    const { current, latest, applied } = await store.schema.status()
    expect(current).toBe(latest)
    expect(applied).toHaveLength(latest)
    await store.close()
  })

  it('[51] four writers at once lose nothing and none of them fails', async () => {
    const [writers, each] = [4, 100]
    await together(Array.from({ length: writers }, (_, i) => ['publish', folder.file, String(each), `k${i}`]))
    const store = await open()
    const [counts] = await store.inspection.counts()
    expect(counts?.counts).toMatchObject({
      done: writers * (each / 10) * 5,
      pending: writers * (each - (each / 10) * 5),
    })
    const { fresh } = await read(store)
    expect(new Set(fresh.map(({ seq }) => seq)).size).toBe(fresh.length)
    // Each writer's events come in the order in which it published them.
    for (let i = 0; i < writers; i++) {
      const mine = fresh
        .filter((row) => row.key === `k${i}`)
        .map((row) => JSON.parse(row.event?.data as string).n)
      expect(mine).toEqual([...mine].sort((a, b) => a - b))
    }
    await store.close()
  })
})
