/** What is said where a transaction, or a nested one, cannot go on as its caller wants. */
import { ERROR_CODES, TransactionError } from '../errors.ts'

export const endedError = (): TransactionError =>
  new TransactionError(
    ERROR_CODES.transactionEnded,
    'the transaction (or savepoint) is over, so the event would not be stored together with its data. ' +
      'Await every publish before the function of outbox.transaction() returns, and publish before commit().',
  )

export const besideError = (): TransactionError =>
  new TransactionError(
    ERROR_CODES.conflict,
    'another nested transaction is open: run nested ones one after another, or one inside the other',
  )

export const HALF_COMMITTED = 'half of an event may have been committed: nobody will hear of it'

/** Half of an event is stored in it. */
export const halfStoredError = (cause: unknown): TransactionError =>
  new TransactionError(
    ERROR_CODES.commitRolledBack,
    'an event could not be stored, and what was written of it before could not be removed (see the cause), so the ' +
      'transaction is rolled back and cannot be committed: nothing of it is stored. Run all of it again.',
    { cause },
  )

/** A savepoint in the middle of an insert was undone. */
export const tornError = (): TransactionError =>
  new TransactionError(
    ERROR_CODES.conflict,
    'a hook of the library published while a nested transaction began, and did not wait for that. The nested one was ' +
      'undone, maybe with half of the event, so the transaction cannot be committed. Await the publish in the hook.',
  )
