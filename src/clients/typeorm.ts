/**
 * `posthaste/clients/typeorm`: publish in transactions of TypeORM, with the entity manager or the query runner that has
 * one. TypeORM tells its subscribers when a transaction ends, so events of a transaction that the application opened
 * go the hot way too, and what it writes, so that entities can be asked for their events.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import { isProxy } from 'node:util/types'
import { ERROR_CODES, OutboxError, StoreError } from '../core/errors.ts'
import { createSystemRuntime } from '../core/runtime/system-runtime.ts'
import type { Transactions } from '../core/spi/index.ts'
import type { SqlExecutor } from '../stores/sql/sql-executor.ts'
import { commitUnknown } from '../stores/sql/transaction-scope.ts'
import { LockedError, Turns } from '../stores/sqlite/turns.ts'
import { WriteMutex } from '../stores/sqlite/write-mutex.ts'
import { answerOf } from './shared/answers.ts'
import { Captures, type Written } from './shared/captures.ts'
import { clientOf, type Ended } from './shared/client.ts'
import { Doubts } from './shared/doubts.ts'
import { requireMethods } from './shared/handles.ts'
import { readCapture } from './shared/options.ts'
import type { PgClient } from './shared/pg-client.ts'

/** A `DataSource`; `Tx` is its `EntityManager`. */
export interface TypeormDataSource<Tx> {
  readonly manager: Tx
}

export interface TypeormOptions {
  /** Publish what the `pullEvents()` of entities returns that are saved or removed in `outbox.transaction`. Default false. */
  readonly capture?: boolean
}

interface QueryRunner {
  readonly isTransactionActive: boolean
  /** 1 in a transaction, 2 in a savepoint of it, and so on. */
  readonly transactionDepth: number
  readonly databaseConnection?: PgClient
  readonly manager: Manager
  query(
    sql: string,
    params: readonly unknown[],
    structured: true,
  ): Promise<{ raw: unknown; records?: unknown }>
  startTransaction(): Promise<void>
  /** Its name before 1.0 was `connection`. */
  readonly dataSource?: Source
  readonly connection?: Source
}

interface Manager {
  readonly queryRunner?: QueryRunner
  transaction<T>(fn: (manager: never) => Promise<T>): Promise<T>
}

/** A data source beyond its public type. */
interface Source {
  readonly isInitialized: boolean
  readonly manager: Manager
  /** `initialize()` makes another list. */
  readonly subscribers: object[]
  createQueryRunner(): QueryRunner
}

interface TransactionEvent {
  readonly queryRunner: QueryRunner
}

interface QueryEvent extends TransactionEvent {
  readonly success: boolean
}

interface EntityEvent extends TransactionEvent {
  readonly entity?: unknown
}

const runnerOf = (handle: object): QueryRunner | undefined => {
  const { queryRunner, startTransaction } = handle as Partial<Manager & QueryRunner>
  return queryRunner ?? (typeof startTransaction === 'function' ? (handle as QueryRunner) : undefined)
}

const openRunner = (handle: object): QueryRunner => {
  const runner = runnerOf(handle)
  if (runner === undefined) throw new TypeError('this handle of typeorm has no query runner')
  return runner
}

/** A Proxy may stand for another manager in each asynchronous context; the query runner knows the one of here. */
const managerOf = <Tx extends object>(handle: Tx): Tx =>
  isProxy(handle) ? ((runnerOf(handle)?.manager as Tx | undefined) ?? handle) : handle

/** Follows transactions by what subscribers are told. Savepoints are announced too; then it goes on. */
class TransactionWatch {
  readonly doubts = new Doubts()
  readonly #committed = new WeakSet<QueryRunner>()
  readonly #waiting = new WeakMap<QueryRunner, Ended[]>()

  wait(runner: QueryRunner, ended: Ended): void {
    this.#waiting.set(runner, [...(this.#waiting.get(runner) ?? []), ended])
  }

  hasCommitted(runner: QueryRunner): boolean {
    return this.#committed.has(runner)
  }

  afterQuery({ queryRunner, success }: QueryEvent): void {
    if (!success) this.doubts.raise(queryRunner)
  }

