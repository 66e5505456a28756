/**
 * Which transactions had a statement that failed. PostgreSQL gives the whole transaction up then and answers
 * COMMIT with ROLLBACK, MySQL may have rolled it back and stores what comes next on its own; most libraries tell
 * neither. So after a failure, and only then, the database is asked.
 */
import { ERROR_CODES, TransactionError } from '../../core/errors.ts'

export class Doubts {
  readonly #raised = new WeakSet<object>()

  raise(subject: object): void {
    this.#raised.add(subject)
  }

  has(subject: object): boolean {
    return this.#raised.has(subject)
  }

  clear(subject: object): void {
    this.#raised.delete(subject)
  }
}

const PROBE = 'posthaste_probe'

/**
 * A savepoint needs a transaction that is well: a failed one of PostgreSQL refuses the first statement, and
 * without one MySQL does not know the savepoint when the second comes.
 */
export const PROBES = [`SAVEPOINT ${PROBE}`, `RELEASE SAVEPOINT ${PROBE}`] as const

export const givenUp = (cause?: unknown): TransactionError =>
  new TransactionError(
    ERROR_CODES.commitRolledBack,
    'The database has given this transaction up because of an earlier error in it, so nothing of it is stored. Let ' +
      'that error out of the function, or put what may fail into a nested transaction.',
    cause === undefined ? {} : { cause },
  )
