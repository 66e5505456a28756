/** What publishers answer. */
import { ERROR_CODES, OutboxError } from '../../core/errors.ts'
import type { OutgoingDelivery, SendResult } from '../../core/spi/index.ts'

export const SENT: SendResult = Object.freeze({ ok: true })

export const failed = (error: unknown): SendResult => ({ ok: false, error })

/** Each by itself: what becomes of one says nothing about the others. */
export const sendEach = (
  deliveries: readonly OutgoingDelivery[],
  sendOne: (delivery: OutgoingDelivery) => Promise<unknown>,
): Promise<readonly SendResult[]> =>
  Promise.all(
    deliveries.map((delivery) =>
      sendOne(delivery).then(
        () => SENT,
        (error: unknown) => failed(error),
      ),
    ),
  )

export const closedError = (publisher: string): OutboxError =>
  new OutboxError(
    ERROR_CODES.closed,
    `${publisher} is closed; a publisher cannot be used again after outbox.close()`,
  )