  /** On SQLite the query runner is that of the transaction before as well. */
  beforeTransactionStart({ queryRunner }: TransactionEvent): void {
    this.#committed.delete(queryRunner)
    if (queryRunner.transactionDepth === 0) this.doubts.clear(queryRunner)
  }

  afterTransactionCommit({ queryRunner }: TransactionEvent): void {
    if (queryRunner.isTransactionActive) return
    this.#committed.add(queryRunner)
    this.#tell(queryRunner, 'committed')
  }

  afterTransactionRollback({ queryRunner }: TransactionEvent): void {
    if (!queryRunner.isTransactionActive) this.#tell(queryRunner, 'rolledBack')
  }

  #tell(runner: QueryRunner, how: keyof Ended): void {
    const all = this.#waiting.get(runner) ?? []
    this.#waiting.delete(runner)
    for (const ended of all) ended[how]()
  }
}

/** Hands over entities that are written. Levels of a transaction are told apart by their depth. */
class WriteWatch {
  readonly captures = new Captures<object>()
  readonly #levels = new WeakMap<QueryRunner, Map<number, object>>()

  afterInsert(event: EntityEvent): void {
    this.#written(event)
  }

  afterUpdate(event: EntityEvent): void {
    this.#written(event)
  }

  afterRemove(event: EntityEvent): void {
    this.#written(event)
  }

  afterSoftRemove(event: EntityEvent): void {
    this.#written(event)
  }

  afterRecover(event: EntityEvent): void {
    this.#written(event)
  }

  afterTransactionCommit({ queryRunner: runner }: TransactionEvent): void {
    const depth = runner.transactionDepth
    this.captures.keep(this.#levelAt(runner, depth + 1), depth > 0 ? this.#levelAt(runner, depth) : undefined)
  }

  afterTransactionRollback({ queryRunner: runner }: TransactionEvent): void {
    this.captures.undo(this.#levelAt(runner, runner.transactionDepth + 1))
  }

  #written({ queryRunner, entity }: EntityEvent): void {
    // Outside of a transaction: nobody will ask for it. On SQLite that is the runner of the transactions too, and never ends.
    if (queryRunner.transactionDepth === 0) return
    const level = this.#levelAt(queryRunner, queryRunner.transactionDepth)
    this.captures.take(queryRunner, level, entity, (tx) => runnerOf(tx as object) === queryRunner)
  }

  #levelAt(runner: QueryRunner, depth: number): object {
    const known = this.#levels.get(runner) ?? new Map<number, object>()
    this.#levels.set(runner, known)
    const level = known.get(depth) ?? {}
    known.set(depth, level)
    return level
  }
}

/** As long as a store waits for a lock by default. */
const BUSY_TIMEOUT_MS = 5_000

const PLACE = 'The database behind typeorm'

/**
 * On SQLite there is one query runner for everybody. A transaction that begins before another one's end becomes a
 * savepoint of it, and whoever ends first ends the other's. So ours wait for each other, and for those of the application.
 */
class OneAtATime {
  readonly #mutex = new WriteMutex()
  readonly #turns = new Turns({
    place: PLACE,
    busyTimeoutMs: BUSY_TIMEOUT_MS,
    runtime: createSystemRuntime(),
  })
  /** The transaction that the caller runs in: whoever waits there for another one waits for itself. */
  readonly #inside = new AsyncLocalStorage<{ isOver: boolean }>()

  async run<T>(source: Source, fn: (manager: never) => Promise<T>): Promise<T> {
    if (this.#inside.getStore()?.isOver === false) throw waitsForItself()
    const release = await this.#turns.acquire(this.#mutex)
    const turn = { isOver: false }
    try {
      return await this.#inside.run(turn, () => this.#alone(source, fn))
    } finally {
      turn.isOver = true
      release()
    }
  }

  async #alone<T>(source: Source, fn: (manager: never) => Promise<T>): Promise<T> {
    const runner = source.createQueryRunner()
    await this.#until(() => !runner.isTransactionActive)
    return await source.manager.transaction(async (tx) => {
      const result = await fn(tx)
      try {
        await this.#until(() => runner.transactionDepth === 1)
      } catch (cause) {
        throw commitUnknown('Another transaction was open on the only connection', cause)
      }
      return result
    })
  }

  #until(isSo: () => boolean): Promise<void> {
    return this.#turns.retrying(() => {
      if (!isSo()) throw new LockedError('the application has a transaction open')
    })
  }
}

