/** Defects between the publishers and the brokers. */
import type { Mutant } from '../mutant.ts'

const ISOLATION = 'src/publishers/shared/isolation.ts'
const BROKER = 'src/publishers/shared/broker.ts'
const BROKER_TEST = 'src/publishers/shared/broker.test.ts'

export const PUBLISHERS: readonly Mutant[] = [
  {
    name: 'lost-batch-not-divided',
    file: BROKER,
    find: 'if (!said.lost) return said.results as readonly SendResult[]',
    replace: `if (said.lost) throw new OutageError('the connection was lost')
    if (!said.lost) return said.results as readonly SendResult[]`,
    breaks: 'a message for which the broker closes the connection does not keep others from arriving',
    hunters: [BROKER_TEST],
  },
  {
    name: 'charged-although-nothing-passes',
    file: ISOLATION,
    find: 'const isGuilty = this.#suspects.isGuilty(this.#delivery(at))',
    replace: 'const isGuilty = true',
    breaks: 'nobody is charged for a lost connection while nothing gets through',
    hunters: [BROKER_TEST],
  },
  {
    name: 'culprit-overtaken-in-its-key',
    file: ISOLATION,
    find: 'if (key === null || (this.#brokenAt.get(key) ?? at) >= at) return false',
    replace: 'if (key !== undefined) return false',
    breaks: 'nothing of a key is sent before one that the broker closes the connection for',
    hunters: [BROKER_TEST],
  },
  {
    name: 'connections-without-bound',
    file: ISOLATION,
    find: 'const MAX_LOSSES = 50',
    replace: 'const MAX_LOSSES = Number.POSITIVE_INFINITY',
    breaks: 'one send opens a bounded number of connections',
    hunters: [BROKER_TEST],
  },
]
