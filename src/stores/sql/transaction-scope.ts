/**
 * What a transaction of ours is, and what its user hears, whichever the database: the states of transactions and
 * savepoints, and the errors of using them in a way that cannot end well.
 */
import { ERROR_CODES, OutboxError, StoreError, TransactionError } from '../../core/errors.ts'
import type { OpenTransaction } from '../../core/spi/index.ts'

/** One transaction or savepoint. Only the innermost one may be used. */
export interface Scope {
  ended: boolean
  child: Scope | null
}

export const newScope = (): Scope => ({ ended: false, child: null })

export const transactionOver = (cause?: unknown): TransactionError =>
  new TransactionError(
    ERROR_CODES.transactionEnded,
    'This transaction is over. Use the handle only inside the function that got it, and await everything there.',
    cause === undefined ? {} : { cause },
  )

export const checkScope = (scope: Scope): void => {
  if (scope.ended) throw transactionOver()
  if (scope.child !== null) {
    throw new TransactionError(
      ERROR_CODES.conflict,
      'A nested transaction is open: use its own handle until it ends, and run nested ones one after another.',
    )
  }
}

/** With the nested ones that nobody awaited: their handles are of no use any more either. */
export const endScope = (scope: Scope): void => {
  for (let inner = scope.child; inner !== null; inner = inner.child) inner.ended = true
  scope.ended = true
}

export const runTransaction = async <Tx, T>(
  transactions: { begin(): Promise<OpenTransaction<Tx>> },
  fn: (tx: Tx) => Promise<T>,
): Promise<T> => {
  const open = await transactions.begin()
  let result: T
  try {
    result = await fn(open.tx)
  } catch (error) {
    // A rollback that fails too says less than what led to it.
    await open.rollback().catch(() => undefined)
    throw error
  }
  await open.commit()
  return result
}

export const notNestable = (): TransactionError =>
  new TransactionError(
    ERROR_CODES.noTransaction,
    'Only transactions that outbox.transaction opened can be nested; use a savepoint of your own library instead.',
  )

export const nestedStillOpen = (): TransactionError =>
  new TransactionError(
    ERROR_CODES.conflict,
    'The transaction was committed while a nested one was open; it was rolled back. Await nested transactions.',
  )

/** `what` is not in a transaction: an event that is stored on it would be stored whatever becomes of the data. */
export const notInTransaction = (what: string): TransactionError =>
  new TransactionError(
    ERROR_CODES.noTransaction,
    `${what} is not in a transaction. Publish inside outbox.transaction, or begin one first, so that the event is stored with your data or not at all.`,
  )

/** Something else in the transaction failed while a publish was on its way. */
export const undoneMeanwhile = (): TransactionError =>
  new TransactionError(
    ERROR_CODES.transactionEnded,
    'The transaction, or the savepoint, was rolled back before this event could be stored, so it was not. When several things are awaited together, the first that fails ends the transaction for all.',
  )

/** Nobody noticed, and the event would have been stored whatever becomes of the data. */
export const endedBefore = (cause?: unknown): TransactionError =>
  new TransactionError(
    ERROR_CODES.transactionEnded,
    'The database has ended this transaction already, because of an earlier error in it or of a COMMIT or ROLLBACK that was sent by hand, so the event was not stored. Let that error out of the function.',
    cause === undefined ? {} : { cause },
  )

/** The same, and it could not be removed. */
export const storedAlone = (cause: unknown): TransactionError =>
  new TransactionError(
    ERROR_CODES.transactionEnded,
    'The database has ended this transaction already, because of an earlier error in it or of a COMMIT or ROLLBACK that was sent by hand. So the event was stored without it, and could not be removed again (see the cause): it may be delivered. Let that error out of the function.',
    { cause },
  )

const HALF_STORED =
  'What was written of the event before could not be removed again: committed, it would be an event that nobody hears. Let this error out of the function, or roll the transaction back yourself, and run all of it again.'

/** A publish that failed and could not be taken back; as it was where there is no transaction that could be committed. */
export const halfStored = (error: unknown): unknown => {
  if (error instanceof TransactionError && error.code !== ERROR_CODES.conflict) return error
  if (!(error instanceof OutboxError))
    return new StoreError(ERROR_CODES.storeUnavailable, `A publish failed (see the cause). ${HALF_STORED}`, {
      cause: error,
      isHalfStored: true,
    })
  const { code, message, detail, cause } = error
  return new StoreError(code, `${message} ${HALF_STORED}`, { ...detail, cause, isHalfStored: true })
}

/** Found before a savepoint, or inside of one that has begun a transaction of its own. */
export const outerEnded = (hadFailures: boolean): TransactionError =>
  hadFailures
    ? new TransactionError(
        ERROR_CODES.commitRolledBack,
        'The database has rolled this transaction back because of an earlier error in it, so nothing of it is stored. Let that error out of the function.',
      )
    : new TransactionError(
        ERROR_CODES.transactionEnded,
        'This transaction has been ended already, by a COMMIT or ROLLBACK that was sent by hand most likely, so the nested one was not run: it would have been stored on its own. Leave both to the library.',
      )

export const commitRefused = (who: string, cause: unknown): TransactionError =>
  new TransactionError(
    ERROR_CODES.commitRolledBack,
    `${who} refused to commit; everything was rolled back.`,
    { cause },
  )

/** `what` happened during COMMIT, and there was no answer. */
export const commitUnknown = (what: string, cause: unknown): StoreError =>
  new StoreError(
    ERROR_CODES.commitUnknown,
    `${what} during COMMIT, so it is not known whether the transaction happened.`,
    { cause },
  )

/** COMMIT was answered: there was no transaction left. For what the core makes of it see `Transactions.run`. */
export const commitTooLate = (hadFailures: boolean, cause: unknown): StoreError =>
  new StoreError(
    ERROR_CODES.commitUnknown,
    'The transaction had been ended before its COMMIT, by a COMMIT or ROLLBACK that was sent by hand or by an error that nobody waited for, so it is not known whether it happened.',
    { cause, hadEnded: true, hadFailures },
  )

export const controlRefused = (keyword: string): TransactionError =>
  new TransactionError(
    ERROR_CODES.conflict,
    `${keyword} is not allowed inside outbox.transaction: throw to roll back, and nest outbox.transaction for a savepoint.`,
    { keyword },
  )
