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
import { Doubts } from './shared/doubts.ts'

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

interface Engine {
  request(query: unknown, options: { readonly interactiveTransaction?: { readonly id: unknown } }): unknown
}

/** Which transaction a client is in, by the symbols of 7.10 and of earlier ones. */
const SCOPE = Symbol.for('prisma.client.transaction.scope_context')
const ID = Symbol.for('prisma.client.transaction.id')

const idOf = (handle: object): unknown => {
  const members = handle as Readonly<Record<symbol, unknown>>
  const scope = members[SCOPE] as { readonly txId?: unknown } | undefined
  return scope?.txId ?? members[ID]
}

/** Tells of requests that fail, by the id of their transaction. False where the engine is not what it was. */
const watchEngine = (engine: Engine | undefined, failed: (id: unknown) => void): boolean => {
  if (typeof engine?.request !== 'function') return false
  const send = engine.request.bind(engine)
  engine.request = async (query, options) => {
    try {
      return await send(query, options)
    } catch (error) {
      failed(options.interactiveTransaction?.id)
      throw error
    }
  }
  return true
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
  const doubts = new Doubts()
  /** A transaction and the nested ones in it, by their common id. */
  const running = new Map<unknown, Set<Tx>>()
  const handleOf = (tx: object): Handle => tx as unknown as Handle
  const { _engine, _activeProvider } = handleOf(prisma)
  const isWatched = watchEngine(_engine, (id) => {
    for (const tx of running.get(id) ?? []) doubts.raise(tx)
  })
  const noted = async <T>(tx: Tx, fn: (tx: Tx) => Promise<T>): Promise<T> => {
    const id = idOf(tx)
    const all = running.get(id) ?? new Set<Tx>()
    running.set(id, all.add(tx))
    // Nobody would tell, so the database is asked.
    if (!isWatched) doubts.raise(tx)
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
    doubts,
    saysEnded,
    refusesCommit: saysEnded,
    run: (fn) => translating(() => prisma.$transaction((tx) => noted(tx, fn), options)),
    nested: (tx, fn) => handleOf(tx).$transaction((inner) => noted(inner as unknown as Tx, fn)),
    // Adapters for MySQL prepare what an application sends, and MySQL prepares no savepoints.
    probe: (tx) => handleOf(tx).$transaction(async () => undefined),
    send: (tx, sql, params) => translating(() => send(handleOf(tx), sql, params)),
    inTransaction: (handle) => (idOf(handle) === undefined ? false : undefined),
  })
}
