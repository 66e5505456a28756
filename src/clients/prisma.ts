/**
 * `posthaste/clients/prisma`: publish in interactive transactions of Prisma 7, with its driver adapters for PostgreSQL,
 * MySQL, MariaDB and SQLite. A `$transaction([…])` of a list has no handle that anything could be published with.
 *
 * Prisma hides what COMMIT answered, so statements that fail are noticed where all of them pass, in its engine.
 */
import type { Transactions } from '../core/spi/index.ts'
import type { SqlExecutor, SqlRow, SqlValue } from '../stores/sql/sql-executor.ts'
import { undoneMeanwhile } from '../stores/sql/transaction-scope.ts'
import type { Answer } from './shared/answers.ts'
import { clientOf } from './shared/client.ts'
import { Doubts, StandingDoubt } from './shared/doubts.ts'
import { requireMethods } from './shared/handles.ts'

/** The client that Prisma gives the function of an interactive transaction, as far as it is used here. */
export interface PrismaTransaction {
  $executeRawUnsafe(query: string, ...values: never[]): PromiseLike<number>
}

/** A `PrismaClient`; `Tx` is the type of its interactive transactions. */
export interface PrismaDatabase<Tx> {
  $transaction<T>(fn: (tx: Tx) => Promise<T>, options?: PrismaTransactionOptions): Promise<T>
}

/** Prisma's own options, for the transactions that `outbox.transaction` opens. */
export interface PrismaTransactionOptions {
  /** How long to wait for a connection. Prisma's default is 2,000 ms. */
  readonly maxWait?: number
  /** After this the transaction is rolled back. Prisma's default is 5,000 ms. */
  readonly timeout?: number
}

/** What is there beyond the public types above. */
interface Handle {
  readonly _activeProvider?: string
  readonly _engine?: Engine
  $transaction<T>(fn: (tx: never) => Promise<T>): Promise<T>
  $executeRawUnsafe(sql: string, ...params: readonly SqlValue[]): PromiseLike<number>
  $queryRawUnsafe(sql: string, ...params: readonly SqlValue[]): PromiseLike<readonly SqlRow[]>
}

interface TransactionOfRequest {
  readonly id: unknown
}

interface Engine {
  /** Nested ones have the id of the one around them. */
  transaction(
    action: 'start' | 'commit' | 'rollback',
    headers: unknown,
    about: TransactionOfRequest,
  ): Promise<TransactionOfRequest>
  request(
    query: unknown,
    options: { readonly interactiveTransaction?: TransactionOfRequest },
  ): Promise<unknown>
  /** What an application asks for in one turn of the event loop. */
  requestBatch(
    queries: readonly unknown[],
    options: { readonly transaction?: BatchTransaction },
  ): Promise<unknown[]>
}

interface BatchTransaction {
  readonly kind: string
  readonly options: Partial<TransactionOfRequest>
}

/** Which transaction a client is in, by the symbols of 7.10 and of earlier ones. */
const SCOPE = Symbol.for('prisma.client.transaction.scope_context')
const ID = Symbol.for('prisma.client.transaction.id')

const idOf = (handle: object): unknown => {
  const members = handle as Readonly<Record<symbol, unknown>>
  const scope = members[SCOPE] as { readonly txId?: unknown } | undefined
  return scope?.txId ?? members[ID]
}

/** A transaction, or one that is nested in it. */
interface Level {
  isUndone: boolean
}

/** Transactions that are open, of the outbox and of the application, by their ids; the innermost is the last. */
class Running {
  readonly #levels = new Map<unknown, Level[]>()

  /** The transaction, whichever of its handles is at hand. */
  get(id: unknown): object | undefined {
    return this.#levels.get(id)
  }

  innermost(id: unknown): Level | undefined {
    return this.#levels.get(id)?.at(-1)
  }

