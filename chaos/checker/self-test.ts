/** Plants defects into a small run that is well, and expects the checker to find each of them, and nothing else. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DELIVERY_STATUS } from '../../src/core/model/delivery.ts'
import { writeFacts } from '../folders.ts'
import {
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
  settled: SettledLine[]
  faults: FaultLine[]
  transitions: TransitionLine[]
  left: LeftLine[]
}

const SLOT = 'worker1'
const BOOT = 'worker1-1'
const EVENTS = 12
const DEAD = 11
const KEY_OF = (n: number): string | null => (n < 8 ? `k${n % 2}` : null)
const idOf = (n: number): string => `0000000000000000000000000000000${n.toString(16)}`

const transition = (n: number, line: Partial<TransitionLine>): TransitionLine => ({
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

const sendAgain = (story: Story, n: number, boot: string): void => {
  const first = story.sink[n] as SinkLine
  story.sink.push({ ...first, at: first.at + 500, boot })
}

/** Makes an event one of a key, published at this time, with a delay. */
const keyed = ({ truth }: Story, n: number, publishedAt: number, delayMs: number): void => {
  const line = truth[n] as TruthLine
  truth[n] = { ...line, key: 'late', body: { ...line.body, publishedAt, delayMs } }
}

/** Lets the requests of these events come at these times, and in this order, after all others. */
const sendAt = ({ sink }: Story, times: readonly (readonly [n: number, at: number])[]): void => {
  const moved = times.map(([n, at]) => ({ ...(sink[n] as SinkLine), at }))
  const gone = new Set(times.map(([n]) => sink[n]))
  sink.splice(0, sink.length, ...sink.filter((line) => !gone.has(line)), ...moved)
}

interface Planted {
  readonly name: string
  /** Null: well after all. */
  readonly breaks: Violation | null
  plant(story: Story): void
}

