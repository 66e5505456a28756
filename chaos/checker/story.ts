/** A small run that is well, in memory; to plant defects into, and to be judged. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DELIVERY_STATUS } from '../../src/core/model/delivery.ts'
import { writeFacts } from '../folders.ts'
import {
  type ArrivalLine,
  type FaultLine,
  FILES,
  type IntentLine,
  intentsFile,
  type LeftLine,
  Log,
  type RunFacts,
  type SettledLine,
  type SinkLine,
  settledFile,
  type TransitionLine,
  type TruthLine,
} from '../logs.ts'
import { checkRun } from './check.ts'
import type { Verdict, Violation } from './verdict.ts'

/** Everything that a run leaves, in memory. */
export interface Story {
  facts: RunFacts
  truth: TruthLine[]
  intents: IntentLine[]
  sink: SinkLine[]
  arrivals: ArrivalLine[]
  settled: SettledLine[]
  faults: FaultLine[]
  transitions: TransitionLine[]
  left: LeftLine[]
}

export interface Planted {
  readonly name: string
  /** Null: well after all. */
  readonly breaks: Violation | null
  plant(story: Story): void
}

export const SLOT = 'worker1'
const BOOT = 'worker1-1'
const EVENTS = 12
export const DEAD = 11
const KEY_OF = (n: number): string | null => (n < 8 ? `k${n % 2}` : null)
export const idOf = (n: number): string => `0000000000000000000000000000000${n.toString(16)}`

export const transition = (n: number, line: Partial<TransitionLine>): TransitionLine => ({
  of: 'deliveries',
  op: 'update',
  delivery: `d${n}`,
  event: idOf(n),
  destination: 'batch',
  run: 1,
  was: null,
  is: null,
  attemptsWere: null,
  attempts: null,
  ...line,
})

const { pending, done, dead } = DELIVERY_STATUS

const livesOf = (n: number): TransitionLine[] => {
  const born = transition(n, { op: 'insert', is: pending, attempts: 0 })
  if (n === DEAD) return [born, transition(n, { was: pending, is: dead, attemptsWere: 0, attempts: 1 })]
  return [
    born,
    transition(n, { op: 'delete', was: pending, attemptsWere: 0 }),
    transition(n, { of: 'finished', op: 'insert', is: done, attempts: 1 }),
  ]
}

/** Twelve events: eight of two keys, one that is refused for good, all confirmed, sent and settled. */
export const goodStory = (): Story => {
  const all = Array.from({ length: EVENTS }, (_, n) => n)
  const delivered = all.filter((n) => n !== DEAD)
  const at = (n: number): number => 1_000 + n * 10
  return {
    facts: {
      seed: 0,
      minutes: 1,
      store: 'planted',
      destinations: ['batch'],
      leaseMs: 3_000,
      maxAttempts: 5,
      aftermathMs: 100,
      drained: true,
      crashes: [],
    },
    truth: all.map((n) => ({
      id: idOf(n),
      key: KEY_OF(n),
      position: n,
      body: {
        boot: BOOT,
        n,
        destinations: ['batch'],
        publishedAt: at(n),
        delayMs: 0,
        failures: 0,
        fate: n === DEAD ? 'refused' : 'accepted',
      },
    })),
    intents: all.flatMap((n) => [
      { at: at(n), boot: BOOT, n, what: 'begin' },
      { at: at(n), boot: BOOT, n, what: 'commit', ids: [idOf(n)] },
      { at: at(n) + 1, boot: BOOT, n, what: 'ok' },
    ]),
    sink: all.map((n) => ({
      at: at(n) + 2,
      slot: SLOT,
      boot: BOOT,
      destination: 'batch',
      sends: [[idOf(n), 1, 1, n === DEAD ? 'dead' : 'ok']],
    })),
    arrivals: [],
    settled: delivered.map((n) => ({
      at: at(n) + 3,
      boot: BOOT,
      what: 'done',
      destination: 'batch',
      event: idOf(n),
      run: 1,
    })),
    faults: [],
    transitions: all.flatMap(livesOf),
    left: [{ event: idOf(DEAD), destination: 'batch', status: dead, attempts: 1 }],
  }
}

const writeStory = (folder: string, story: Story): void => {
  writeFacts(folder, story.facts)
  const files: [string, readonly object[]][] = [
    [FILES.truth, story.truth],
    [intentsFile(SLOT), story.intents],
    [FILES.sink, story.sink],
    [FILES.arrivals, story.arrivals],
    [settledFile(SLOT), story.settled],
    [FILES.faults, story.faults],
    [FILES.transitions, story.transitions],
    [FILES.left, story.left],
  ]
  for (const [name, lines] of files) {
    const log = new Log(folder, name)
    log.write(lines, false)
    log.close()
  }
}

export const judgeStory = async (story: Story): Promise<Verdict> => {
  const folder = mkdtempSync(join(tmpdir(), 'posthaste-chaos-'))
  try {
    writeStory(folder, story)
    return await checkRun(folder)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
