/**
 * A handle that lives as long as its transaction. It looks like the application's own connection, but it says so
 * when it is used too late, behind a savepoint's back, or to end the transaction by hand.
 *
 * The server can end a transaction by itself: a deadlock rolls all of it back, and what comes afterwards would be
 * stored statement by statement. So the answers are watched, and nothing goes on once the transaction is gone.
 */
import { ERROR_CODES, TransactionError } from '../../core/errors.ts'
import { checkScope as checkSqlScope, type Scope as SqlScope } from '../sql/transaction-scope.ts'
import { isHeader, type MysqlConnection, saysInTransaction } from './driver.ts'
import { endsTransaction, isBroken } from './errors.ts'
import type { LendingPool } from './lending-pool.ts'
import { isSteering, transactionControl } from './transaction-control.ts'

/** A connection with a transaction on it. */
export interface Open {
  readonly connection: MysqlConnection
  /** Where the connection is given back to; null if it is the application's. */
  readonly pool: LendingPool | null
  broken: boolean
  /** The server has ended the transaction by itself. */
  gone: 'rolledBack' | 'committed' | null
}

export interface Scope extends SqlScope {
  readonly open: Open
}

export const newScope = (open: Open): Scope => ({ open, ended: false, child: null })

/** What the transaction has come to, if the server has ended it; for COMMIT and for whoever goes on. */
export const goneError = (open: Open): TransactionError | null => {
  if (open.gone === 'rolledBack') {
    return new TransactionError(
      ERROR_CODES.commitRolledBack,
      'The server has rolled this transaction back because of an earlier error, so nothing of it was stored. Let that error out of the function, and try all of it again.',
    )
  }
  if (open.gone === 'committed') {
    return new TransactionError(
      ERROR_CODES.transactionEnded,
      'A statement has committed this transaction before its end, as changes of tables do on MySQL. What came before it is stored.',
    )
  }
  return null
}

export const checkScope = (scope: Scope): void => {
  checkSqlScope(scope)
  const gone = goneError(scope.open)
  if (gone !== null) throw gone
}

/** A procedure answers with its rows and how it ended, several statements with an answer each; the last one counts. */
const lastOf = (answer: unknown): unknown => (Array.isArray(answer) ? answer.at(-1) : answer)

/** Learns from an answer, or from an error, what became of the transaction; hands both on. */
export const watched = async <T>(open: Open, work: Promise<T>): Promise<T> => {
  try {
    const result = await work
    const answer = lastOf(Array.isArray(result) ? result[0] : result)
    if (isHeader(answer) && !saysInTransaction(answer)) open.gone ??= 'committed'
    return result
  } catch (error) {
    if (endsTransaction(error)) open.gone ??= 'rolledBack'
    if (isBroken(error)) open.broken = true
    throw error
  }
}

const textOf = (query: unknown): unknown =>
  typeof query === 'object' && query !== null ? (query as { readonly sql?: unknown }).sql : query

const refuseControl = (query: unknown): void => {
  const text = textOf(query)
  const keyword = typeof text === 'string' ? transactionControl(text) : null
  if (keyword === null) return
  throw new TransactionError(
    ERROR_CODES.conflict,
    isSteering(keyword)
      ? `${keyword} ends the transaction, or begins another, and is not allowed inside outbox.transaction: throw to roll back, and nest outbox.transaction for a savepoint.`
      : `${keyword} commits the open transaction on MySQL. Run it before, outside of outbox.transaction.`,
    { keyword },
  )
}

/** Members that would end the transaction or pull the connection away. */
const FORBIDDEN = new Set([
  'beginTransaction',
  'commit',
  'rollback',
  'release',
  'end',
  'close',
  'destroy',
  'changeUser',
  'reset',
])

type AnyFunction = (...args: unknown[]) => unknown

export const guardHandle = <Handle extends object>(handle: Handle, scope: Scope): Handle =>
  new Proxy(handle, {
    get: (target, property) => {
      const value: unknown = Reflect.get(target, property, target)
      if (typeof value !== 'function' || property === 'constructor') return value
      return (...args: unknown[]) => {
        checkScope(scope)
        const name = String(property)
        if (FORBIDDEN.has(name)) {
          throw new TransactionError(
            ERROR_CODES.conflict,
            `${name}() is not allowed inside outbox.transaction: throw to roll back; the connection goes back by itself.`,
          )
        }
        if (name !== 'query' && name !== 'execute') return (value as AnyFunction).apply(target, args)
        refuseControl(args[0])
        return watched(scope.open, (value as AnyFunction).apply(target, args) as Promise<unknown>)
      }
    },
  })
