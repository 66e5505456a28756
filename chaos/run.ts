/** One run: a database of its own, the nemesis with its crew, what they left, and the verdict on it. */
import { type ChildProcess, execFile, fork } from 'node:child_process'
import { closeSync, openSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { TYPESCRIPT } from '../scripts/run.ts'
import { withLock } from '../scripts/services/lock.ts'
import { unpack } from '../test/compat/previous.ts'
import { isBroker } from './brokers/kit.ts'
import { type BrokerPlace, closeBroker, openBroker } from './brokers/place.ts'
import type { Verdict } from './checker/verdict.ts'
import type { StoreKind } from './crew/messages.ts'
import {
  type Arena,
  closeArena,
  keepServerLog,
  migrate,
  openArena,
  openHand,
  placeNow,
  setUp,
} from './databases/arena.ts'
import { createFolder, lockOf, writeFacts } from './folders.ts'
import { FILES, Log, type RunFacts } from './logs.ts'
import type { Build, FromNemesis, NemesisTask } from './nemesis/messages.ts'
import type { Regime } from './regime.ts'

const LEASE_MS = 3_000
const MAX_ATTEMPTS = 8
const AFTERMATH_MS = 10_000
const CHECK_BYTES = 1 << 26

export interface RunOptions {
  readonly regime: Regime
  readonly store: StoreKind
  readonly seed: number
  readonly minutes: number
  readonly destinations: readonly string[]
  /** A packed build whose processes take turns with ours. */
  readonly previous: string | null
  /** Names the servers, so that two runs do not take each other's. */
  readonly label: string
  readonly progress: (message: FromNemesis & { readonly kind: 'progress' }) => void
}

export interface RunResult {
  readonly folder: string
  readonly verdict: Verdict
}

const execute = promisify(execFile)

/** In a process of its own, and from the files alone. */
export const checkFolder = async (folder: string): Promise<Verdict> => {
  const checker = new URL('./checker/main.ts', import.meta.url).pathname
  const args = [...TYPESCRIPT, checker, resolve(folder)]
  const { stdout } = await execute(process.execPath, args, { maxBuffer: CHECK_BYTES })
  return JSON.parse(stdout) as Verdict
}

/** The folder of the packed build, or why there is none. It finds drivers from its folder upwards. */
const unpacked = (file: string | null): Build | string => {
  if (file === null) return 'no other build was wanted'
  try {
    return { folder: unpack(file) }
  } catch (error) {
    return `the packed build cannot be unpacked: ${String(error).split('\n')[0]}`
  }
}

type Over = FromNemesis & { readonly kind: 'over' }

const runNemesis = (task: NemesisTask, progress: RunOptions['progress']): Promise<Over> => {
  const output = openSync(join(task.folder, 'nemesis.log'), 'a')
  const child: ChildProcess = fork(new URL('./nemesis/main.ts', import.meta.url), [JSON.stringify(task)], {
    execArgv: [...TYPESCRIPT],
    stdio: ['ignore', output, output, 'ipc'],
  })
  closeSync(output)
  const stop = (): void => void child.kill('SIGTERM')
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, stop)
  return new Promise<Over>((resolve, reject) => {
    let over: Over | null = null
    child.on('message', (message: FromNemesis) => {
      if (message.kind === 'progress') progress(message)
      else over = message
    })
    child.on('exit', (code, signal) => {
      for (const each of ['SIGINT', 'SIGTERM'] as const) process.off(each, stop)
      if (over !== null) resolve(over)
      else
        reject(new Error(`the nemesis ended with ${signal ?? code}; see ${join(task.folder, 'nemesis.log')}`))
    })
  })
}

const keep = async (folder: string, name: string, lines: AsyncIterable<object>): Promise<void> => {
  const log = new Log(folder, name)
  for await (const line of lines) log.write([line], false)
  log.close()
}

const keepDatabase = async (folder: string, arena: Arena): Promise<void> => {
  await using hand = await openHand(await placeNow(arena))
  await keep(folder, FILES.truth, hand.truth())
  await keep(folder, FILES.transitions, hand.transitions())
  await keep(folder, FILES.left, hand.left())
}

export const runChaos = async (options: RunOptions): Promise<RunResult> =>
  await withLock(
    lockOf(options.regime, options.label, options.store),
    async () => await runAlone(options),
    (pid) => console.error(`Waiting for process ${pid}, which uses the same servers.`),
  )

const runAlone = async (options: RunOptions): Promise<RunResult> => {
  const { regime, store, seed, minutes, destinations, label } = options
  const folder = createFolder(regime, seed, store)
  const facts: RunFacts = {
    seed,
    minutes,
    store,
    destinations,
    leaseMs: LEASE_MS,
    maxAttempts: MAX_ATTEMPTS,
    aftermathMs: AFTERMATH_MS,
    drained: null,
    crashes: [],
  }
  writeFacts(folder, facts)
  const previous = unpacked(options.previous)
  const arena = await openArena(store, label, minutes, folder)
  const kind = destinations.find(isBroker)
  let broker: BrokerPlace | null = null
  try {
    // Runs on another store may go on beside this one.
    if (kind !== undefined) broker = await openBroker(kind, `${label}${store}`)
    // The older tables first, then the newer ones: the way of a deployment.
    if (typeof previous !== 'string') await migrate(arena, previous.folder)
    await migrate(arena, null)
    await setUp(arena, regime)
    const task = { folder, arena, broker, regime, seed, minutes, destinations, previous }
    const { drained, crashes } = await runNemesis(
      { ...task, leaseMs: LEASE_MS, maxAttempts: MAX_ATTEMPTS },
      options.progress,
    )
    writeFacts(folder, { ...facts, drained, crashes })
    await keepDatabase(folder, arena)
  } finally {
    await keepServerLog(arena, folder)
    await closeArena(arena)
    if (broker !== null) await closeBroker(broker, folder)
  }
  return { folder, verdict: await checkFolder(folder) }
}
