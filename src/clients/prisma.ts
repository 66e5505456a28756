/**
 * `posthaste/clients/prisma`: publish in interactive transactions of Prisma 7, with its driver adapters for PostgreSQL,
 * MySQL, MariaDB and SQLite. A `$transaction([…])` of a list has no handle that anything could be published with.
 *
 * Prisma hides what COMMIT answered, so statements that fail are noticed where all of them pass, in its engine.
 */
import { ERROR_CODES, TransactionError } from '../core/errors.ts'
import { refuseUnknown } from '../core/model/index.ts'
import type { Transactions } from '../core/spi/index.ts'
import type { SqlExecutor, SqlRow, SqlValue } from '../stores/sql/sql-executor.ts'
import { endedBefore, transactionOver, undoneMeanwhile } from '../stores/sql/transaction-scope.ts'
import type { Answer } from './shared/answers.ts'
import { clientOf } from './shared/client.ts'
import { givenUp, PROBES, StandingDoubt } from './shared/doubts.ts'
import { requireMethods } from './shared/handles.ts'
import { checkDuration } from './shared/options.ts'
import { doubts, type Engine, LeftOut, sendNumbered, watchEngine } from './shared/prisma-engine.ts'
import type { Level } from './shared/prisma-levels.ts'

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

/** All of those that Prisma knows, because they are handed on to it. */
const OPTION_NAMES: ReadonlySet<string> = new Set(['maxWait', 'timeout', 'isolationLevel'])

/** What is there beyond the public types above. */
interface Handle {
  readonly _activeProvider?: string
  readonly _engine?: Engine
  $transaction<T>(fn: (tx: never) => Promise<T>): Promise<T>
  $executeRawUnsafe(sql: string, ...params: readonly SqlValue[]): PromiseLike<number>
  $queryRawUnsafe(sql: string, ...params: readonly SqlValue[]): PromiseLike<readonly SqlRow[]>
}

/** Which transaction a client is in, by the symbols of 7.10 and of earlier ones. */
const SCOPE = Symbol.for('prisma.client.transaction.scope_context')
const ID = Symbol.for('prisma.client.transaction.id')

interface Scope {
  readonly txId?: unknown
  readonly scopeId?: unknown
  /** Those that are open, by their ids; all handles of a transaction share it. */
  readonly scopeState?: { readonly stack?: readonly unknown[] }
}

const scopeOf = (handle: object): Scope | undefined =>
  (handle as Readonly<Record<symbol, Scope | undefined>>)[SCOPE]

const idOf = (handle: object): unknown =>
  scopeOf(handle)?.txId ?? (handle as Readonly<Record<symbol, unknown>>)[ID]

/** A nested one shares the id of the one around it, in which a statement would be carried out from now on. */
const isOver = (handle: object): boolean => {
  const scope = scopeOf(handle)
  return scope?.scopeState?.stack?.includes(scope.scopeId) === false
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
  // A number from libsql, a name from better-sqlite3.
  if (provider === 'sqlite')
    return /^\d+$/.test(code) ? { code: 'SQLITE_ERROR', rawCode: Number(code) } : { code }
  return provider === 'mysql' ? { errno: Number(code), sqlState: '' } : { code, severity: 'ERROR' }
}

const causeOf = (error: unknown): AdapterCause | undefined => {
  const { meta, cause } = (error ?? {}) as PrismaError
  return meta?.driverAdapterError?.cause ?? cause
}

/** libsql's own word, where SQLite would have answered COMMIT with "error": there is no transaction. */
const CLOSED = 'TRANSACTION_CLOSED'

