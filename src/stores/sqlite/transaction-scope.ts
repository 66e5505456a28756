/**
 * A handle that lives as long as its transaction. It looks like the application's own handle, but it says so
 * when it is used too late, behind a savepoint's back, or to end the transaction by hand.
 */
import { ERROR_CODES, TransactionError } from '../../core/errors.ts'
import {
  checkScope as checkSqlScope,
  controlRefused,
  type Scope as SqlScope,
  transactionOver,
} from '../sql/transaction-scope.ts'
import { OpenIterators } from './open-iterators.ts'
import { transactionControl } from './transaction-control.ts'

/** What all handles of one transaction share. */
interface Shared {
  readonly isActive: () => boolean
  readonly iterators: OpenIterators
  /** A savepoint could not be undone, so what it wrote must not be committed. */
  isSpoilt: boolean
}

export interface Scope extends SqlScope {
  readonly shared: Shared
}

export const newScope = (isActive: () => boolean): Scope =>
  scopeOf({ isActive, iterators: new OpenIterators(), isSpoilt: false })

export const nestedScope = ({ shared }: Scope): Scope => scopeOf(shared)

const scopeOf = (shared: Shared): Scope => ({ ended: false, child: null, shared })

/** What was begun in it may go on, also while a nested one is open. */
export const checkUsable = (scope: Scope): void => {
  if (scope.ended) throw transactionOver()
  if (!scope.shared.isActive()) {
    throw new TransactionError(
      ERROR_CODES.commitRolledBack,
      'SQLite has rolled this transaction back because of an earlier error. Let that error out of the function.',
    )
  }
}

export const checkScope = (scope: Scope): void => {
  checkSqlScope(scope)
  checkUsable(scope)
}

const refuseControl = (sql: unknown): void => {
  const keyword = typeof sql === 'string' ? transactionControl(sql) : null
  if (keyword === null) return
  throw controlRefused(keyword)
}

/** Members that would begin transactions of their own, or pull the connection away. */
const FORBIDDEN = new Set(['transaction', 'close', 'sync', 'syncUntil'])

const CHECKS_SQL = new Set(['exec', 'prepare', 'pragma'])

type AnyFunction = (...args: unknown[]) => unknown

const guardIterator = (iterator: Iterator<unknown>, scope: Scope): object =>
  scope.shared.iterators.guard(iterator, scope, () => checkUsable(scope))

/** Statements outlive the call that made them, so they are guarded as well. */
const guardStatement = (statement: object, scope: Scope): object => {
  const proxy: object = new Proxy(statement, {
    get: (target, property) => {
      const value: unknown = Reflect.get(target, property, target)
      if (typeof value !== 'function') return value
      return (...args: unknown[]) => {
        checkScope(scope)
        const result = (value as AnyFunction).apply(target, args)
        if (property === 'iterate') return guardIterator(result as Iterator<unknown>, scope)
        // Settings such as raw() return the statement itself; the chain must stay guarded.
        return result === target ? proxy : result
      }
    },
  })
  return proxy
}

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
            `${name}() is not allowed inside outbox.transaction; nest outbox.transaction for a savepoint.`,
          )
        }
        if (CHECKS_SQL.has(name)) refuseControl(args[0])
        const result = (value as AnyFunction).apply(target, args)
        if (result === target) return guardHandle(target, scope)
        return name === 'prepare' && typeof result === 'object' && result !== null
          ? guardStatement(result, scope)
          : result
      }
    },
  })
