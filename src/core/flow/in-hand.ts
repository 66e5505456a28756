/**
 * What was queued or running at one moment. A round waits for that and not for what comes later: under steady traffic
 * there may be no moment in which nothing runs.
 */
import type { Dispatcher } from './dispatcher.ts'
import type { Queues } from './queues.ts'
import type { Settler } from './settle.ts'

class InHand {
  readonly #queues: Queues
  readonly #left: string[]

  constructor(queues: Queues) {
    this.#queues = queues
    this.#left = queues.undecided()
  }

  /** Nothing of it is queued or running any more. Cheap to ask often: each delivery is dropped once. */
  isDecided(): boolean {
    for (let last = this.#left.at(-1); last !== undefined; last = this.#left.at(-1)) {
      if (this.#queues.isUndecided(last)) return false
      this.#left.pop()
    }
    return true
  }
}

/**
 * Resolves when what is in hand at the call has ended and is written, or cannot be sent for the moment. False: some of it
 * is left, because its destination is paused, limited or cannot be reached.
 */
export const inHandSettled = async (
  dispatchers: readonly Dispatcher[],
  settler: Settler,
): Promise<boolean> => {
  const all = dispatchers.map(({ queues }) => new InHand(queues))
  await Promise.all(dispatchers.map((one, i) => one.quiet(() => all[i]?.isDecided() === true)))
  // Only now: what was queued may have been given back, and leaves the queues before that is written.
  await settler.written()
  return all.every((inHand) => inHand.isDecided())
}