const waitsForItself = (): StoreError =>
  new StoreError(
    ERROR_CODES.storeBusy,
    `${PLACE} has one connection, and this transaction was begun inside of another one on it, by another client or ` +
      'outbox: each would wait for the other. Use the handle of the outer one, or the same publisher for both: then the ' +
      'inner one is a savepoint.',
  )

/** What there is once per data source, however many clients are made of it. */
class Watches {
  readonly transactions = new TransactionWatch()
  readonly writes = new WriteWatch()
  readonly #source: Source
  readonly #oneAtATime = new OneAtATime()
  /** Null: not asked yet. */
  #isShared: boolean | null = null

  constructor(source: Source) {
    this.#source = source
  }

  /**
   * Before each transaction: the list may be another one. First in it, so that nobody's error comes between. False for
   * one that was there.
   */
  subscribe(subscriber: TransactionWatch | WriteWatch): boolean {
    const { subscribers } = this.#source
    if (subscribers.includes(subscriber)) return false
    subscribers.unshift(subscriber)
    return true
  }

  async run<T>(fn: (manager: never) => Promise<T>): Promise<T> {
    const source = this.#source
    if (!source.isInitialized)
      throw new OutboxError(
        ERROR_CODES.storeUnavailable,
        'The data source of TypeORM is not initialised. Call await dataSource.initialize() before the first transaction.',
      )
    if (this.#isShared === null) {
      const [one, other] = [source.createQueryRunner(), source.createQueryRunner()]
      this.#isShared = one === other
    }
    return await (this.#isShared ? this.#oneAtATime.run(source, fn) : source.manager.transaction(fn))
  }
}

const watches = new WeakMap<Source, Watches>()

const watchesOf = (source: Source): Watches => {
  const known = watches.get(source) ?? new Watches(source)
  watches.set(source, known)
  return known
}

export const typeormTransactions = <Tx extends object>(
  dataSource: TypeormDataSource<Tx>,
  options: TypeormOptions = {},
): Transactions<Tx, SqlExecutor> => {
  requireMethods('a data source of TypeORM', dataSource, ['createQueryRunner', 'transaction'])
  const capture = readCapture('typeormTransactions', options)
  const source = dataSource as unknown as Source
  const watch = watchesOf(source)
  const { transactions, writes } = watch
  const listeners: Written[] = []
  // At once: what fails in a transaction of the application before its first publish counts too.
  watch.subscribe(transactions)
  return clientOf<Tx>({
    name: 'typeorm',
    doubts: transactions.doubts,
    subjectOf: openRunner,
    run(fn) {
      watch.subscribe(transactions)
      if (capture) watch.subscribe(writes)
      return watch.run((manager) => {
        writes.captures.hear(openRunner(manager), listeners)
        return fn(manager)
      })
    },
    hasCommitted: (tx) => transactions.hasCommitted(openRunner(tx)),
    nested: (tx, fn) => (tx as Manager).transaction(fn),
    async send(tx, sql, params) {
      const { raw, records } = await openRunner(tx).query(sql, params, true)
      // Of what MySQL says about a statement without rows TypeORM makes an empty list.
      return answerOf(Array.isArray(raw) ? (records ?? raw) : raw)
    },
    ...(capture ? { capture: (written) => void listeners.push(written) } : {}),
    standsFor: managerOf,
    pgClient: (tx) => runnerOf(tx)?.databaseConnection,
    inTransaction: (handle) => runnerOf(handle)?.isTransactionActive === true,
    observe(tx, ended) {
      const runner = openRunner(tx)
      // Another data source tells its own subscribers.
      if ((runner.dataSource ?? runner.connection) !== source) return false
      // It was initialised since, and what happened in this transaction nobody has told us.
      if (watch.subscribe(transactions)) transactions.doubts.raise(runner)
      transactions.wait(runner, ended)
      return true
    },
  })
}
