/**
 * Part of stage 2: runs transactions through the user's library. Receives the user's function; hands its scope
 * the one fact that matters, whether the database confirmed the commit. Guarantees that the transaction does not
 * end while a publish that began inside is on its way, whether it ends well or not.
 */
import { ERROR_CODES, OutboxError, TransactionError } from '../errors.ts'
import type { OpenTransaction, OuterMark, Transactions } from '../spi/index.ts'
import type { CommitScope, Ending } from './commit.ts'
import { besideError, endedError } from './frame-errors.ts'
import type { PublishAt } from './publish-at.ts'
import type { Place, Scopes } from './scopes.ts'

export interface RunParts<E> {
  readonly scopes: Scopes<E>
  readonly publishAt: PublishAt<E>
}

const endingOf = (error: unknown): Ending =>
  (error as { code?: unknown } | null)?.code === ERROR_CODES.commitUnknown ? 'unknown' : 'rolledBack'

const commitErrorOf = async <Tx, E>(
  { publishAt }: RunParts<E>,
  place: Place<Tx, E> | null,
  error: unknown,
): Promise<unknown> => (place === null ? error : publishAt.commitErrorOf(error, place.scope))

const end = <Tx, E>(scopes: Scopes<E>, place: Place<Tx, E> | null, ending: Ending): void => {
  if (place === null) return
  scopes.forget(place.tx, place)
  place.scope.finish(ending)
}

/** Everything between the user's last statement and COMMIT. */
const beforeCommit = async <Tx, E>(parts: RunParts<E>, place: Place<Tx, E>): Promise<void> => {
  const { scope, transactions, tx } = place
  scope.requireKept()
  if (transactions.flush !== undefined) await parts.scopes.run(place, () => transactions.flush?.(tx))
  scope.close(scope.root)
  await scope.settle(scope.root)
  await parts.publishAt.publishTracked(place as Place<unknown, E>)
  if (transactions.inTransaction(tx) === false) {
    throw new TransactionError(
      ERROR_CODES.transactionEnded,
      'the transaction was ended from inside its own function, by a COMMIT or ROLLBACK or by a statement that commits ' +
        'implicitly (DDL on MySQL). Leave that to outbox.transaction().',
    )
  }
  scope.requireKept()
}

/** Asks whether the transaction is still there; what is known to be over stays so. */
const asking = async <T>(scope: CommitScope, ask: () => Promise<T>): Promise<T> => {
  scope.requireKept()
  try {
    return await ask()
  } catch (error) {
    if (error instanceof TransactionError) scope.lose(error)
    throw error
  }
}

/** `fn` in a new transaction; it is ambient while it runs. */
export const runTransaction = async <Tx, E, T>(
  parts: RunParts<E>,
  transactions: Transactions<Tx, E>,
  fn: (tx: Tx) => T | Promise<T>,
): Promise<T> => {
  const { scopes } = parts
  let place: Place<Tx, E> | null = null
  const inside = async (tx: Tx): Promise<T> => {
    // Some libraries call the function again after a serialisation failure; the first try is gone then.
    end(scopes, place, 'rolledBack')
    const here = scopes.open(transactions, tx)
    place = here
    return scopes.run(here, async () => {
      try {
        const result = await fn(tx)
        await beforeCommit(parts, here)
        return result
      } catch (error) {
        await here.scope.abort(here.scope.root)
        throw error
      }
    })
  }
  let result: T
  try {
    result = await transactions.run(inside)
  } catch (thrown) {
    const error = await commitErrorOf(parts, place, thrown)
    end(scopes, place, endingOf(error))
    throw error
  }
  end(scopes, place, 'committed')
  return result
}

