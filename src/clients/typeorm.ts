/**
 * `posthaste/clients/typeorm`: publish in transactions of TypeORM, with the entity manager or the query runner that has
 * one. TypeORM tells its subscribers when a transaction ends, so events of a transaction that the application opened
 * go the hot way too, and what it writes, so that entities can be asked for their events.
 */
import type { Transactions } from '../core/spi/index.ts'
import type { SqlExecutor } from '../stores/sql/sql-executor.ts'
import { answerOf } from './shared/answers.ts'
import { Captures } from './shared/captures.ts'
import { clientOf, type Ended } from './shared/client.ts'
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
  query(
    sql: string,
    params: readonly unknown[],
    structured: true,
  ): Promise<{ raw: unknown; records?: unknown }>
  startTransaction(): Promise<void>
}

interface Manager {
  readonly queryRunner?: QueryRunner
  transaction<T>(fn: (manager: never) => Promise<T>): Promise<T>
}

interface RunnerSource {
  createQueryRunner(): QueryRunner
}

interface TransactionEvent {
  readonly queryRunner: QueryRunner
}

interface EntityEvent {
  readonly queryRunner: QueryRunner
  readonly entity?: unknown
}

interface Subscriber {
  afterTransactionCommit?(event: TransactionEvent): void
  afterTransactionRollback?(event: TransactionEvent): void
  afterInsert?(event: EntityEvent): void
  afterUpdate?(event: EntityEvent): void
  afterRemove?(event: EntityEvent): void
  afterSoftRemove?(event: EntityEvent): void
  afterRecover?(event: EntityEvent): void
}

interface Subscribers {
  readonly subscribers: Subscriber[]
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

/** Who waits for the end of which transaction. Savepoints are announced too; then it goes on. */
const watchEnds = ({ subscribers }: Subscribers): ((runner: QueryRunner, ended: Ended) => void) => {
  const waiting = new WeakMap<QueryRunner, Ended[]>()
  const tell =
    (how: keyof Ended) =>
    ({ queryRunner }: TransactionEvent) => {
      if (queryRunner.isTransactionActive) return
      const all = waiting.get(queryRunner) ?? []
      waiting.delete(queryRunner)
      for (const ended of all) ended[how]()
    }
  subscribers.push({
    afterTransactionCommit: tell('committed'),
    afterTransactionRollback: tell('rolledBack'),
  })
  return (runner, ended) => {
    waiting.set(runner, [...(waiting.get(runner) ?? []), ended])
  }
}

/**
 * On SQLite there is one query runner for everybody, and a transaction that begins before another one's end becomes a
 * savepoint of it. So ours wait for each other.
 */
const turnsOf = (source: RunnerSource): (<T>(work: () => Promise<T>) => Promise<T>) => {
  let isShared: boolean | null = null
  let last: Promise<unknown> = Promise.resolve()
  return (work) => {
    if (isShared === null) {
      const [one, other] = [source.createQueryRunner(), source.createQueryRunner()]
      isShared = one === other
    }
    if (!isShared) return work()
    const done = last.then(work)
    last = done.catch(() => undefined)
    return done
  }
}

/** Hands over entities that are written. Levels of a transaction are told apart by their depth. */
const captureWrites = ({ subscribers }: Subscribers): Captures<object> => {
  const captures = new Captures<object>()
  const levels = new WeakMap<QueryRunner, Map<number, object>>()
  const levelAt = (runner: QueryRunner, depth: number): object => {
    const known = levels.get(runner) ?? new Map<number, object>()
    levels.set(runner, known)
    const level = known.get(depth) ?? {}
    known.set(depth, level)
    return level
  }
  const written = ({ queryRunner, entity }: EntityEvent): void => {
    const level = levelAt(queryRunner, queryRunner.transactionDepth)
    captures.take(level, entity, (tx) => runnerOf(tx as object) === queryRunner)
  }
  subscribers.push({
    afterInsert: written,
    afterUpdate: written,
    afterRemove: written,
    afterSoftRemove: written,
    afterRecover: written,
    afterTransactionCommit({ queryRunner: runner }) {
      const depth = runner.transactionDepth
      captures.keep(levelAt(runner, depth + 1), depth > 0 ? levelAt(runner, depth) : undefined)
    },
    afterTransactionRollback({ queryRunner: runner }) {
      captures.undo(levelAt(runner, runner.transactionDepth + 1))
    },
  })
  return captures
}

/** Give it the data source after `initialize()`, which makes its list of subscribers. */
export const typeormTransactions = <Tx extends object>(
  dataSource: TypeormDataSource<Tx>,
  { capture = false }: TypeormOptions = {},
): Transactions<Tx, SqlExecutor> => {
  let watch: ReturnType<typeof watchEnds> | null = null
  const inTurn = turnsOf(dataSource as unknown as RunnerSource)
  const managerOf = (tx: object): Manager => tx as Manager
  return clientOf<Tx>({
    name: 'typeorm',
    run: (fn) => inTurn(() => managerOf(dataSource.manager).transaction(fn)),
    nested: (tx, fn) => managerOf(tx).transaction(fn),
    async send(tx, sql, params) {
      const { raw, records } = await openRunner(tx).query(sql, params, true)
      return answerOf(records ?? raw)
    },
    ...(capture ? { capture: captureWrites(dataSource as unknown as Subscribers).listen } : {}),
    pgClient: (tx) => runnerOf(tx)?.databaseConnection,
    inTransaction: (handle) => runnerOf(handle)?.isTransactionActive === true,
    observe(tx, ended) {
      watch ??= watchEnds(dataSource as unknown as Subscribers)
      watch(openRunner(tx), ended)
      return true
    },
  })
}