  /** Undefined in one that is not nested: with that its handle ends. */
  nested(id: unknown): Level | undefined {
    return (this.#levels.get(id)?.length ?? 0) > 1 ? this.innermost(id) : undefined
  }

  begin(id: unknown): void {
    const levels = this.#levels.get(id) ?? []
    levels.push({ isUndone: false })
    this.#levels.set(id, levels)
  }

  end(id: unknown): void {
    const levels = this.#levels.get(id)
    levels?.pop()
    if (levels?.length === 0) this.#levels.delete(id)
  }
}

/**
 * Statements of ours that were called inside of a nested transaction, until they are sent. Prisma sends statements some
 * turns later than its rollback of a nested one, together with what the application asks for in the same turn, and what
 * comes after that would be part of the outer one. So each has a number by which it is known again.
 */
const called = new Map<string, Level>()
let lastCalled = 0

const NUMBER = /\/\* posthaste (\d+) \*\//

const isLate = (query: unknown): boolean => {
  const number = called.size === 0 ? undefined : NUMBER.exec(JSON.stringify(query) ?? '')?.[1]
  return number !== undefined && called.get(number)?.isUndone === true
}

/** Of all clients: a transaction is that of one engine. */
const doubts = new Doubts()

/** An engine is watched once, however many clients are made of it. */
const engines = new WeakMap<Engine, Running>()

const throwIfFailed = (results: readonly unknown[]): void => {
  const failed = results.find((result) => result instanceof Error)
  if (failed !== undefined) throw failed
}

/** A batch without those that come too late, whose answers are errors in their places. */
const requestInTime = async (
  queries: readonly unknown[],
  request: (queries: readonly unknown[]) => Promise<unknown[]>,
): Promise<unknown[]> => {
  const late = queries.map(isLate)
  if (!late.includes(true)) return await request(queries)
  const rest = queries.filter((_, n) => late[n] !== true)
  const answers = rest.length === 0 ? [] : await request(rest)
  return late.map((isLate) => (isLate ? undoneMeanwhile() : answers.shift()))
}

const ENGINE = ['transaction', 'request', 'requestBatch'] as const

/** Knows of transactions from their beginning to their end. */
const watchTransactions = (engine: Engine, running: Running): void => {
  const transaction = engine.transaction.bind(engine)
  engine.transaction = async (action, headers, about) => {
    const level = running.innermost(about.id)
    if (action === 'rollback' && level !== undefined) level.isUndone = true
    try {
      const answer = await transaction(action, headers, about)
      if (action === 'start') running.begin(answer.id)
      if (action === 'commit') running.end(about.id)
      return answer
    } finally {
      // Well or not; it also follows a commit that failed.
      if (action === 'rollback') running.end(about.id)
    }
  }
}

/** Follows the requests of transactions. Null where the engine is not what it was. */
const watchEngine = (engine: Engine | undefined): Running | null => {
  if (engine === undefined || ENGINE.some((name) => typeof engine[name] !== 'function')) return null
  const known = engines.get(engine)
  if (known !== undefined) return known
  const running = new Running()
  engines.set(engine, running)
  watchTransactions(engine, running)
  const follow = <T>(id: unknown, answer: Promise<T>, judge: (result: T) => void): void => {
    const transaction = running.get(id)
    if (transaction !== undefined) doubts.follow(transaction, answer.then(judge))
  }
  const request = engine.request.bind(engine)
  const requestBatch = engine.requestBatch.bind(engine)
  engine.request = (query, options) => {
    const id = options.interactiveTransaction?.id
    const answer = isLate(query) ? Promise.reject(undoneMeanwhile()) : request(query, options)
    follow(id, answer, () => undefined)
    return answer
  }
  engine.requestBatch = (queries, options) => {
    const id = options.transaction?.kind === 'itx' ? options.transaction.options.id : undefined
    const answer = requestInTime(queries, (rest) => requestBatch(rest, options))
    if (id !== undefined) follow(id, answer, throwIfFailed)
    return answer
  }
  return running
}

/** What an adapter made of its driver's error. */
interface AdapterCause {
  readonly kind?: unknown
  readonly originalCode?: unknown
  readonly originalMessage?: unknown
}

interface PrismaError {
  readonly code?: unknown
  readonly meta?: { readonly driverAdapterError?: { readonly cause?: AdapterCause } }
  readonly cause?: AdapterCause
}

const UNREACHABLE = new Set([
  'DatabaseNotReachable',
  'ConnectionClosed',
  'SocketTimeout',
  'TooManyConnections',
])

/** What each database's driver would have said, so that the error is understood as everybody's. */
const membersOf = (provider: string | undefined, code: string): object => {
  if (provider === 'sqlite') return { code: 'SQLITE_ERROR', rawCode: Number(code) }
  return provider === 'mysql' ? { errno: Number(code), sqlState: '' } : { code, severity: 'ERROR' }
}

const driverErrorOf = (error: unknown, provider: string | undefined): unknown => {
  if (!(error instanceof Error)) return error
  const { meta, cause: own } = error as PrismaError
  const cause = meta?.driverAdapterError?.cause ?? own
  if (cause === undefined) return error
  const { kind, originalCode, originalMessage } = cause
  const driver = Object.assign(new Error(String(originalMessage ?? kind)), { cause: error })
  if (typeof originalCode === 'string') return Object.assign(driver, membersOf(provider, originalCode))
  return UNREACHABLE.has(String(kind)) ? Object.assign(driver, { code: 'ECONNRESET' }) : error
}

/** Over, or timed out: then Prisma has rolled it back. */
const saysEnded = (error: unknown): boolean => (error as PrismaError | null)?.code === 'P2028'

const timedOut = (error: unknown): string | undefined =>
  saysEnded(error) && /expired transaction|timeout for this transaction/i.test((error as Error).message)
    ? 'Do less in it, or allow it more time: prismaTransactions(prisma, { timeout: 15_000 }), in ms.'
    : undefined

const send = async (tx: Handle, sql: string, params: readonly SqlValue[]): Promise<Answer> => {
  if (tx._activeProvider === 'mysql' && !/^\s*(?:SELECT|WITH)\b/.test(sql)) {
    return [{ affectedRows: await tx.$executeRawUnsafe(sql, ...params) }]
  }
  return await tx.$queryRawUnsafe(sql, ...params)
}

export const prismaTransactions = <Tx extends PrismaTransaction>(
  prisma: PrismaDatabase<Tx>,
  options: PrismaTransactionOptions = {},
): Transactions<Tx, SqlExecutor> => {
  requireMethods('a client of Prisma', prisma, ['$transaction'])
  const handleOf = (tx: object): Handle => tx as unknown as Handle
  const { _engine, _activeProvider } = handleOf(prisma)
  const running = watchEngine(_engine)
  const translating = async <T>(work: () => PromiseLike<T>): Promise<T> => {
    try {
      return await work()
    } catch (error) {
      throw driverErrorOf(error, _activeProvider)
    }
  }
  return clientOf<Tx>({
    name: 'prisma',
    doubts: running === null ? new StandingDoubt() : doubts,
    subjectOf: (tx) => running?.get(idOf(tx)) ?? tx,
    // Its handles are Proxies themselves. They are told apart by the id of their transaction.
    standsFor: (tx) => tx,
    saysEnded,
    timedOut,
    refusesCommit: saysEnded,
    run: (fn) => translating(() => prisma.$transaction(fn, options)),
    nested: (tx, fn) => handleOf(tx).$transaction(fn),
    // Adapters for MySQL prepare what an application sends, and MySQL prepares no savepoints.
    probe: (tx) => handleOf(tx).$transaction(async () => undefined),
    async send(tx, sql, params) {
      const level = running?.nested(idOf(tx))
      if (level === undefined) return await translating(() => send(handleOf(tx), sql, params))
      const number = String(++lastCalled)
      called.set(number, level)
      try {
        return await translating(() => send(handleOf(tx), `${sql} /* posthaste ${number} */`, params))
      } finally {
        called.delete(number)
      }
    },
    inTransaction: (handle) => (idOf(handle) === undefined ? false : undefined),
  })
}
