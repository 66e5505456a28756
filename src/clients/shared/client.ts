/**
 * What the clients of all libraries have in common. A library says how it runs a transaction and how it sends a
 * statement; this makes of it what the core asks for: statements one after another, errors of one kind, and an
 * answer to what became of COMMIT.
 */
import { ERROR_CODES, TransactionError } from '../../core/errors.ts'
import { beginByCallback, type OpenTransaction, type Transactions } from '../../core/spi/index.ts'
import type { SqlExecutor, SqlValue } from '../../stores/sql/sql-executor.ts'
import { notInTransaction, transactionOver } from '../../stores/sql/transaction-scope.ts'
import { type Answer, boundValues } from './answers.ts'
import { Doubts, givenUp, PROBES } from './doubts.ts'
import { afterCommit, commitErrorOf, isGivenUp, storeErrorOf } from './failures.ts'
import { isObject, requireOneTransaction } from './handles.ts'
import { hasFailed, isIdle, isUncertain, type PgClient } from './pg-client.ts'

export type Ended = Parameters<NonNullable<Transactions<object, SqlExecutor>['observe']>>[1]

export interface Library<Tx extends object, Level = unknown> {
  /** Named in messages. */
  readonly name: string
  /** A new transaction around `fn`, as the library's documentation shows it. */
  run<T>(fn: (tx: Tx) => Promise<T>): Promise<T>
  /** The library's nested transaction; savepoints in plain SQL where it has none. */
  nested?<T>(tx: Tx, fn: (tx: Tx) => Promise<T>): Promise<T>
  /** Asks whether there still is a transaction, where the statements of `PROBES` cannot be sent; else rejects. */
  probe?(tx: Tx): Promise<unknown>
  /**
   * Asked once by each executor, when what it is for begins: the nested transaction that all its statements belong to, also the
   * later ones. Throws where the handle is over.
   */
  levelOf?(tx: Tx): Level | undefined
  /** One statement in the transaction, sent as it is. `ask` rejects unless there still is one, for those that must send it again. */
  send(
    tx: Tx,
    sql: string,
    params: readonly SqlValue[],
    ask?: () => Promise<void>,
    level?: Level,
  ): Promise<Answer>
  /** Whether it is a handle inside a transaction; undefined when there is no telling. */
  inTransaction(handle: object): boolean | undefined
  /** A handle that `run` did not give: nothing is known of what was sent with it, so the database must be asked. */
  isUnseen?(tx: Tx): boolean
  /** From now on that is known. */
  join?(tx: Tx): Promise<void>
  /** For libraries that can tell, or whose own handles are Proxies; elsewhere a Proxy of somebody else's is refused. */
  standsFor?(handle: Tx): Tx
  /** The library's own words for a handle that is used too late. */
  saysEnded?(error: unknown): boolean
  /** What to do where the library itself has ended the transaction because it took too long; else undefined. */
  timedOut?(error: unknown): string | undefined
  /** The library's own words for a COMMIT that was never sent. */
  refusesCommit?(error: unknown): boolean
  /** Whether COMMIT was confirmed: hooks of the application run afterwards, and their errors say nothing about it. */
  hasCommitted?(tx: Tx): boolean
  /** Statements of the application that fail are noted here, under the same handle, where the library shows them. */
  readonly doubts?: Doubts
  /** The transaction's client of node-postgres, which knows without asking whether it has failed. */
  pgClient?(tx: Tx): PgClient | undefined
  /** What a doubt is about, if not the handle: nested transactions have handles of their own. */
  subjectOf?(tx: Tx): object
  flush?(tx: Tx): Promise<void>
  capture?: Transactions<Tx, SqlExecutor>['capture']
  observe?(tx: Tx, ended: Ended): boolean
}

class Client<Tx extends object, Level> implements Transactions<Tx, SqlExecutor> {
  readonly library: string
  /** People nest transactions with their library as well, and what that undoes nobody tells us. */
  readonly savepointsUnseen = true
  readonly #library: Library<Tx, Level>
  readonly #doubts: Doubts
  readonly #depths = new WeakMap<object, number>()
  /** Those of `run`, of which the library tells everything that is sent. */
  readonly #seen = new WeakSet<object>()
  /** Those that were in doubt, and of which the database was asked: on SQLite that says nothing. */
  readonly #troubled = new WeakSet<object>()
  /** Handles that `run` and `nested` gave: they are as the application's library makes them. */
  readonly #given = new WeakSet<object>()
  /** The last question about each: one savepoint of it ends those after it. */
  readonly #questions = new WeakMap<object, Promise<void>>()
  readonly observe?: (tx: Tx, ended: Ended) => boolean
  readonly flush?: (tx: Tx) => Promise<void>
  readonly capture?: NonNullable<Library<Tx, Level>['capture']>