export const PLANTED: readonly Planted[] = [
  { name: 'nothing', breaks: null, plant: () => undefined },
  {
    name: 'a loss',
    breaks: 'lost',
    plant: (story) => {
      story.sink.splice(3, 1)
      story.settled.splice(3, 1)
    },
  },
  {
    name: 'a commit that was confirmed and is gone',
    breaks: 'lost',
    plant: (story) => {
      story.truth.splice(9, 1)
      story.sink.splice(9, 1)
      story.transitions = story.transitions.filter(({ event }) => event !== idOf(9))
    },
  },
  {
    name: 'a ghost',
    breaks: 'ghosts',
    plant: ({ sink }) => {
      sink.push({ ...(sink[0] as SinkLine), sends: [['ffff', 1, 1, 'ok']] })
    },
  },
  {
    name: 'a send before its commit',
    breaks: 'ghosts',
    plant: ({ sink }) => {
      sink[8] = { ...(sink[8] as SinkLine), at: 1_000 }
    },
  },
  {
    name: 'a delayed event that comes too soon',
    breaks: 'ghosts',
    plant: ({ truth }) => {
      const line = truth[8] as TruthLine
      truth[8] = { ...line, body: { ...line.body, delayMs: 200 } }
    },
  },
  {
    name: 'two events of a key that were swapped',
    breaks: 'orderViolations',
    plant: ({ sink }) => {
      const [early, late] = [sink[2] as SinkLine, sink[4] as SinkLine]
      sink[2] = { ...late, at: late.at }
      sink[4] = early
    },
  },
  {
    name: 'a delayed event before one that was there when it was due',
    breaks: 'orderViolations',
    plant: (story) => {
      keyed(story, 8, 1_080, 0)
      keyed(story, 9, 1_090, 50)
      sendAt(story, [
        [9, 1_142],
        [8, 1_150],
      ])
    },
  },
  {
    name: 'two delayed events of a key against their due times',
    breaks: 'orderViolations',
    plant: (story) => {
      keyed(story, 8, 1_080, 100)
      keyed(story, 9, 1_090, 200)
      sendAt(story, [
        [9, 1_292],
        [8, 1_300],
      ])
    },
  },
  {
    name: 'a delayed event that was refused, and overtaken by a new one',
    breaks: 'orderViolations',
    plant: (story) => {
      keyed(story, 8, 1_080, 10)
      keyed(story, 10, 1_120, 0)
      const refused = { ...(story.sink[8] as SinkLine), at: 1_092 }
      sendAt(story, [
        [10, 1_122],
        [8, 1_130],
      ])
      story.sink.splice(8, 0, { ...refused, sends: [[idOf(8), 1, 1, 'retry']] })
    },
  },
  {
    name: 'a delayed event behind those that were published before it was due',
    breaks: null,
    plant: (story) => {
      keyed(story, 8, 1_080, 100)
      keyed(story, 9, 1_090, 0)
      keyed(story, 10, 1_100, 200)
      sendAt(story, [
        [9, 1_092],
        [8, 1_182],
        [10, 1_302],
      ])
    },
  },
  {
    name: 'a duplicate without any fault',
    breaks: 'unexplained',
    plant: (story) => {
      story.settled.splice(5, 1)
      sendAgain(story, 5, 'worker1-2')
    },
  },
  {
    name: 'a duplicate of what was settled before the fault',
    breaks: 'unexplained',
    plant: (story) => {
      story.faults.push(
        { at: 1_050, id: 1, kind: 'kill-worker', what: 'begin', hits: [SLOT] },
        { at: 1_060, id: 1, kind: 'kill-worker', what: 'end', hits: [SLOT] },
      )
      sendAgain(story, 5, 'worker1-2')
    },
  },
  {
    name: 'a duplicate long after the fault',
    breaks: 'unexplained',
    plant: (story) => {
      story.faults.push(
        { at: 100, id: 1, kind: 'kill-worker', what: 'begin', hits: [SLOT] },
        { at: 110, id: 1, kind: 'kill-worker', what: 'end', hits: [SLOT] },
      )
      story.settled.splice(5, 1)
      sendAgain(story, 5, 'worker1-2')
    },
  },
  {
    name: 'a duplicate of what was in flight at a fault',
    breaks: null,
    plant: (story) => {
      story.faults.push(
        { at: 1_060, id: 1, kind: 'kill-worker', what: 'begin', hits: [SLOT] },
        { at: 1_070, id: 1, kind: 'kill-worker', what: 'end', hits: [SLOT] },
      )
      story.settled.splice(5, 1)
      sendAgain(story, 5, 'worker1-2')
    },
  },
  {
    name: 'a transaction that failed and happened',
    breaks: 'wrongAnswers',
    plant: ({ intents }) => {
      intents[2] = { ...(intents[2] as IntentLine), what: 'failed' }
    },
  },
  {
    name: 'an illegal transition',
    breaks: 'illegalTransitions',
    plant: ({ transitions }) => {
      transitions.push(transition(DEAD, { was: dead, is: pending, attemptsWere: 1, attempts: 1 }))
    },
  },
  {
    name: 'a finished run that goes on',
    breaks: 'illegalTransitions',
    plant: ({ transitions }) => {
      transitions.push(transition(0, { of: 'finished', was: done, is: done, attemptsWere: 1, attempts: 2 }))
    },
  },
  {
    name: 'a delivery that is finished twice',
    breaks: 'illegalTransitions',
    plant: ({ transitions }) => {
      transitions.push(transition(0, { of: 'finished', op: 'insert', is: done, attempts: 1 }))
    },
  },
  {
    name: 'attempts that shrink',
    breaks: 'illegalTransitions',
    plant: ({ transitions }) => {
      transitions.splice(1, 0, transition(0, { was: pending, is: pending, attemptsWere: 0, attempts: 3 }))
    },
  },
  {
    name: 'a death that nobody wanted',
    breaks: 'illegalTransitions',
    plant: ({ truth }) => {
      const line = truth[DEAD] as TruthLine
      truth[DEAD] = { ...line, body: { ...line.body, fate: 'accepted' } }
    },
  },
  {
    name: 'a delivery that vanished',
    breaks: 'illegalTransitions',
    plant: (story) => {
      story.transitions = story.transitions.filter(
        (line) => line.of === 'deliveries' || line.delivery !== 'd4',
      )
    },
  },
]

const writeStory = (folder: string, story: Story): void => {
  writeFacts(folder, story.facts)
  const files: [string, readonly object[]][] = [
    [FILES.truth, story.truth],
    [intentsFile(SLOT), story.intents],
    [FILES.sink, story.sink],
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

/** What the checker did not see, or saw and was not there. */
export const selfTest = async (): Promise<string[]> => {
  const problems: string[] = []
  for (const { name, breaks, plant } of PLANTED) {
    const story = goodStory()
    plant(story)
    const { ok, stories } = await judgeStory(story)
    const found = Object.keys(stories)
    const expected = breaks === null ? [] : [breaks]
    if (ok !== (breaks === null) || found.join() !== expected.join())
      problems.push(`${name} should break ${breaks ?? 'nothing'}, and broke ${found.join(', ') || 'nothing'}`)
  }
  return problems
}