/** `fn` in a savepoint of the transaction that is running. Not async, so that the tracked promise is the one returned. */
export const runNested = <Tx, E, T>(
  parts: RunParts<E>,
  outer: Place<Tx, E>,
  fn: (tx: Tx) => T | Promise<T>,
): Promise<T> => {
  const { scopes } = parts
  const { scope, transactions } = outer
  scope.requireOpen(outer.frame)
  if (transactions.nested === undefined) {
    throw new OutboxError(
      ERROR_CODES.unsupported,
      `${transactions.library} has no savepoints, so outbox.transaction() cannot be nested: call the inner function ` +
        'with the tx of the outer one',
    )
  }
  if (scopes.isPublishingIn(scope)) {
    throw new TransactionError(
      ERROR_CODES.conflict,
      'a nested transaction waits for the publishes before it, and this one was begun by what such a publish asks (a ' +
        'schema, or pullEvents() of an aggregate), so both would wait for ever. Do its work before the publish, or use ' +
        'the tx of the transaction.',
    )
  }
  // A hook of the library that this one would wait for, by way of the publishes before it.
  if (scopes.isTurning(scope)) throw besideError()
  const nested = transactions.nested.bind(transactions)
  return scope.track(outer.frame, 'savepoint', async () => {
    const frame = await scope.pushFrame(outer.frame)
    const inside = async (tx: Tx, mark: OuterMark<E> | null): Promise<T> => {
      const here = { transactions, tx, scope, frame }
      // A handle of its own stays registered, so that it is refused when the savepoint is over.
      if (tx !== outer.tx) scopes.register(tx, here)
      try {
        if (mark !== null) await asking(scope, async () => mark.require(transactions.executor(tx)))
        await scope.enter(frame)
        return await scopes.run(here, async () => {
          const result = await fn(tx)
          if (transactions.flush !== undefined) await transactions.flush(tx)
          scope.close(frame)
          await scope.settle(frame)
          await scope.leave(frame)
          return result
        })
      } catch (error) {
        await scope.abort(frame)
        throw error
      }
    }
    const aroundIt = async (): Promise<T> => {
      const mark = await asking(scope, () => parts.publishAt.markOuter(outer as Place<unknown, E>))
      try {
        return await nested(outer.tx, (tx) => inside(tx, mark))
      } finally {
        await mark?.drop()
      }
    }
    try {
      const result = await scopes.runAround(frame, aroundIt)
      scope.mergeFrame(frame)
      return result
    } catch (error) {
      scope.discardFrame(frame)
      throw error
    }
  })
}

const endedInside = (): TransactionError =>
  new TransactionError(
    ERROR_CODES.conflict,
    'commit() and rollback() wait for nested transactions, and commit() for publishes too. This was called inside of one ' +
      '(of a schema, or of pullEvents() of an aggregate), so both would wait for ever. Let that end first; throw to undo it.',
  )

/** The manual form: begun by hand, ended by commit or rollback. */
export class ManualRun<Tx, E> {
  readonly place: Place<Tx, E>
  readonly #parts: RunParts<E>
  readonly #opened: OpenTransaction<Tx>
  readonly #onEnd: () => void
  #ending: Promise<void> | null = null

  constructor(
    parts: RunParts<E>,
    transactions: Transactions<Tx, E>,
    opened: OpenTransaction<Tx>,
    onEnd: () => void,
  ) {
    this.#parts = parts
    this.#opened = opened
    this.#onEnd = onEnd
    this.place = parts.scopes.open(transactions, opened.tx)
  }

  commit(): Promise<void> {
    const isAwaited = this.#parts.scopes.isPublishingIn(this.place.scope)
    return this.#end(() => this.#commit(), isAwaited)
  }

  /** Once, and not from inside of what it would wait for: a nested one, or what is awaited besides. */
  #end(how: () => Promise<void>, isAwaited = false): Promise<void> {
    if (this.#ending !== null) return Promise.reject(endedError())
    if (isAwaited || this.#parts.scopes.isNestedIn(this.place.scope)) return Promise.reject(endedInside())
    this.#ending = how().finally(this.#onEnd)
    return this.#ending
  }

  async #commit(): Promise<void> {
    try {
      await beforeCommit(this.#parts, this.place)
    } catch (error) {
      // A rollback that fails must not hide why it was wanted.
      await this.#rollback().catch(() => undefined)
      throw error
    }
    try {
      await this.#opened.commit()
    } catch (thrown) {
      const error = await commitErrorOf(this.#parts, this.place, thrown)
      end(this.#parts.scopes, this.place, endingOf(error))
      throw error
    }
    end(this.#parts.scopes, this.place, 'committed')
  }

  rollback(): Promise<void> {
    return this.#end(() => this.#rollback())
  }

  async #rollback(): Promise<void> {
    const { scope } = this.place
    await scope.abort(scope.root)
    try {
      await this.#opened.rollback()
    } finally {
      end(this.#parts.scopes, this.place, 'rolledBack')
    }
  }

  /** The end of an `await using` block: rolls back what was not ended, waits for what is ending. */
  async dispose(): Promise<void> {
    if (this.#ending === null) return this.rollback()
    // Whoever called commit or rollback hears how it went.
    await this.#ending.catch(() => undefined)
  }
}
