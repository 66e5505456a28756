/** Plants defects into a small run that is well, and expects the checker to find each of them, and nothing else. */
import { DELIVERY_STATUS } from '../../src/core/model/delivery.ts'
import type { IntentLine, SinkLine, TruthLine } from '../logs.ts'
import { PLANTED_AT_BROKERS } from './planted-at-brokers.ts'
import { DEAD, goodStory, idOf, judgeStory, type Planted, SLOT, type Story, transition } from './story.ts'

const { pending, done, dead } = DELIVERY_STATUS

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
  ...PLANTED_AT_BROKERS,
]

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
