/** What publishers answer. */
import { ERROR_CODES, OutageError, RetryAfter } from '../../core/errors.ts'
import type { OutgoingDelivery, SendResult } from '../../core/spi/index.ts'

export const SENT: SendResult = Object.freeze({ ok: true })

export const failed = (error: unknown): SendResult => ({ ok: false, error })

/** Not its fault: it spends no attempt. */
export const behind = (): SendResult =>
  failed(new RetryAfter(0, { message: 'one before it in its key was not accepted', counted: false }))

/** What is made of each delivery, in its place, or why it cannot be: that concerns nobody but those behind it in its key. */
export const makeEach = <T>(
  deliveries: readonly OutgoingDelivery[],
  make: (delivery: OutgoingDelivery, at: number) => T,
): { readonly made: readonly T[]; readonly around: (sent: readonly SendResult[]) => SendResult[] } => {
  const made: T[] = []
  const brokenKeys = new Set<string | null>()
  const failures = deliveries.map((delivery, at): SendResult | null => {
    const { key } = delivery.event
    if (brokenKeys.has(key)) return behind()
    try {
      made.push(make(delivery, at))
      return null
    } catch (error) {
      if (key !== null) brokenKeys.add(key)
      return failed(error)
    }
  })
  return {
    made,
    /** The results of what was made, among those of what was not. */
    around(sent) {
      let next = 0
      return failures.map((failure) => failure ?? (sent[next++] as SendResult))
    },
  }
}

/** Each by itself: what becomes of one says nothing about the others. `answered` has it as soon as it is known. */
export const sendEach = (
  deliveries: readonly OutgoingDelivery[],
  sendOne: (delivery: OutgoingDelivery) => Promise<unknown>,
  answered: (SendResult | undefined)[] = [],
): Promise<readonly SendResult[]> =>
  Promise.all(
    deliveries.map(async (delivery, at) => {
      let result: SendResult = SENT
      try {
        await sendOne(delivery)
      } catch (error) {
        result = failed(error)
      }
      answered[at] = result
      return result
    }),
  )

/** Another outbox that had the same publisher has closed it, which says nothing about the events of this one. */
class ClosedPublisherError extends OutageError {
  override readonly code = ERROR_CODES.closed
}

export const closedError = (publisher: string): OutageError =>
  new ClosedPublisherError(
    `${publisher} is closed, as it is after outbox.close(); a publisher belongs to one outbox, so make one for each`,
  )
