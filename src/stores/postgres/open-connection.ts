/**
 * A connection of the application's pool with a transaction of ours on it. Statements of ours go one after another, as the
 * driver wants it. Those whose answer nobody needs wait for what comes next: BEGIN goes in one round trip with the first
 * statement of the application where that can carry it; a publish goes in front of a statement of the application, or in
 * one round trip with COMMIT, by then also with the latest position that it can draw.
 *
 * What COMMIT answered decides what happened: a transaction that failed is answered with ROLLBACK, without an error, and no
 * answer means that nobody knows.
 */
import { ERROR_CODES, TransactionError } from '../../core/errors.ts'
import type { SqlExecutor, SqlRow, SqlStatement } from '../sql/sql-executor.ts'
import { commitRefused, commitUnknown } from '../sql/transaction-scope.ts'
import { beginningWith, canBeginWith, sendBeginning } from './begin-with.ts'
import type { PostgresDatabase } from './database.ts'
import {
  type PostgresAnswer,
  type PostgresConnection,
  type PostgresQuery,
  type PostgresResult,
  RAW_TYPES,
} from './driver.ts'
import { isBroken, isRefused, isTimeout, isUnsent, storeErrorOf } from './errors.ts'
import { connectionOf } from './pools.ts'
import { canGroup, isCarrier, type PostgresWire, StatementGroup } from './statement-group.ts'

/** What transactions need of a database; a client has it without a store. */
export type TransactionHome = Pick<
  PostgresDatabase,
  | 'place'
  | 'transactionPool'
  | 'isPreparing'
  | 'statementName'
  | 'losesStatements'
  | 'inTime'
  | 'understandsFlush'
> & { readonly options: Pick<PostgresDatabase['options'], 'onStatement'> }

/** Longer ones are sent at once: they take the server a while, and us memory. */
const DEFERRED_CHARACTERS = 65_536

/** A claim of the hot path counts from the statement on, and we count from the publish on: they must not drift apart. */
const DEFERRED_MS = 100

const lengthOf = ({ params }: SqlStatement): number =>
  params.reduce<number>((sum, value) => sum + (typeof value === 'string' ? value.length : 0), 0)

const resultOf = (answer: PostgresAnswer): PostgresResult =>
  (Array.isArray(answer) ? answer.at(-1) : answer) as PostgresResult

export const rowsOf = (answer: PostgresAnswer): readonly SqlRow[] =>
  resultOf(answer).rows as readonly SqlRow[]

export class OpenConnection {
  readonly connection: PostgresConnection
  readonly #database: TransactionHome
  /** By this BEGIN is to be sent in front of whatever is sent first; null: so it was. */
  #owesBegin: PostgresConnection['query'] | null = null
  /** The last statement of ours that is on its way or waits for its turn. */
  #last: Promise<void> | null = null
  #deferred: { readonly statement: SqlStatement; readonly timer: NodeJS.Timeout } | null = null
  /** Why BEGIN, or a deferred one that was sent in front of something else, has failed. */
  #failure: unknown = null
  #broken = false
  /** Why the connection ended; before COMMIT, so it was not sent. */
  #lost: Error | null = null
  /** BEGIN was not answered in time, so the driver never sent what was behind it and its statement. */
  #silent = false

  private constructor(connection: PostgresConnection, database: TransactionHome) {
    this.connection = connection
    this.#database = database
    // Without a listener a connection that breaks between two statements would end the process.
    connection.on('error', this.#onError)
  }

  static async of(database: TransactionHome): Promise<OpenConnection> {
    try {
      return new OpenConnection(await connectionOf(database.transactionPool), database)
    } catch (error) {
      throw storeErrorOf(error, database.place)
    }
  }

  readonly #onError = (error: Error): void => {
    this.#broken = true
    this.#lost ??= error
  }

  async begin(): Promise<void> {
    if (canBeginWith(this.connection)) this.#owesBegin = this.connection.query
    else await this.control('BEGIN')
  }

  /** A statement of the application, which `call` gives to the driver. */
  apply(args: readonly unknown[], call: () => unknown): unknown {
    const isFirst = this.#owesBegin !== null
    const query = isFirst && this.#deferred === null ? beginningWith(this.connection, args) : null
    if (query !== null) {
      this.#database.options.onStatement?.('BEGIN')
      this.#owesBegin = null
      return sendBeginning(this.connection, query, {
        abandon: this.#abandon,
        watch: this.#database.understandsFlush ? this.#watchBegin : null,
      })
    }
    this.overtake()
    // BEGIN did not even reach the driver.
    if (isFirst && this.#failure !== null) throw this.#failure
    return call()
  }

  /** Why the transaction has failed although nobody was told; null if it has not. */
  get failure(): unknown {
    return this.#failure
  }

  /** `guard` says whether the transaction, or the savepoint, is still there. */
  executor(guard: () => void): SqlExecutor {
    const run: SqlExecutor['run'] = (sql, params) => {
      this.overtake()
      return this.#inLine(() => {
        guard()
        return this.#send({ sql, params })
      })
    }
    const defer: SqlExecutor['defer'] = async (sql, params) => {
      const statement = { sql, params }
      if (this.#deferred !== null) this.overtake()
      // At once where nothing is in front of it: what the application sends next goes behind it.
      const pending = this.#pending()
      if (pending !== null) await pending
      guard()
      // Another one may have come in between.
      const isNext = this.#deferred === null && this.#last === null
      if (isNext && lengthOf(statement) <= DEFERRED_CHARACTERS) this.#keep(statement)
      else await run(sql, params)
    }
    const { isPreparing } = this.#database
    return { isGuarded: true, isPrepared: isPreparing, run, ...(canGroup(this.connection) ? { defer } : {}) }
  }

