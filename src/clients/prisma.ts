/**
 * `posthaste/clients/prisma`: publish in interactive transactions of Prisma 7, with its driver adapters for PostgreSQL,
 * MySQL, MariaDB and SQLite. A `$transaction([…])` of a list has no handle that anything could be published with.
 *
 * Prisma hides what COMMIT answered, so statements that fail are noticed where all of them pass, in its engine.
 */
import type { Transactions } from '../core/spi/index.ts'
import type { SqlExecutor, SqlRow, SqlValue } from '../stores/sql/sql-executor.ts'
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
  request(
    query: unknown,
    options: { readonly interactiveTransaction?: TransactionOfRequest },
  ): Promise<unknown>
  /** What an application asks for in one turn of the event loop. */
  requestBatch(queries: unknown, options: { readonly transaction?: BatchTransaction }): Promise<unknown[]>
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

/** The handles of a transaction and of the nested ones in it, by their common id. */
type Running = Map<unknown, Set<object>>

/** Of all clients: a handle is that of one transaction. */
const doubts = new Doubts()

/** An engine is watched once, however many clients are made of it. */
const engines = new WeakMap<Engine, Running>()

const throwIfFailed = (results: readonly unknown[]): void => {
  const failed = results.find((result) => result instanceof Error)
  if (failed !== undefined) throw failed
}

/** Follows the requests of transactions. Null where the engine is not what it was. */
const watchEngine = (engine: Engine | undefined): Running | null => {
  if (typeof engine?.request !== 'function' || typeof engine.requestBatch !== 'function') return null
  const known = engines.get(engine)
  if (known !== undefined) return known
  const running: Running = new Map()
  engines.set(engine, running)
  const follow = <T>(id: unknown, answer: Promise<T>, judge: (result: T) => void): void => {
    for (const tx of running.get(id) ?? []) doubts.follow(tx, answer.then(judge))
  }
  const request = engine.request.bind(engine)
  const requestBatch = engine.requestBatch.bind(engine)
  engine.request = (query, options) => {
    const answer = request(query, options)
    follow(options.interactiveTransaction?.id, answer, () => undefined)
    return answer
  }
  engine.requestBatch = (queries, options) => {
    const answer = requestBatch(queries, options)
    if (options.transaction?.kind === 'itx') follow(options.transaction.options.id, answer, throwIfFailed)
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
  const noted = async <T>(tx: Tx, fn: (tx: Tx) => Promise<T>): Promise<T> => {
    if (running === null) return await fn(tx)
    const id = idOf(tx)
    const all = running.get(id) ?? new Set()
    running.set(id, all.add(tx))
    try {
      return await fn(tx)
    } finally {
      all.delete(tx)
      if (all.size === 0) running.delete(id)
    }
  }
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
    saysEnded,
    timedOut,
    refusesCommit: saysEnded,
    run: (fn) => translating(() => prisma.$transaction((tx) => noted(tx, fn), options)),
    nested: (tx, fn) => handleOf(tx).$transaction((inner) => noted(inner as unknown as Tx, fn)),
    // Adapters for MySQL prepare what an application sends, and MySQL prepares no savepoints.
    probe: (tx) => handleOf(tx).$transaction(async () => undefined),
    send: (tx, sql, params) => translating(() => send(handleOf(tx), sql, params)),
    inTransaction: (handle) => (idOf(handle) === undefined ? false : undefined),
  })
}
