/**
 * Publishing without a handle in the transaction that @nestjs-cls/transactional has open. Its `tx` is the client
 * without a transaction when there is none, so it is looked at only after asking whether there is one.
 */
import type { Draft } from '../core/define-event.ts'
import { ERROR_CODES, OutboxError } from '../core/errors.ts'
import type { AnyOutbox } from './options.ts'

/** What is used of its `TransactionHost`. */
export interface TransactionHostLike {
  readonly tx: unknown
  isTransactionActive(): boolean
}

/**
 * A mistake is a rejection, and the promise of the outbox is handed on itself: a transaction waits for that one, and
 * whatever is put around it would end the process when nobody else does.
 */
const attempt = <T>(fn: () => Promise<T>): Promise<T> => {
  try {
    return fn()
  } catch (error) {
    return Promise.reject(error)
  }
}

export const joinAmbient = (outbox: AnyOutbox, host: TransactionHostLike): AnyOutbox => {
  /** The arguments with a handle before them, where the transaction of the host is meant. */
  const placed = (given: readonly unknown[]): readonly unknown[] => {
    if (given.length > 1 || !host.isTransactionActive()) return given
    if (outbox.txContext.isTransactionActive()) {
      throw new OutboxError(
        ERROR_CODES.conflict,
        'a transaction of this outbox and one of @nestjs-cls/transactional are open here, and either could be ' +
          'meant: give publish the handle of the right one',
      )
    }
    return [host.tx, ...given]
  }
  const publish = (...given: readonly unknown[]): Promise<string> =>
    attempt(() => outbox.publish(...(placed(given) as [unknown, Draft])))
  const publishMany = (...given: readonly unknown[]): Promise<readonly string[]> =>
    attempt(() => outbox.publishMany(...(placed(given) as [unknown, readonly Draft[]])))
  // Everything else is the outbox itself; its methods do not depend on what they are called on.
  return Object.create(outbox, {
    publish: { value: publish },
    publishMany: { value: publishMany },
  }) as AnyOutbox
}