  constructor(library: Library<Tx, Level>) {
    this.library = library.name
    this.#library = library
    this.#doubts = library.doubts ?? new Doubts()
    if (library.observe !== undefined) this.observe = library.observe.bind(library)
    if (library.flush !== undefined) this.flush = library.flush.bind(library)
    if (library.capture !== undefined) this.capture = library.capture.bind(library)
  }

  async run<T>(fn: (tx: Tx) => Promise<T>): Promise<T> {
    let thrown: { readonly error: unknown } | null = null
    let done: { readonly tx: Tx; readonly hadFailures: boolean } | null = null
    const inside = async (tx: Tx): Promise<T> => {
      // Some libraries call again after a conflict; what counts is the last time.
      thrown = null
      done = null
      const subject = this.#subjectOf(tx)
      this.#seen.add(subject)
      this.#troubled.delete(subject)
      this.#given.add(tx)
      try {
        const result = await fn(tx)
        await this.#requireWell(tx)
        done = { tx, hadFailures: this.#troubled.has(this.#subjectOf(tx)) }
        return result
      } catch (error) {
        thrown = { error }
        throw error
      }
    }
    try {
      return await this.#library.run(inside)
    } catch (error) {
      if (done !== null) {
        const { tx, hadFailures } = done as { tx: Tx; hadFailures: boolean }
        throw this.#commitError(tx, hadFailures, error)
      }
      // A rollback that fails, because the connection is gone, must not hide why it was wanted.
      throw thrown === null ? storeErrorOf(error, this.library) : (thrown as { error: unknown }).error
    }
  }

  #commitError(tx: Tx, hadFailures: boolean, error: unknown): Error {
    if (this.#library.hasCommitted?.(tx) === true) return afterCommit(error)
    return commitErrorOf(error, this.#library.refusesCommit?.(error) === true, hadFailures)
  }

  begin(): Promise<OpenTransaction<Tx>> {
    return beginByCallback(this)
  }

  async nested<T>(tx: Tx, fn: (tx: Tx) => Promise<T>): Promise<T> {
    const native = this.#library.nested
    if (native === undefined) return await this.#savepoint(tx, fn)
    let thrown: { readonly error: unknown } | null = null
    const inside = async (inner: Tx): Promise<T> => {
      this.#given.add(inner)
      try {
        return await fn(inner)
      } catch (error) {
        thrown = { error }
        throw error
      }
    }
    try {
      return (await native.call(this.#library, tx, inside)) as T
    } catch (error) {
      // As in `run`: there is nothing to undo any more when the database has ended it all, and that is not the reason.
      throw thrown === null ? error : (thrown as { error: unknown }).error
    }
  }

  standsFor(handle: Tx): Tx {
    if (this.#library.standsFor !== undefined) return this.#library.standsFor(handle)
    if (!this.#given.has(handle)) requireOneTransaction(this.library, handle)
    return handle
  }

  /** Statements are sent at once, in front of whatever the application sends next. */
  executor(tx: Tx): SqlExecutor {
    this.#requireOpen(tx)
    const level = this.#library.levelOf?.(tx)
    const isDoubtful = this.#isDoubted(tx) || this.#library.isUnseen?.(tx) === true
    const isKnown = this.#library.isUnseen !== undefined || this.#seen.has(this.#subjectOf(tx))
    return {
      run: (sql, params) => this.#sendOpen(tx, sql, params, level),
      ...(isDoubtful ? { ask: () => this.#ask(tx) } : {}),
      ...(isDoubtful || isKnown ? { isDoubtful } : {}),
    }
  }

  #ask(tx: Tx): Promise<void> {
    // Of a handle that was not seen before the subject is known only with the first answer.
    const subjects = [tx, this.#subjectOf(tx)]
    const before = Promise.all(subjects.map((subject) => this.#questions.get(subject) ?? Promise.resolve()))
    const answer = before.then(() => this.#requireWell(tx))
    const over = answer.catch(() => undefined)
    for (const subject of subjects) this.#questions.set(subject, over)
    return answer
  }

  inTransaction(tx: Tx): boolean | undefined {
    const inside = isObject(tx) && this.#library.inTransaction(tx)
    // A COMMIT or ROLLBACK that was sent by hand the library does not notice.
    return inside !== false && isIdle(this.#library.pgClient?.(tx)) ? false : inside
  }

  #subjectOf(tx: Tx): object {
    return this.#library.subjectOf?.(tx) ?? tx
  }

  #requireOpen(tx: Tx): void {
    if (this.inTransaction(tx) === false) throw notInTransaction(`This handle of ${this.library}`)
    if (hasFailed(this.#library.pgClient?.(tx))) throw givenUp()
  }

  async #sendOpen(
    tx: Tx,
    sql: string,
    params: readonly SqlValue[],
    level: Level | undefined,
  ): Promise<Answer> {
    this.#requireOpen(tx)
    return await this.#send(tx, sql, params, level)
  }

  #isDoubted(tx: Tx): boolean {
    return this.#doubts.has(this.#subjectOf(tx)) || isUncertain(this.#library.pgClient?.(tx))
  }

  /** After a statement that failed, the database is asked whether there still is a transaction. */
  async #requireWell(tx: Tx): Promise<void> {
    await this.#join(tx)
    this.#requireOpen(tx)
    if (!this.#isDoubted(tx)) return
    try {
      await this.#probe(tx)
    } catch (cause) {
      // Whoever saw it end by hand does not know how.
      if (cause instanceof TransactionError && cause.code === ERROR_CODES.transactionEnded) throw cause
      const error = this.#failed(tx, cause)
      throw this.#library.saysEnded?.(cause) === true ? error : givenUp(cause)
    }
    const subject = this.#subjectOf(tx)
    this.#troubled.add(subject)
    this.#doubts.clear(subject)
  }

  async #join(tx: Tx): Promise<void> {
    try {
      await this.#library.join?.(tx)
    } catch (error) {
      throw this.#failed(tx, error)
    }
  }

  async #probe(tx: Tx): Promise<void> {
    if (this.#library.probe !== undefined) return void (await this.#library.probe(tx))
    for (const statement of PROBES) await this.#library.send(tx, statement, [])
  }

  async #send(tx: Tx, sql: string, params: readonly SqlValue[] = [], level?: Level): Promise<Answer> {
    try {
      return await this.#library.send(tx, sql, boundValues(params), () => this.#ask(tx), level)
    } catch (error) {
      throw this.#failed(tx, error)
    }
  }

  #failed(tx: Tx, error: unknown): unknown {
    this.#doubts.raise(this.#subjectOf(tx))
    const remedy = this.#library.timedOut?.(error)
    if (remedy !== undefined)
      return new TransactionError(
        ERROR_CODES.commitRolledBack,
        `${this.library} has rolled this transaction back because it took too long. ${remedy}`,
        { cause: error },
      )
    if (isGivenUp(error)) return givenUp(error)
    if (this.#library.saysEnded?.(error) !== true) return storeErrorOf(error, this.library)
    return transactionOver(error)
  }

  async #savepoint<T>(tx: Tx, fn: (tx: Tx) => Promise<T>): Promise<T> {
    const depth = (this.#depths.get(tx) ?? 0) + 1
    const name = `posthaste_${depth}`
    await this.#send(tx, `SAVEPOINT ${name}`)
    this.#depths.set(tx, depth)
    try {
      const result = await fn(tx)
      await this.#requireWell(tx)
      await this.#send(tx, `RELEASE SAVEPOINT ${name}`)
      return result
    } catch (error) {
      await this.#undo(tx, name)
      throw error
    } finally {
      this.#depths.set(tx, depth - 1)
    }
  }

  /** If this fails the transaction is lost, and is asked about before it goes on. */
  async #undo(tx: Tx, savepoint: string): Promise<void> {
    try {
      await this.#send(tx, `ROLLBACK TO SAVEPOINT ${savepoint}`)
      await this.#send(tx, `RELEASE SAVEPOINT ${savepoint}`)
    } catch {
      this.#doubts.raise(this.#subjectOf(tx))
    }
  }
}

export const clientOf = <Tx extends object, Level = unknown>(
  library: Library<Tx, Level>,
): Transactions<Tx, SqlExecutor> => new Client(library)