const driverErrorOf = (error: unknown, provider: string | undefined): unknown => {
  if (!(error instanceof Error)) return error
  if ((error as PrismaError).code === CLOSED)
    return Object.assign(new Error(error.message, { cause: error }), membersOf(provider, '1'))
  const cause = causeOf(error)
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

/** Of a statement: SQLite has ended the transaction, or somebody did by hand. The code is only in the text. */
const saysClosed = (error: unknown): boolean =>
  String(causeOf(error)?.originalMessage).startsWith(`${CLOSED}:`)

const send = async (tx: Handle, sql: string, params: readonly SqlValue[]): Promise<Answer> => {
  if (tx._activeProvider === 'mysql' && !/^\s*(?:SELECT|WITH)\b/.test(sql)) {
    const affectedRows: number | undefined = await tx.$executeRawUnsafe(sql, ...params)
    if (affectedRows === undefined) throw new LeftOut()
    return [{ affectedRows }]
  }
  const rows: Answer = await tx.$queryRawUnsafe(sql, ...params)
  if (rows === undefined) throw new LeftOut()
  return rows
}

/** Each time the application would have to send something that fails in the same turn, in front of it. */
const MAX_SENDS = 5

const leftOutEachTime = (): TransactionError =>
  new TransactionError(
    ERROR_CODES.conflict,
    `the event was not stored: Prisma has left a statement of it out ${MAX_SENDS} times, because of others in the same turn ` +
      'that failed. The transaction cannot be committed any more. Await what may fail before you publish.',
  )

/**
 * Again, where Prisma has left the statement out; but not before it is known that there still is a transaction. Where the one
 * that failed has ended it, MySQL would store the statement on its own.
 */
const sendUntilAnswered = async (
  send: () => Promise<Answer>,
  level: Level | undefined,
  ask: (() => Promise<void>) | undefined,
): Promise<Answer> => {
  for (let sends = 1; ; sends++) {
    try {
      return await send()
    } catch (error) {
      if (!(error instanceof LeftOut) || sends === MAX_SENDS) throw error
    }
    if (level?.isUndone === true) throw undoneMeanwhile()
    await ask?.()
  }
}

/**
 * For an engine that is not known. Adapters for MySQL prepare what an application sends, and MySQL prepares no savepoints;
 * so there it is a nested transaction, which those of the application must not meet.
 */
const askByStatements = async (tx: Handle): Promise<void> => {
  if (tx._activeProvider === 'mysql') return await tx.$transaction(async () => undefined)
  for (const statement of PROBES) await sendUntilAnswered(() => send(tx, statement, []), undefined, undefined)
}

/** Its savepoint is refused where SQLite has ended the transaction; what `fn` throws stays as it is. */
const nested = async <T>(tx: Handle, fn: (inner: never) => Promise<T>): Promise<T> => {
  let isInside = false
  try {
    return await tx.$transaction(async (inner) => {
      isInside = true
      const result = await fn(inner)
      isInside = false
      return result
    })
  } catch (error) {
    throw !isInside && saysClosed(error) ? givenUp(error) : error
  }
}

export const prismaTransactions = <Tx extends PrismaTransaction>(
  prisma: PrismaDatabase<Tx>,
  options: PrismaTransactionOptions = {},
): Transactions<Tx, SqlExecutor> => {
  requireMethods('a client of Prisma', prisma, ['$transaction'])
  refuseUnknown('prismaTransactions', options, OPTION_NAMES)
  checkDuration('maxWait', options.maxWait)
  checkDuration('timeout', options.timeout)
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
  const known = running === null ? new StandingDoubt() : doubts
  const subjectOf = (tx: Tx): object => running?.get(idOf(tx)) ?? tx
  /** Prisma closes them when they are asked about, and says from then on only that they are over. */
  const lost = new WeakSet<object>()
  return clientOf<Tx, Level>({
    name: 'prisma',
    doubts: known,
    subjectOf,
    // Its handles are Proxies themselves. They are told apart by the id of their transaction.
    standsFor: (tx) => tx,
    saysEnded,
    timedOut,
    refusesCommit: (error) => saysEnded(error) || error instanceof TransactionError,
    run: (fn) => translating(() => prisma.$transaction(fn, options)),
    nested: (tx, fn) => nested(handleOf(tx), fn),
    probe: async (tx) => {
      try {
        await (running === null ? askByStatements(handleOf(tx)) : running.ask(idOf(tx)))
      } catch (error) {
        if (error instanceof TransactionError) throw error
        if (!saysEnded(error)) lost.add(subjectOf(tx))
        else if (lost.has(subjectOf(tx))) throw givenUp(error)
        throw error
      }
    },
    levelOf: (tx) => {
      if (isOver(tx)) throw transactionOver()
      return running?.nested(idOf(tx))
    },
    async send(tx, sql, params, ask, level) {
      const id = idOf(tx)
      const hadFailures = known.has(subjectOf(tx))
      const sendOnce = (text: string) => translating(() => send(handleOf(tx), text, params))
      try {
        return await sendNumbered(level, sql, (text) => sendUntilAnswered(() => sendOnce(text), level, ask))
      } catch (error) {
        if (error instanceof LeftOut) {
          running?.refuseCommit(id)
          throw leftOutEachTime()
        }
        if (saysEnded(error) && lost.has(subjectOf(tx))) throw givenUp(error)
        if (!saysClosed(error)) throw error
        throw hadFailures ? givenUp(error) : endedBefore(error)
      }
    },
    inTransaction: (handle) => (idOf(handle) === undefined ? false : undefined),
  })
}
