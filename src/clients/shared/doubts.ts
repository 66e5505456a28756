/**
 * Which transactions had a statement that failed. PostgreSQL gives the whole transaction up then and answers
 * COMMIT with ROLLBACK, MySQL may have rolled it back and stores what comes next on its own; most libraries tell
 * neither. So after a failure, and only then, the database is asked.
 */
import { ERROR_CODES, TransactionError } from '../../core/errors.ts'

export class Doubts {
  readonly #raised = new WeakSet<object>()
  /** How many statements are under way. */
  readonly #underWay = new WeakMap<object, number>()

  raise(subject: object): void {
    this.#raised.add(subject)
  }

  has(subject: object): boolean {
    return this.#raised.has(subject) || (this.#underWay.get(subject) ?? 0) > 0
  }

  clear(subject: object): void {
    this.#raised.delete(subject)
  }

  /** Until a statement has ended there is doubt as well: nobody need wait for it before the commit. */
  follow(subject: object, statement: PromiseLike<unknown>): void {
    this.#count(subject, 1)
    statement.then(
      () => this.#count(subject, -1),
      () => {
        this.#count(subject, -1)
        this.raise(subject)
      },
    )
  }

  /** The same for a statement whose rows are read one after another. */
  async *followStream<T>(subject: object, rows: AsyncIterable<T>): AsyncIterable<T> {
    this.#count(subject, 1)
    try {
      yield* rows
    } catch (error) {
      this.raise(subject)
      throw error
    } finally {
      this.#count(subject, -1)
    }
  }

  #count(subject: object, more: number): void {
    this.#underWay.set(subject, (this.#underWay.get(subject) ?? 0) + more)
  }
}

/** Where nobody tells of statements the database is asked every time. */
export class StandingDoubt extends Doubts {
  override has(): boolean {
    return true
  }
}

const PROBE = 'posthaste_probe'

/**
 * A savepoint needs a transaction that is well: a failed one of PostgreSQL refuses the first statement, and
 * without one MySQL does not know the savepoint when the second comes. On SQLite they say nothing, because there a savepoint
 * begins a transaction; its store sees by itself what was stored on its own, and its COMMIT fails.
 */
export const PROBES = [`SAVEPOINT ${PROBE}`, `RELEASE SAVEPOINT ${PROBE}`] as const

export const givenUp = (cause?: unknown): TransactionError =>
  new TransactionError(
    ERROR_CODES.commitRolledBack,
    'The database has given this transaction up because of an earlier error in it, so nothing of it is stored. Let ' +
      'that error out of the function, or put what may fail into a nested transaction.',
    cause === undefined ? {} : { cause },
  )
