/**
 * A connection of the application's pool with a transaction of ours on it. Statements of ours go one after another, as the
 * driver wants it. One whose answer nobody needs waits for what comes next: it goes in front of a statement of the
 * application, or in one round trip with COMMIT, by then also with the latest position that it can draw.
 *
 * What COMMIT answered decides what happened: a transaction that failed is answered with ROLLBACK, without an error, and no
 * answer means that nobody knows.
 */
import { ERROR_CODES, StoreError, TransactionError } from '../../core/errors.ts'
import type { SqlExecutor, SqlRow, SqlStatement } from '../sql/sql-executor.ts'
import { commitRefused, commitUnknown } from '../sql/transaction-scope.ts'
import { CommitWith, canCommitWith } from './commit-with.ts'
import type { PostgresDatabase } from './database.ts'
import {
  type PostgresAnswer,
  type PostgresConnection,
  type PostgresQuery,
  type PostgresResult,
  RAW_TYPES,
} from './driver.ts'
import { isBroken, isRefused, isUnsent, storeErrorOf } from './errors.ts'

/** What transactions need of a database; a client has it without a store. */
export type TransactionHome = Pick<
  PostgresDatabase,
  'place' | 'transactionPool' | 'statementName' | 'losesStatements' | 'inTime'
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
  /** The last statement of ours that is on its way or waits for its turn. */
  #last: Promise<void> | null = null
  #deferred: { readonly statement: SqlStatement; readonly timer: NodeJS.Timeout } | null = null
  /** Why a deferred one has failed that was sent in front of something else. */
  #failure: unknown = null
  #broken = false
  /** Why the connection ended while nothing was on its way. */
  #lost: Error | null = null

  private constructor(connection: PostgresConnection, database: TransactionHome) {
    this.connection = connection
    this.#database = database
    // Without a listener a connection that breaks between two statements would end the process.
    connection.on('error', this.#onError)
  }

  static async of(database: TransactionHome): Promise<OpenConnection> {
    try {
      return new OpenConnection(await database.transactionPool.connect(), database)
    } catch (error) {
      throw storeErrorOf(error, database.place)
    }
  }

  readonly #onError = (error: Error): void => {
    this.#broken = true
    this.#lost ??= error
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
      // At once where nothing is in front of it: what the application sends next goes behind it.
      const settled = this.settled()
      if (settled !== null) await settled
      guard()
      // Another one may have come in between.
      const isNext = this.#deferred === null && this.#last === null
      if (isNext && lengthOf(statement) <= DEFERRED_CHARACTERS) this.#keep(statement)
      else await run(sql, params)
    }
    return { isGuarded: true, run, ...(canCommitWith(this.connection) ? { defer } : {}) }
  }

  /** Before a statement of the application: ours is on its way when this returns. */
  overtake(): void {
    const deferred = this.#takeDeferred()
    if (deferred === null) return
    this.#inLine(() => this.#send(deferred)).catch((error: unknown) => {
      this.#failure ??= error
    })
  }

  /** All of ours is sent and answered; rejects if something has failed that nobody awaited. Null: so it is already. */
  settled(): Promise<void> | null {
    this.overtake()
    return this.#last === null && this.#failure === null ? null : this.#answered()
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
    } catch {
      this.#broken = true
    }
  }

  async commit(): Promise<void> {
    // Nobody awaited what was sent in front of the application's statements.
    if (this.#last !== null) await this.#last
    if (this.#failure !== null) {
      await this.rollback()
      throw this.#failure
    }
    const deferred = this.#takeDeferred()
    const command = await (deferred === null ? this.#commitAlone() : this.#commitWith(deferred))
    if (command === 'COMMIT') return
    throw new TransactionError(
      ERROR_CODES.commitRolledBack,
      'PostgreSQL had given the transaction up because of an earlier error, so nothing was committed.',
    )
  }

  /** If this fails the connection is thrown away, and the server rolls back what was open on it. */
  async rollback(): Promise<void> {
    this.#takeDeferred()
    if (this.#broken) return
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
    if (isBroken(error)) this.#broken = true
    // Too late for this transaction, but not for the next one.
    this.#database.losesStatements(error)
    return storeErrorOf(error, this.#database.place)
  }

  async #commitAlone(): Promise<string> {
    try {
      return (await this.control('COMMIT')).command
    } catch (cause) {
      if (!this.#broken && cause instanceof StoreError && cause.detail.sqlState !== undefined) {
        throw commitRefused('PostgreSQL', cause)
      }
      this.#broken = true
      throw commitUnknown('The connection was lost', cause)
    }
  }

  /** Fails as the statement alone would have failed, if it is that which the server refused. */
  async #commitWith(statement: SqlStatement): Promise<string> {
    const group = await this.#prepared(statement)
    try {
      await this.#database.inTime(group.send(this.connection))
      return group.command
    } catch (error) {
      const cause = this.#failed(error)
      if (isUnsent(error)) throw cause
      const wasBroken = this.#broken
      // Who refuses a statement answers ROLLBACK. Who only says that the server was lost does not.
      if (isRefused(error)) await this.rollback()
      if (!isRefused(error) || this.#broken !== wasBroken) {
        this.#broken = true
        throw commitUnknown('The connection was lost', cause)
      }
      throw group.hasRun ? commitRefused('PostgreSQL', cause) : cause
    }
  }

  /** If this fails nothing was sent, so nothing is committed, and that is known. */
  async #prepared(statement: SqlStatement): Promise<CommitWith> {
    try {
      if (this.#lost !== null) throw storeErrorOf(this.#lost, this.#database.place)
      const group = new CommitWith(this.#queryOf(statement))
      this.#database.options.onStatement?.(statement.sql)
      this.#database.options.onStatement?.('COMMIT')
      return group
    } catch (error) {
      await this.rollback()
      throw error
    }
  }
}
