/**
 * Judges the order of a key at a destination: once somebody later has been sent, somebody earlier must not be
 * accepted for the first time. Who is earlier:
 *
 *   two events without a delay     by their position, which is the order of their confirmed transactions
 *   with a delay, one or both      a delayed event takes its place when it is due, not before. So it is later than
 *                                  what was confirmed before it was due, and earlier than what was published after it
 *                                  had been sent; two delayed ones are in the order of their due times.
 *
 * Of a delayed event's place only its bounds are known, so pairs whose bounds overlap are not judged.
 */

/** Times of two processes and of the database are compared. */
const TOLERANCE_MS = 20

/** An event as its own transaction wrote it down. */
export interface Ordered {
  readonly id: string
  readonly key: string | null
  readonly position: number
  readonly body: { readonly publishedAt: number; readonly delayMs: number }
}

/** When its COMMIT was sent, and when it was confirmed; Infinity if it was not. */
export interface Confirmation {
  readonly commitAt: number
  readonly answeredAt: number
}

/** Of what has been sent so far: the highest position, the latest publish, the latest earliest due time. */
interface Sent {
  position: number
  publishedAt: number
  dueAt: number
}

const before = (a: number, b: number): boolean => a + TOLERANCE_MS < b

export class KeyOrder {
  readonly #sent = new Map<string, Sent>()
  /** When delayed events arrived first, by destination. */
  readonly #arrived = new Map<string, number>()

  /** What is wrong with this arrival, or null. `first`: it is accepted, and was not before. */
  next(
    truth: Ordered,
    destination: string,
    confirmed: Confirmation,
    at: number,
    first: boolean,
  ): string | null {
    const { id, key, position, body } = truth
    const line = `${key} ${destination}`
    const sent = this.#sent.get(line) ?? { position: -1, publishedAt: -Infinity, dueAt: -Infinity }
    this.#sent.set(line, sent)
    const delayed = body.delayMs > 0
    const overtaken = delayed
      ? this.#passedWhenDelayed(truth, sent, confirmed, destination, at)
      : this.#passed(truth, sent, confirmed)
    if (delayed) sent.dueAt = Math.max(sent.dueAt, body.publishedAt + body.delayMs)
    else {
      sent.position = Math.max(sent.position, position)
      sent.publishedAt = Math.max(sent.publishedAt, body.publishedAt)
    }
    return first && overtaken !== null
      ? `${key} at ${destination}: ${position} (${id}) came after ${overtaken}`
      : null
  }

  /** By whom, in words. */
  #passed({ position }: Ordered, sent: Sent, { answeredAt }: Confirmation): string | null {
    if (position < sent.position) return String(sent.position)
    return before(answeredAt, sent.dueAt) ? 'a delayed event that was not due when it was confirmed' : null
  }

  #passedWhenDelayed(
    { id, body: { delayMs } }: Ordered,
    sent: Sent,
    { commitAt, answeredAt }: Confirmation,
    destination: string,
    at: number,
  ): string | null {
    const identity = `${id} ${destination}`
    const arrivedAt = this.#arrived.get(identity) ?? at
    this.#arrived.set(identity, arrivedAt)
    if (before(arrivedAt, sent.publishedAt)) return 'one that was published when it had been sent already'
    if (before(Math.max(commitAt + delayMs, answeredAt), sent.dueAt)) return 'one that was due later'
    return null
  }
}
