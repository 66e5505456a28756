/**
 * The store's access to the server: its own connections, how statements are sent, and what is tried again.
 *
 * Whatever locks a worker's row is one script: the server gets all of it at once and never waits for us in
 * between. `transaction` does wait, and is for operators, cleaning and migrations alone.
 */
import { ERROR_CODES, StoreError } from '../../core/errors.ts'
import { serverName } from '../../core/model/index.ts'
import type { StoreContext } from '../../core/spi/index.ts'
import type { SqlStatement, SqlValue } from '../sql/sql-executor.ts'
import { innerOf, isHeader, loadDriver, type MysqlConnection, type MysqlPool } from './driver.ts'
import { crowdedError, isBroken, isConflict, isDuplicate, storeErrorOf } from './errors.ts'
import { LendingPool } from './lending-pool.ts'
import type { ResolvedMysqlOptions } from './options.ts'
import { textOf } from './script.ts'

/** Columns in order: large numbers and times as texts, binary ones as bytes. */
export type Row = readonly unknown[]

export interface Answer {
  readonly rows: readonly Row[]
  /** Rows that a statement wrote or, for an update, found. */
  readonly affected: number
}

/** One connection inside a transaction of the store's own. */
export interface Session {
  rows(sql: string, params?: readonly SqlValue[]): Promise<readonly Row[]>
  write(sql: string, params?: readonly SqlValue[]): Promise<number>
}

/** Deadlocks and lock timeouts are tried so often before the caller hears of them. */
const MAX_TRIES = 6
const FIRST_PAUSE_MS = 5
const LOCK_WAIT_SECONDS = 5

/** Escaping relies on the mode; the rest makes every server behave alike, whatever its defaults are. */
const SETUP = `SET SESSION sql_mode = 'STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION', autocommit = 1, time_zone = '+00:00',
  completion_type = 0, sql_safe_updates = 0, sql_select_limit = 18446744073709551615, innodb_lock_wait_timeout = ${LOCK_WAIT_SECONDS} /*M!100600 , in_predicate_conversion_threshold = 0 */;
SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED`

/** Busy connections come back sooner; two that each have one and wait for another never would. */
const SECOND_CONNECTION_MS = 1_000

const statement = (sql: string): SqlStatement => ({ sql, params: [] })

/**
 * When a script fails halfway its locks wait for our ROLLBACK. A process that is suspended at that very moment
 * must not keep them, so the server ends an idle connection soon while a transaction is open on it.
 */
const BEGIN = [statement('SET SESSION wait_timeout = 5'), statement('START TRANSACTION')]
const END = [statement('COMMIT'), statement('SET SESSION wait_timeout = DEFAULT')]

/**
 * In a transaction of several packets the server waits for us, too: a process that is suspended loses its connection,
 * because others wait for its locks.
 */
const SUSPENDED_SECONDS = 10

/**
 * Only repeatable reads have one snapshot for several statements; without locks nothing else differs. It is that of the first
 * statement, and begins when that has waited for its tables: rows that were moved meanwhile, as into a partition that was
 * made, are where it looks. So the first statement reads all that may be moved, which are events and finished deliveries.
 */
const SNAPSHOT = [
  statement('SET TRANSACTION ISOLATION LEVEL REPEATABLE READ'),
  statement('START TRANSACTION READ ONLY'),
]
const SNAPSHOT_END = [statement('COMMIT')]

interface OpenState {
  readonly context: StoreContext
  readonly own: LendingPool
  readonly application: LendingPool
}

const answerOf = (result: unknown): Answer => {
  if (isHeader(result)) return { rows: [], affected: result.affectedRows }
  return { rows: result as readonly Row[], affected: 0 }
}

export class MysqlDatabase {
  readonly options: ResolvedMysqlOptions
  /** For messages. */
  readonly place: string
  readonly #configured = new WeakSet<object>()
  #state: OpenState | null = null
  #opening: Promise<void> | null = null

  constructor(options: ResolvedMysqlOptions) {
    this.options = options
    const { source } = options
    this.place = serverName('MySQL', 'pool' in source ? source.settings : source)
  }

  get context(): StoreContext {
    return this.#opened().context
  }

