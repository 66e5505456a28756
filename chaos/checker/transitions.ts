/**
 * Judges what the triggers wrote about deliveries: only legal steps, attempts that never shrink, finished runs that
 * stay as they are, and nobody who vanishes.
 */
import { DELIVERY_STATUS, statusName } from '../../src/core/model/delivery.ts'
import { plainId, type TransitionLine, type TruthLine } from '../logs.ts'

const { pending, done, retry, dead, discarded, scheduled, held } = DELIVERY_STATUS

/** Steps of a row within `deliveries`. A retry that is due behind another holder of its key is held like any other. */
const STEPS: ReadonlyMap<number, readonly number[]> = new Map([
  [pending, [pending, retry, dead, held]],
  [retry, [retry, dead, held]],
  [scheduled, [pending]],
  [held, [pending, held]],
  [dead, []],
])

/** From where a run may end, and how. Nobody in a chaos run is an operator, so nothing is discarded. */
const ENDS: ReadonlyMap<number, readonly number[]> = new Map([
  [pending, [done]],
  [retry, [done]],
])

interface Life {
  /** In `deliveries`; null once it left. */
  status: number | null
  last: number
  attempts: number
  finished: number | null
}

const name = (status: number | null): string => (status === null ? 'nothing' : statusName(status))

export class Transitions {
  readonly #lives = new Map<string, Life>()
  readonly #identities = new Map<string, string>()
  readonly #maxAttempts: number
  readonly #truth: ReadonlyMap<string, TruthLine>
  readonly #unroutedName: string

  constructor(maxAttempts: number, truth: ReadonlyMap<string, TruthLine>, unroutedName = '*') {
    this.#maxAttempts = maxAttempts
    this.#truth = truth
    this.#unroutedName = unroutedName
  }

  /** What is wrong with this step, or null. */
  next(line: TransitionLine): string | null {
    const problem = line.of === 'deliveries' ? this.#delivery(line) : this.#finished(line)
    const { destination, event, run } = line
    return problem === null ? null : `${problem} (event ${event}, ${destination}, run ${run})`
  }

  /** Rows that left without a trace. An unrouted one is replaced by those of its destinations. */
  *end(): Generator<string> {
    for (const [id, { status, finished }] of this.#lives) {
      if (status === null && finished === null) yield `delivery ${id} vanished`
      if (status !== null && finished !== null) yield `delivery ${id} is finished and unfinished at once`
    }
  }

  #delivery(line: TransitionLine): string | null {
    const { op, delivery, was, is, attempts } = line
    if (op === 'insert') return this.#born(line)
    const life = this.#lives.get(delivery)
    if (life === undefined) return `${op} of a delivery that was never inserted`
    if (op === 'delete') {
      life.last = life.status ?? life.last
      life.status = null
      if (line.destination === this.#unroutedName) this.#lives.delete(delivery)
      return null
    }
    if (life.finished !== null) return `a finished delivery became ${name(is)}`
    if (life.status !== was) return `was ${name(life.status)}, and then changed from ${name(was)}`
    const before = life.attempts
    life.status = is
    life.attempts = Math.max(before, attempts ?? 0)
    if ((attempts ?? 0) < before) return `attempts shrank from ${before} to ${attempts}`
    if (!STEPS.get(was ?? -1)?.includes(is ?? -1)) return `${name(was)} became ${name(is)}`
    return is === dead ? this.#deserved(line) : null
  }

  #born({ delivery, event, destination, run, is, attempts }: TransitionLine): string | null {
    const identity = `${event} ${destination} ${run}`
    const twin = this.#identities.get(identity)
    this.#identities.set(identity, delivery)
    const before = this.#lives.get(delivery)
    this.#lives.set(delivery, { status: is, last: is ?? pending, attempts: attempts ?? 0, finished: null })
    if (before !== undefined || twin !== undefined) return 'inserted a second time'
    if (is !== pending && is !== scheduled) return `inserted as ${name(is)}`
    return run === 1 ? null : `run ${run}, which nobody asked for`
  }

  #finished({ op, delivery, is, attempts }: TransitionLine): string | null {
    if (op !== 'insert') return `${op} of a finished run`
    const life = this.#lives.get(delivery)
    if (life === undefined) return 'finished, and was never inserted'
    if (life.finished !== null) return 'finished a second time'
    life.finished = is
    const from = life.status ?? life.last
    if ((attempts ?? 0) < life.attempts) return `attempts shrank from ${life.attempts} to ${attempts}`
    if (is === discarded) return `${name(from)} was discarded, and nobody asked for it`
    return ENDS.get(from)?.includes(is ?? -1) ? null : `${name(from)} ended as ${name(is)}`
  }

  /** Dead only by the limit or because the sink refused for good. */
  #deserved({ event, attempts }: TransitionLine): string | null {
    const truth = this.#truth.get(plainId(event))
    if (truth?.body.fate === 'refused' || (attempts ?? 0) >= this.#maxAttempts) return null
    return `dead after ${attempts} of ${this.#maxAttempts} attempts, and nobody refused it for good`
  }
}
