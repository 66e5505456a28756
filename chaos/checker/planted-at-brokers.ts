/** The same run with a real broker as its destination: what a reader found in it, and what may be wrong with that. */
import type { ArrivalLine } from '../logs.ts'
import { type Planted, SLOT, type Story } from './story.ts'

/** Each message at a place of its own, as if the events had gone to a partition. */
const toBroker = (story: Story): void => {
  const keys = new Map(story.truth.map(({ id, key }) => [id, key]))
  story.arrivals = story.sink
    .filter(({ sends }) => sends[0]?.[3] === 'ok')
    .map((line, at) => ({ ...line, position: `0:${at}`, key: keys.get(line.sends[0]?.[0] ?? '') ?? null }))
  story.sink = []
}

const atBroker = (
  name: string,
  breaks: Planted['breaks'],
  plant: (arrivals: ArrivalLine[], story: Story) => void,
): Planted => ({
  name: `at a broker, ${name}`,
  breaks,
  plant(story) {
    toBroker(story)
    plant(story.arrivals, story)
  },
})

/** Stored again, by a worker that does not know that it was stored. */
const storeAgain = (arrivals: ArrivalLine[], n: number): void => {
  const first = arrivals[n] as ArrivalLine
  arrivals.push({ ...first, at: first.at + 500, boot: `${SLOT}-2`, position: '0:99' })
}

const kill = ({ faults }: Story, at: number): void => {
  const fault = { id: 1, kind: 'kill-broker', hits: 'all' } as const
  faults.push({ ...fault, at, what: 'begin' }, { ...fault, at: at + 10, what: 'end' })
}

export const PLANTED_AT_BROKERS: readonly Planted[] = [
  atBroker('nothing', null, () => undefined),
  atBroker('a message that was confirmed and is gone', 'lost', (arrivals) => {
    arrivals.splice(3, 1)
  }),
  atBroker('a message of nobody', 'ghosts', (arrivals) => {
    arrivals.push({ ...(arrivals[0] as ArrivalLine), sends: [['ffff', 1, 1, 'ok']], position: '0:99' })
  }),
  atBroker('a message with the key of another', 'ghosts', (arrivals) => {
    arrivals[2] = { ...(arrivals[2] as ArrivalLine), key: 'k1' }
  }),
  atBroker('two messages of a key that were swapped', 'orderViolations', (arrivals) => {
    const [early, late] = [arrivals[2] as ArrivalLine, arrivals[4] as ArrivalLine]
    arrivals[2] = { ...late, position: early.position }
    arrivals[4] = { ...early, position: late.position }
  }),
  atBroker('two messages of different keys that were swapped', null, (arrivals) => {
    const [early, late] = [arrivals[2] as ArrivalLine, arrivals[3] as ArrivalLine]
    arrivals[2] = late
    arrivals[3] = early
  }),
  atBroker('everything read again after a break', null, (arrivals) => {
    arrivals.push(...arrivals.slice(0, 6))
  }),
  atBroker('a message that is stored twice without any fault', 'unexplained', (arrivals, { settled }) => {
    settled.splice(5, 1)
    storeAgain(arrivals, 5)
  }),
  atBroker(
    'a message that is stored twice, in flight when the broker was killed',
    null,
    (arrivals, story) => {
      kill(story, 1_060)
      story.settled.splice(5, 1)
      storeAgain(arrivals, 5)
    },
  ),
  atBroker(
    'a settled message that is stored twice at a kill of the broker',
    'unexplained',
    (arrivals, story) => {
      kill(story, 1_060)
      storeAgain(arrivals, 5)
    },
  ),
]