  /** What the application's transactions run on. */
  get application(): LendingPool {
    return this.#opened().application
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

  /** One statement, one round trip, a transaction of its own. */
  async rows(sql: string, params: readonly SqlValue[] = []): Promise<readonly Row[]> {
    return (await this.script([{ sql, params }]))[0]?.rows ?? []
  }

  /** Several statements in one round trip, each a transaction of its own. */
  script(statements: readonly SqlStatement[]): Promise<readonly Answer[]> {
    return this.#packet([], statements, [])
  }

  /** All statements or none, in one round trip; each sees what the ones before it wrote. */
  atomic(statements: readonly SqlStatement[]): Promise<readonly Answer[]> {
    return this.#packet(BEGIN, statements, END)
  }

  /** Reads of one snapshot, in one round trip: that of the first, which reads whatever may be moved. */
  snapshot(statements: readonly SqlStatement[]): Promise<readonly Answer[]> {
    return this.#packet(SNAPSHOT, statements, SNAPSHOT_END)
  }

  /** All of `work` or nothing. It may run again after a conflict, and is rolled back before that. */
  transaction<T>(work: (session: Session) => Promise<T>): Promise<T> {
    return this.#retrying(async (connection) => {
      await this.#send(connection, [`SET SESSION wait_timeout = ${SUSPENDED_SECONDS}`, 'START TRANSACTION'])
      const result = await work(this.#sessionOn(connection))
      await this.#send(
        connection,
        END.map((each) => textOf(each)),
      )
      return result
    })
  }

  /** A connection of the store's own for something that is not a transaction, such as a named lock. */
  session<T>(work: (session: Session) => Promise<T>): Promise<T> {
    return this.#withConnection(this.#opened(), (connection) => work(this.#sessionOn(connection))).catch(
      (error: unknown) => {
        throw storeErrorOf(error, this.place)
      },
    )
  }

  /**
   * Two of them, for something that keeps others waiting on the first. Those may have all other connections, so the
   * second is had before anything is done; when that takes too long, nothing is.
   */
  twoSessions<T>(work: (session: Session, other: Session) => Promise<T>): Promise<T> {
    const state = this.#opened()
    const soon = async (): Promise<MysqlConnection> => {
      const connection = await state.own.borrowWithin(state.context.runtime, SECOND_CONNECTION_MS)
      if (connection === null) throw crowdedError(this.place, this.options.ownConnections)
      return connection
    }
    return this.session((other) =>
      this.#withConnection(state, (connection) => work(this.#sessionOn(connection), other), soon),
    )
  }

  #sessionOn(connection: MysqlConnection): Session {
    const send = async (sql: string, params: readonly SqlValue[] = []): Promise<Answer> =>
      (await this.#send(connection, [textOf({ sql, params })]))[0] as Answer
    return {
      rows: async (sql, params) => (await send(sql, params)).rows,
      write: async (sql, params) => (await send(sql, params)).affected,
    }
  }

  pause(ms: number): Promise<void> {
    const { runtime } = this.context
    return new Promise((wake) => runtime.schedule(ms, wake))
  }

  async #packet(
    before: readonly SqlStatement[],
    statements: readonly SqlStatement[],
    after: readonly SqlStatement[],
  ): Promise<readonly Answer[]> {
    if (statements.length === 0) return []
    const texts = [...before, ...statements, ...after].map((each) => textOf(each))
    const answers = await this.#retrying((connection) => this.#send(connection, texts))
    return answers.slice(before.length, before.length + statements.length)
  }

  async #retrying<T>(work: (connection: MysqlConnection) => Promise<T>): Promise<T> {
    const state = this.#opened()
    for (let tries = 1; ; tries++) {
      try {
        return await this.#withConnection(state, work)
      } catch (error) {
        // Two at once wrote the same row: the second one finds it there when it looks again.
        if (!(isConflict(error) || isDuplicate(error)) || tries >= MAX_TRIES)
          throw storeErrorOf(error, this.place)
        await this.pause(FIRST_PAUSE_MS * 2 ** (tries - 1) * (0.5 + state.context.runtime.random()))
      }
    }
  }

  async #withConnection<T>(
    state: OpenState,
    work: (connection: MysqlConnection) => Promise<T>,
    borrow = () => state.own.borrow(),
  ): Promise<T> {
    const connection = await borrow()
    try {
      if (!this.#configured.has(innerOf(connection))) {
        await connection.query({ sql: SETUP, timeout: this.options.queryTimeoutMs })
        this.#configured.add(innerOf(connection))
      }
      const result = await work(connection)
      state.own.giveBack(connection, { isBroken: false })
      return result
    } catch (error) {
      state.own.giveBack(connection, { isBroken: isBroken(error) || !(await this.#isCleared(connection)) })
      throw error
    }
  }

  /** After an error nothing may stay open on the connection. */
  async #isCleared(connection: MysqlConnection): Promise<boolean> {
    try {
      await connection.query({
        sql: 'ROLLBACK; UNLOCK TABLES; SET SESSION wait_timeout = DEFAULT, lock_wait_timeout = DEFAULT',
        timeout: this.options.queryTimeoutMs,
      })
      return true
    } catch {
      return false
    }
  }

  async #send(connection: MysqlConnection, texts: readonly string[]): Promise<readonly Answer[]> {
    const sql = texts.join(';\n')
    this.options.onStatement?.(sql)
    const [result] = await connection.query({ sql, timeout: this.options.queryTimeoutMs, rowsAsArray: true })
    return (texts.length === 1 ? [result] : (result as readonly unknown[])).map(answerOf)
  }

  #opened(): OpenState {
    if (this.#state !== null) return this.#state
    throw new StoreError(ERROR_CODES.closed, 'The MySQL store is not open; start the outbox first.')
  }

  async #open(context: StoreContext): Promise<void> {
    const { source, ownConnections, queryTimeoutMs } = this.options
    const { createPool } = await loadDriver()
    const where = 'pool' in source ? source.settings : { uri: source.connectionString }
    const connectTimeout = Math.min(queryTimeoutMs, 10_000)
    const own = createPool({
      connectTimeout,
      ...where,
      connectionLimit: ownConnections,
      multipleStatements: true,
      charset: 'utf8mb4',
      flags: ['FOUND_ROWS'],
      dateStrings: true,
      supportBigNumbers: true,
      bigNumberStrings: true,
      enableKeepAlive: true,
    })
    const application =
      'pool' in source
        ? (source.pool as MysqlPool<MysqlConnection>)
        : createPool({
            connectTimeout,
            ...where,
            connectionLimit: source.poolSize,
            charset: 'utf8mb4',
            enableKeepAlive: true,
          })
    const state: OpenState = {
      context,
      own: new LendingPool(own, { isOurs: true }),
      application: new LendingPool(application, { isOurs: !('pool' in source) }),
    }
    try {
      await this.#withConnection(state, (connection) => this.#checkServer(connection, context))
      this.#state = state
    } catch (error) {
      await this.#leave(state)
      throw storeErrorOf(error, this.place)
    }
  }

  async #leave({ context: { runtime }, own, application }: OpenState): Promise<void> {
    const { queryTimeoutMs } = this.options
    await Promise.all([own.end(runtime, queryTimeoutMs), application.end(runtime, queryTimeoutMs)])
  }

  async #checkServer(connection: MysqlConnection, { logger }: StoreContext): Promise<void> {
    const [answer] = await this.#send(connection, ['SELECT VERSION(), DATABASE(), @@max_allowed_packet'])
    const [version, database, packet] = answer?.rows[0] ?? []
    if (database === null) {
      throw new StoreError(
        ERROR_CODES.storeUnavailable,
        `${this.place}: the connection settings name no database.`,
      )
    }
    const [, major = '0', minor = '0', patch = '0'] = /^(\d+)\.(\d+)\.(\d+)/.exec(String(version)) ?? []
    const isMariadb = /mariadb/i.test(String(version))
    const number = Number(major) * 10_000 + Number(minor) * 100 + Number(patch)
    if (number < (isMariadb ? 100_600 : 80_019)) {
      throw new StoreError(
        ERROR_CODES.unsupported,
        `${this.place} has version ${String(version)}; MySQL 8.0.19 or MariaDB 10.6 is the oldest that will do.`,
      )
    }
    if (Number(packet) >= SMALLEST_PACKET) return
    logger.log('warn', 'max_allowed_packet of the server is small; large events will be refused', {
      maxAllowedPacket: Number(packet),
      recommended: SMALLEST_PACKET,
    })
  }
}

const SMALLEST_PACKET = 16 * 1_048_576
