/**
 * Some messages make a broker close the connection, and it does not say which one it was. Whoever only tries again would
 * do so for ever, and nobody else's message would arrive. So those without an answer are sent again in halves, on new
 * connections and with nobody beside them, until the one is alone.
 *
 * It is charged only if the broker was there all the time: when it was alone twice and others were answered meanwhile.
 * Where nothing gets through, or the broker cannot be asked any more, it is an outage.
 */
import { isOutageError, isRetryAfter, OutageError } from '../../core/errors.ts'
import type { OutgoingDelivery, SendResult } from '../../core/spi/index.ts'
import { behind, failed } from './results.ts'

/** What the broker said of each delivery, and whether the connection was lost meanwhile. */
export interface Attempt {
  readonly results: readonly (SendResult | undefined)[]
  readonly lost: boolean
}

/** More connections than this are not opened for one send; what has no answer then waits for the next. */
const MAX_LOSSES = 50
const MAX_SUSPECTS = 5_000

/** Those that were under way when a connection was lost, and have had no answer since. */
export class Suspects {
  /** How many answers there had been. */
  readonly #since = new Map<string, number>()
  #answers = 0

  answered(deliveries: readonly OutgoingDelivery[]): void {
    this.#answers += 1
    if (this.#since.size === 0) return
    for (const { deduplicationId } of deliveries) this.#since.delete(deduplicationId)
  }

  add({ deduplicationId }: OutgoingDelivery): void {
    if (this.#since.has(deduplicationId)) return
    this.#since.set(deduplicationId, this.#answers)
    if (this.#since.size > MAX_SUSPECTS) this.#since.delete(this.#since.keys().next().value as string)
  }

  /** Whether others got through since it became one. */
  isGuilty({ deduplicationId }: OutgoingDelivery): boolean {
    return (this.#since.get(deduplicationId) ?? this.#answers) < this.#answers
  }
}

const isAnswer = (result: SendResult | undefined): result is SendResult => {
  if (result === undefined || result.ok) return result !== undefined
  const { error } = result
  return !isOutageError(error) && !(isRetryAfter(error) && !error.counted)
}

const halves = (list: readonly number[]): number[][] => {
  const half = Math.ceil(list.length / 2)
  return [list.slice(0, half), list.slice(half)].filter((part) => part.length > 0)
}

const CULPRIT = 'the broker closes the connection when it is sent, and takes others'
const ALONE = 'the connection was lost when it was sent'

/** One batch that was under way when the connection was lost. */
export class Isolation {
  readonly #deliveries: readonly OutgoingDelivery[]
  readonly #suspects: Suspects
  readonly #results: (SendResult | undefined)[]
  readonly #wereAlone = new Set<number>()
  /** By key, the first that has no answer or was not accepted. */
  readonly #brokenAt = new Map<string, number>()

  constructor(deliveries: readonly OutgoingDelivery[], suspects: Suspects) {
    this.#deliveries = deliveries
    this.#suspects = suspects
    this.#results = deliveries.map(() => undefined)
  }

  /** Throws never: when the broker cannot be asked any more, that is the result of all that are left. */
  async run(
    first: Attempt,
    attempt: (deliveries: readonly OutgoingDelivery[]) => Promise<Attempt>,
  ): Promise<readonly SendResult[]> {
    const queue = halves(
      this.#take(
        this.#deliveries.map((_, at) => at),
        first,
      ),
    )
    let losses = 1
    try {
      for (let part = queue.shift(); part !== undefined; part = queue.shift()) {
        const members = part.filter((at) => !this.#isBehind(at))
        if (members.length === 0) continue
        const open = this.#take(members, await attempt(members.map((at) => this.#delivery(at))))
        if (open.length === 0) continue
        losses += 1
        if (losses > MAX_LOSSES) throw new OutageError(`the connection was lost ${losses} times`)
        if (members.length > 1) queue.unshift(...halves(open))
        else if (this.#judgeLater(open[0] as number)) queue.push(open)
      }
    } catch (error) {
      return this.#deliveries.map((_, at) => this.#results[at] ?? failed(error))
    }
    return this.#results as SendResult[]
  }

  /** Notes what was said, and gives those that nothing was said of. */
  #take(members: readonly number[], { results, lost }: Attempt): number[] {
    const open: number[] = []
    for (const [n, at] of members.entries()) {
      const result = results[n]
      if (lost && !isAnswer(result)) {
        open.push(at)
        this.#suspects.add(this.#delivery(at))
        continue
      }
      this.#results[at] = result
      if (isAnswer(result)) this.#suspects.answered([this.#delivery(at)])
      if (result?.ok === false) this.#break(at)
    }
    return open
  }

  /** True the first time: all others have their turn before it is judged. What is behind it in its key waits. */
  #judgeLater(at: number): boolean {
    this.#break(at)
    if (!this.#wereAlone.has(at)) {
      this.#wereAlone.add(at)
      return true
    }
    const isGuilty = this.#suspects.isGuilty(this.#delivery(at))
    this.#results[at] = failed(isGuilty ? new Error(CULPRIT) : new OutageError(ALONE))
    return false
  }

  #isBehind(at: number): boolean {
    const { key } = this.#delivery(at).event
    if (key === null || (this.#brokenAt.get(key) ?? at) >= at) return false
    this.#results[at] = behind()
    return true
  }

  #break(at: number): void {
    const { key } = this.#delivery(at).event
    if (key !== null) this.#brokenAt.set(key, Math.min(at, this.#brokenAt.get(key) ?? at))
  }

  #delivery(at: number): OutgoingDelivery {
    return this.#deliveries[at] as OutgoingDelivery
  }
}
