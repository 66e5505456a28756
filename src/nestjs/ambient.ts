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
  const publish = async (...given: readonly unknown[]): Promise<string> =>
    await outbox.publish(...(placed(given) as [unknown, Draft]))
  const publishMany = async (...given: readonly unknown[]): Promise<readonly string[]> =>
    await outbox.publishMany(...(placed(given) as [unknown, readonly Draft[]]))
  // Everything else is the outbox itself; its methods do not depend on what they are called on.
  return Object.create(outbox, {
    publish: { value: publish },
    publishMany: { value: publishMany },
  }) as AnyOutbox
}