  /** Before a statement of the application: ours is on its way when this returns. */
  overtake(): void {
    const query = this.#takeBegin()
    const deferred = this.#takeDeferred()
    if (query === null && deferred === null) return
    // Not one after the other's answer: what the application sends next would be in between.
    const sent = this.#inLine(() =>
      query === null ? this.#send(deferred as SqlStatement) : this.#begin(query, deferred),
    )
    sent.catch((error: unknown) => {
      this.#failure ??= error
    })
  }

  /** All of ours is sent and answered; rejects if something has failed that nobody awaited. Null: so it is already. */
  settled(): Promise<void> | null {
    this.overtake()
    return this.#pending()
  }

  async control(text: string): Promise<PostgresResult> {
    this.#database.options.onStatement?.(text)
    try {
      return resultOf(await this.#database.inTime(this.connection.query(text)))
    } catch (error) {
      throw this.#failed(error)
    }
  }

  /** If this fails the connection is broken, and the whole transaction with it. */
  async undo(savepoint: string): Promise<void> {
    this.#takeDeferred()
    // An answer that is still to come is about what is undone here.
    if (this.#last !== null) await this.#last
    this.#failure = null
    try {
      await this.control(`ROLLBACK TO SAVEPOINT ${savepoint}; RELEASE SAVEPOINT ${savepoint}`)
    } catch (error) {
      this.#broken = true
      // It must not be committed either.
      this.#failure = error
    }
  }

  async commit(): Promise<void> {
    // Nobody has sent anything, so there is nothing to commit.
    if (this.#deferred === null && this.#takeBegin() !== null) return
    // Nobody awaited what was sent in front of the application's statements.
    if (this.#last !== null) await this.#last
    if (this.#lost !== null) this.#failure ??= storeErrorOf(this.#lost, this.#database.place)
    if (this.#failure !== null) {
      await this.rollback()
      throw this.#failure
    }
    const group = await this.#announceCommit(this.#takeDeferred())
    const command = await (group === null ? this.#commitAlone() : this.#commitWith(group))
    if (command === 'COMMIT') return
    throw new TransactionError(
      ERROR_CODES.commitRolledBack,
      'PostgreSQL had given the transaction up because of an earlier error, so nothing was committed.',
    )
  }

  /** If this fails the connection is thrown away, and the server rolls back what was open on it. */
  async rollback(): Promise<void> {
    this.#takeDeferred()
    if (this.#takeBegin() !== null || this.#broken) return
    try {
      await this.control('ROLLBACK')
    } catch {
      this.#broken = true
    }
  }

  release(): void {
    this.connection.removeListener('error', this.#onError)
    this.connection.release?.(this.#broken)
  }

  #keep(statement: SqlStatement): void {
    const timer = setTimeout(() => this.overtake(), DEFERRED_MS)
    // Whoever has the transaction keeps the process alive, if anybody does.
    timer.unref()
    this.#deferred = { statement, timer }
  }

  #takeDeferred(): SqlStatement | null {
    if (this.#deferred === null) return null
    const { statement, timer } = this.#deferred
    clearTimeout(timer)
    this.#deferred = null
    return statement
  }

  #takeBegin(): PostgresConnection['query'] | null {
    const query = this.#owesBegin
    this.#owesBegin = null
    return query
  }

  /** Both are in the driver's hands when this returns, or the connection is of no use any more. */
  #begin(query: PostgresConnection['query'], deferred: SqlStatement | null): Promise<unknown> {
    try {
      this.#database.options.onStatement?.('BEGIN')
      if (deferred === null) return this.#answeredBegin(this.#beginAlone(query))
      if (!isCarrier(this.connection))
        return Promise.all([this.#answeredBegin(this.#beginAlone(query)), this.#send(deferred)])
      this.#database.options.onStatement?.(deferred.sql)
      const group = new StatementGroup(this.#queryOf(deferred), 'BEGIN')
      const refused = (error: unknown): unknown => (group.hasRun ? this.#failed(error) : this.#abandon(error))
      return this.#answeredBegin(group.send(this.connection, refused))
    } catch (error) {
      return Promise.reject(this.#abandon(error))
    }
  }

  #beginAlone(query: PostgresConnection['query']): Promise<void> {
    let settle: (error: Error | null) => void = () => undefined
    // Called outside of the promise, so that it fails at once if it does.
    const answer = new Promise<void>((resolve, reject) => {
      settle = (error) => (error ? reject(this.#abandon(error)) : resolve())
    })
    Reflect.apply(query, this.connection, [{ text: 'BEGIN' }, undefined, settle])
    return answer
  }

  async #answeredBegin(answer: Promise<void>): Promise<void> {
    try {
      await this.#database.inTime(answer)
    } catch (error) {
      // Of others the connection has heard already.
      if (!isTimeout(error)) throw error
      this.#silent = true
      throw this.#abandon(error)
    }
  }

  /** Whoever sent the statement hears of it: the connection ends, and the driver says so of what was on it. */
  readonly #watchBegin = (begun: Promise<void>): void => {
    this.#answeredBegin(begun).catch(() => undefined)
  }

  /** Called before the driver sends what waits behind a BEGIN that failed: without a transaction each of that would be final. */
  readonly #abandon = (error: unknown): unknown => {
    this.#broken = true
    this.#failure ??= this.#failed(error)
    const { stream } = this.connection.connection as PostgresWire
    stream.destroy?.()
    return this.#failure
  }

  #pending(): Promise<void> | null {
    return this.#last === null && this.#failure === null ? null : this.#answered()
  }

  async #answered(): Promise<void> {
    if (this.#last !== null) await this.#last
    if (this.#failure !== null) throw this.#failure
  }

  #inLine<T>(send: () => Promise<T>): Promise<T> {
    const sent = this.#last === null ? send() : this.#last.then(send)
    const over = (): void => {
      if (this.#last === last) this.#last = null
    }
    const last = sent.then(over, over)
    this.#last = last
    return sent
  }

  async #send(statement: SqlStatement): Promise<readonly SqlRow[]> {
    this.#database.options.onStatement?.(statement.sql)
    try {
      // An answer that does not come costs the connection.
      return rowsOf(await this.#database.inTime(this.connection.query(this.#queryOf(statement))))
    } catch (error) {
      const failed = this.#failed(error)
      throw this.#failure ?? failed
    }
  }

  #queryOf({ sql, params }: SqlStatement): PostgresQuery {
    const query = { text: sql, values: params, types: RAW_TYPES }
    const name = this.#database.statementName(sql)
    return name === undefined ? query : { ...query, name }
  }

  #failed(error: unknown): unknown {
    // Too late for this transaction, but not for the next one.
    this.#database.losesStatements(error)
    const failed = storeErrorOf(error, this.#database.place)
    if (isBroken(error)) {
      this.#broken = true
      // An answer that did not come may have been one that the application does not miss: it is not committed.
      this.#failure ??= failed
    }
    return failed
  }

  /** If this fails nothing was sent, so nothing is committed, and that is known. */
  async #announceCommit(deferred: SqlStatement | null): Promise<StatementGroup | null> {
    const { onStatement } = this.#database.options
    try {
      // Not with COMMIT: on a connection that has fallen silent nobody would know whether all of it happened.
      if (this.#takeBegin() !== null) await this.control('BEGIN')
      const group = deferred === null ? null : new StatementGroup(this.#queryOf(deferred), 'COMMIT')
      if (deferred !== null) onStatement?.(deferred.sql)
      onStatement?.('COMMIT')
      return group
    } catch (error) {
      await this.rollback()
      throw error
    }
  }

  async #commitAlone(): Promise<string> {
    try {
      return resultOf(await this.#database.inTime(this.connection.query('COMMIT'))).command
    } catch (error) {
      throw await this.#notCommitted(error, true)
    }
  }

  async #commitWith(group: StatementGroup): Promise<string> {
    try {
      await this.#database.inTime(group.send(this.connection))
    } catch (error) {
      // The server says so when it has happened, whatever came of the connection then.
      if (group.command === 'COMMIT') this.#broken = true
      else throw await this.#notCommitted(error, group.hasRun)
    }
    return group.command
  }

  /** False for `wasCommit`: it was the statement in front of it that failed, and fails as it would have alone. */
  async #notCommitted(error: unknown, wasCommit: boolean): Promise<unknown> {
    const cause = this.#failed(error)
    if (isUnsent(error) || this.#silent) return cause
    const wasBroken = this.#broken
    // Who refuses a statement answers ROLLBACK. Who only says that the server was lost does not.
    if (isRefused(error)) await this.rollback()
    if (!isRefused(error) || this.#broken !== wasBroken) {
      this.#broken = true
      return commitUnknown('The connection was lost', cause)
    }
    return wasCommit ? commitRefused('PostgreSQL', cause) : cause
  }
}
