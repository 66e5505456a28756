/**
 * A delivery is work: one event on its way to one destination. Its identity is (event, destination, run);
 * an operator's redrive or replay is a new run.
 *
 *   pending ──► done                        pending, retry, scheduled and held are unfinished work.
 *   pending ──► retry ──► done | dead       done and discarded are final and live in `finished`.
 *   pending ──► dead ──► discarded          dead waits for an operator or for the retention to pass.
 *   scheduled ──► pending (when due)        held waits behind its key's head and becomes pending again
 *   pending ◄──► held                       when that head is out of the way.
 *
 * "Processing" is not a state: it is unfinished work under a live right, so nothing can be stuck in it.
 */
import type { EventRecord } from './event.ts'

export const DELIVERY_STATUS = {
  pending: 0,
  done: 1,
  retry: 2,
  dead: 3,
  discarded: 4,
  scheduled: 5,
  held: 6,
} as const

export type DeliveryStatus = keyof typeof DELIVERY_STATUS

const NAMES = Object.entries(DELIVERY_STATUS) as [DeliveryStatus, number][]
const NAME_BY_CODE = new Map<number, DeliveryStatus>(NAMES.map(([name, code]) => [code, name]))

export const statusName = (code: number): DeliveryStatus => {
  const name = NAME_BY_CODE.get(code)
  if (name === undefined) throw new RangeError(`unknown delivery status ${code}`)
  return name
}

/** Destination of a delivery that its publisher could not route; any worker expands it. */
export const UNROUTED = '*'

/**
 * What allows this process to settle a delivery. A token was written into the row for us alone; a lane is
 * ours while our worker row is not fenced. A right that was lost changes nothing in the database.
 */
export type Right =
  | { readonly kind: 'token'; readonly token: string }
  | { readonly kind: 'lane'; readonly workerId: string }

export type DeliverySource = 'hot' | 'cold'

/** A delivery that this process may send now; both paths yield it, and behind the queues it is all there is. */
export interface Delivery {
  readonly id: string
  readonly event: EventRecord
  readonly destination: string
  readonly run: number
  readonly lane: number
  /** Position in the order of its key. Null on the hot path of a keyless event, where nobody asks. */
  readonly seq: bigint | null
  /** Attempts spent before this one. */
  readonly attempts: number
  /** The attempt about to be made was already written down, because earlier ones may have ended the process. */
  readonly attemptSpent: boolean
  /** Nothing else of its destination may run beside it. */
  readonly alone: boolean
  /** It was a retry, held or promoted row: later rows of its key wait in the database for it. */
  readonly holdsKey: boolean
  readonly right: Right
  readonly source: DeliverySource
  /** It was counted as a suspect, so its row carries a token. */
  readonly suspected?: boolean
  /** It was found by its due time (a retry, or scheduled), so every read brings it again until it is settled. */
  readonly timed?: boolean
  /** Monotonic time of the commit; known on the hot path only. */
  readonly committedAt?: number
  /** Monotonic time since which it could be sent; of what was read, where the store tells. */
  readonly dueAt?: number | undefined
}

/** One failed attempt, as the bounded history keeps it. */
export interface AttemptFailure {
  readonly attempt: number
  readonly durationMs: number
  readonly code: string | null
  readonly message: string
  readonly stack: string | null
}

/** What became of a delivery; `deliver` returns one for each, and settle writes it. */
export type Outcome =
  | { readonly kind: 'done' }
  /** `counted` is false when the receiver asked for time without refusing the event. */
  | {
      readonly kind: 'retry'
      readonly delayMs: number
      readonly counted: boolean
      readonly failure: AttemptFailure
    }
  | { readonly kind: 'dead'; readonly failure: AttemptFailure }
  /** Not sent, or the place could not be reached: the row is as if nobody had touched it. */
  | { readonly kind: 'released' }
