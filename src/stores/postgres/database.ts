/**
 * The store's access to the server: its pool, how statements are sent, and what is tried again.
 *
 * Whatever locks a worker's row is one statement or one script: the server gets all of it at once and never
 * waits for us in between. `transaction` does wait, and is for operators, cleaning and migrations alone.
 */
import { createHash } from 'node:crypto'
import { ERROR_CODES, StoreError } from '../../core/errors.ts'
import { serverName } from '../../core/model/index.ts'
import { type StoreContext, within } from '../../core/spi/index.ts'
import type { SqlStatement, SqlValue } from '../sql/sql-executor.ts'
import {
  ask,
  type PostgresConnection,
  type PostgresPool,
  type PostgresQuery,
  type PostgresResult,
  RAW_TYPES,
} from './driver.ts'
import {
  isBroken,
  isConflict,
  isCutOff,
  isLostStatement,
  isRefused,
  isUnsent,
  storeErrorOf,
} from './errors.ts'
import type { ResolvedPostgresOptions } from './options.ts'
import { connectionOf, openPools, type Pools, settingsOf } from './pools.ts'
import { scriptOf } from './script.ts'
import { Watchdog } from './watchdog.ts'

/** Columns in order, each as the server's text or null. */
export type Row = readonly unknown[]

/** One connection inside a transaction of the store's own. */
export interface Session {
  rows(sql: string, params?: readonly SqlValue[]): Promise<readonly Row[]>
}

/** What failed because of others, or was cut off, is tried so often before the caller hears of it. */
const MAX_TRIES = 6
const FIRST_PAUSE_MS = 5
const OLDEST_SERVER = 130_000

/** Said each time, because a server, a database or a role may have another default. */
const READ_COMMITTED = 'READ COMMITTED'

/**
 * Of a transaction in which the server waits for us: a process that is suspended loses its connection, because others
 * wait for its locks.
 */
const NOT_FOR_EVER = "SET LOCAL idle_in_transaction_session_timeout = '10s'"

const isolation = (level: string): SqlStatement => ({
  sql: `SET TRANSACTION ISOLATION LEVEL ${level}`,
  params: [],
})

/** A pool says when it has made a connection, before anybody else hears of it, and when one has ended. */
interface Announcing {
  on(event: 'connect' | 'remove', listener: (connection: PostgresConnection) => void): unknown
  removeListener(event: 'connect' | 'remove', listener: (connection: PostgresConnection) => void): unknown
}

const announcing = (pool: object): Announcing => pool as Announcing

/**
 * A connection may end in the same breath in which it is made. The pool no longer listens to it then, and who asked for it does
 * not yet: without a listener the process would end. Who uses the connection hears of its end by the first statement.
 */
const hearOut = (connection: PostgresConnection): void => void connection.on('error', () => undefined)

interface OpenState {
  readonly context: StoreContext
  readonly pools: Pools
  readonly onError: (error: Error) => void
  readonly watchdog: Watchdog
  /** Those of the store's own pools that have not ended. */
  readonly connections: Set<PostgresConnection>
  prepare: boolean
  isDirect: boolean
}

/**
 * The same text has the same name on every connection, whoever prepares it there: a pool of the application's may serve
 * two stores, or one after another, and a name that stands for two texts fails.
 */
class StatementNames {
  readonly #names = new Map<string, string>()

  of(sql: string): string | undefined {
    const known = this.#names.get(sql)
    if (known !== undefined) return known
    // Texts are fixed per store; a bound guards against one that is not.
    if (this.#names.size >= 256) return undefined
    const name = `posthaste_${createHash('sha256').update(sql).digest('hex').slice(0, 20)}`
    this.#names.set(sql, name)
    return name
  }
}

export class PostgresDatabase {
  readonly options: ResolvedPostgresOptions
  /** For messages. */
  readonly place: string
  readonly #names = new StatementNames()
  #state: OpenState | null = null
  #opening: Promise<void> | null = null
  /** Also of transactions that the store was closed under. */
  #watchdog: Watchdog | null = null

  constructor(options: ResolvedPostgresOptions) {
    this.options = options
    this.place = serverName('PostgreSQL', settingsOf(options.source))
  }

  get context(): StoreContext {
    return this.#opened().context
  }

  /** For the application's transactions; what the store says for itself goes another way. */
  get transactionPool(): PostgresPool<PostgresConnection> {
    return this.#opened().pools.forTransactions
  }

  open(context: StoreContext): Promise<void> {
    if (this.#state !== null) return Promise.resolve()
    this.#opening ??= this.#open(context).finally(() => {
      this.#opening = null
    })
    return this.#opening
  }

  async close(): Promise<void> {
    await this.#opening?.catch(() => undefined)
    const state = this.#state
    if (state === null) return
    this.#state = null
    await this.#leave(state)
  }

  /** False: prepared statements are not to be relied on. */
  get isPreparing(): boolean {
    return this.#opened().prepare
  }

  /** The name to prepare a text under. */
  statementName(sql: string): string | undefined {
    return this.isPreparing ? this.#names.of(sql) : undefined
  }

  /** True: what was prepared is gone, by a pooler or by DISCARD, and from now on nothing is prepared. */
  losesStatements(error: unknown): boolean {
    const state = this.#state
    if (state === null || this.options.prepare !== null || !isLostStatement(error)) return false
    // Several may be under way when the first of them says so.
    if (state.prepare)
      state.context.logger.log('warn', 'prepared statements get lost on the way; they are no longer used')
    state.prepare = false
    return true
  }

  /** Not every pooler understands Flush: some drop it, one answers it with an error and goes on with what is behind it. */
  get understandsFlush(): boolean {
    return this.#state?.isDirect === true
  }

  /** Fails when the answer does not come in time; the connection has to be thrown away then. */
  inTime<T>(answer: Promise<T>): Promise<T> {
    return this.#watchdog?.watch(answer) ?? answer
  }

  /** One statement, one round trip, a transaction of its own. */
  rows(sql: string, params: readonly SqlValue[] = []): Promise<readonly Row[]> {
    return this.#retrying(async (connection, state) => {
      const name = this.statementName(sql)
      const [rows] = await this.#send(state, connection, sql, {
        values: params,
        ...(name === undefined ? {} : { name }),
      })
      return rows ?? []
    })
  }

  /**
   * All statements or none, in one round trip; each sees what the ones before it wrote, and what others have
   * committed until it begins.
   */
  script(statements: readonly SqlStatement[]): Promise<readonly (readonly Row[])[]> {
    return this.#script(READ_COMMITTED, statements)
  }

  /** The same without trying again, for whoever has a rhythm of its own. */
  async scriptOnce(statements: readonly SqlStatement[]): Promise<void> {
    const state = this.#opened()
    const text = scriptOf([isolation(READ_COMMITTED), ...statements])
    try {
      await this.#withConnection(state, (connection) => this.#send(state, connection, text))
    } catch (error) {
      throw storeErrorOf(error, this.place)
    }
  }

  /** Questions that are answered from one snapshot, in one round trip. */
  snapshot(statements: readonly SqlStatement[]): Promise<readonly (readonly Row[])[]> {
    return this.#script('REPEATABLE READ, READ ONLY', statements)
  }

  /** All of `work` or nothing. It may run again after a conflict or on another connection; what it did is never committed then. */
  transaction<T>(work: (session: Session) => Promise<T>): Promise<T> {
    let isInDoubt = false
    const mayGoOn = (error: unknown): boolean => isConflict(error) || (!isInDoubt && isCutOff(error))
    return this.#retrying(async (connection, state) => {
      let isCommitting = false
      const session: Session = {
        rows: async (sql, params = []) =>
          (await this.#send(state, connection, sql, { values: params }))[0] ?? [],
      }
      await session.rows(`BEGIN ISOLATION LEVEL ${READ_COMMITTED}`)
      try {
        await session.rows(NOT_FOR_EVER)
        const result = await work(session)
        isCommitting = true
        await session.rows('COMMIT')
        return result
      } catch (error) {
        // Of one that was cut off at COMMIT nobody knows whether it happened, unless it was not sent.
        isInDoubt = isCommitting && !isUnsent(error)
        // When even this fails the connection is broken, and is thrown away with what was open on it.
        if (!isBroken(error)) await session.rows('ROLLBACK')
        // Who refuses COMMIT answers ROLLBACK. Who dies may say why in a language that is not ours, and does not.
        isInDoubt &&= !isRefused(error)
        throw error
      }
    }, mayGoOn)
  }

  pause(ms: number): Promise<void> {
    const { runtime } = this.context
    return new Promise((wake) => runtime.schedule(ms, wake))
  }

  async #script(level: string, statements: readonly SqlStatement[]): Promise<readonly (readonly Row[])[]> {
    const text = scriptOf([isolation(level), ...statements])
    const [, ...answers] = await this.#retrying((connection, state) => this.#send(state, connection, text))
    return answers
  }

  async #retrying<T>(
    work: (connection: PostgresConnection, state: OpenState) => Promise<T>,
    mayGoOn = isConflict,
  ): Promise<T> {
    const state = this.#opened()
    for (let tries = 1; ; tries++) {
      try {
        return await this.#withConnection(state, (connection) => work(connection, state))
      } catch (error) {
        const goesOn = this.losesStatements(error) || mayGoOn(error)
        const isOver = tries >= MAX_TRIES || this.#state !== state
        if (!goesOn || isOver) throw storeErrorOf(error, this.place)
        await this.pause(FIRST_PAUSE_MS * 2 ** (tries - 1) * (0.5 + state.context.runtime.random()))
      }
    }
  }

  async #withConnection<T>(
    state: OpenState,
    work: (connection: PostgresConnection) => Promise<T>,
  ): Promise<T> {
    const connection = await connectionOf(state.pools.forStore)
    // A connection that breaks while we have it says so here as well; without a listener the process would end.
    connection.on('error', state.onError)
    let broken = false
    try {
      return await work(connection)
    } catch (error) {
      broken = isBroken(error)
      throw error
    } finally {
      connection.removeListener('error', state.onError)
      connection.release?.(broken)
    }
  }

  async #send(
    { watchdog }: OpenState,
    connection: PostgresConnection,
    text: string,
    query: Partial<PostgresQuery> = {},
  ): Promise<readonly (readonly Row[])[]> {
    this.options.onStatement?.(text)
    const whole = { text, ...query, rowMode: 'array', types: RAW_TYPES } as const
    const answer = await watchdog.watch(ask(connection, whole))
    const results = Array.isArray(answer) ? (answer as readonly PostgresResult[]) : [answer as PostgresResult]
    return results.map(({ rows }) => rows as readonly Row[])
  }

  #opened(): OpenState {
    if (this.#state !== null) return this.#state
    throw new StoreError(ERROR_CODES.closed, 'The PostgreSQL store is not open; start the outbox first.')
  }

  async #open(context: StoreContext): Promise<void> {
    const pools = await openPools(this.options)
    const onError = (error: Error): void => {
      context.logger.log('warn', 'a connection to PostgreSQL broke', { error: error.message })
    }
    for (const pool of pools.all) {
      pool.on('error', onError)
      announcing(pool).on('connect', hearOut)
    }
    const watchdog = new Watchdog(context.runtime, this.options.queryTimeoutMs)
    this.#watchdog = watchdog
    const connections = new Set<PostgresConnection>()
    for (const pool of pools.own) {
      announcing(pool).on('connect', (connection) => connections.add(connection))
      announcing(pool).on('remove', (connection) => connections.delete(connection))
    }
    const prepare = this.options.prepare ?? false
    const state: OpenState = { context, pools, onError, watchdog, connections, prepare, isDirect: false }
    try {
      state.isDirect = await this.#withConnection(state, (connection) => this.#isDirect(state, connection))
      state.prepare = this.options.prepare ?? state.isDirect
      this.#state = state
    } catch (error) {
      await this.#leave(state).catch(() => undefined)
      throw storeErrorOf(error, this.place)
    }
  }

  /** Waits for what is under way, no longer than a statement may take; cuts off the rest. */
  async #leave({ context, pools, onError, connections }: OpenState): Promise<void> {
    // A connection that breaks while its pool ends is nobody's problem any more.
    for (const pool of pools.own) pool.on('error', () => undefined)
    for (const pool of pools.all) {
      pool.removeListener('error', onError)
      announcing(pool).removeListener('connect', hearOut)
    }
    const ended = Promise.all(pools.own.map((pool) => pool.end()))
    const isOver = await within(context.runtime, this.options.queryTimeoutMs, ended)
    for (const connection of connections) {
      if (!isOver) connection.end?.().catch(() => undefined)
      // One that fell silent never ends, and must not keep the process.
      connection.unref?.()
    }
  }

  /**
   * A pooler answers with a process id of its own making, the server with its real one. Behind a pooler the
   * next statement may meet another server process, which does not know what was prepared.
   */
  async #isDirect(state: OpenState, connection: PostgresConnection): Promise<boolean> {
    const [[row] = []] = await this.#send(
      state,
      connection,
      "SELECT pg_backend_pid(), current_setting('server_version_num')",
    )
    const [pid, version] = (row ?? []).map(Number)
    if (version !== undefined && version < OLDEST_SERVER) {
      throw new StoreError(
        ERROR_CODES.unsupported,
        `${this.place} has version ${version}; PostgreSQL 13 or later is needed.`,
      )
    }
    return connection.processID === pid
  }
}
