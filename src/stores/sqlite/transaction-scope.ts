/**
 * A handle that lives as long as its transaction. It looks like the application's own handle, but it says so
 * when it is used too late, behind a savepoint's back, or to end the transaction by hand.
 */
import { ERROR_CODES, TransactionError } from '../../core/errors.ts'
import {
  checkScope as checkSqlScope,
  controlRefused,
  type Scope as SqlScope,
} from '../sql/transaction-scope.ts'
import { transactionControl } from './transaction-control.ts'

export interface Scope extends SqlScope {
  readonly isActive: () => boolean
}

export const newScope = (isActive: () => boolean): Scope => ({ ended: false, child: null, isActive })

export const checkScope = (scope: Scope): void => {
  checkSqlScope(scope)
  if (!scope.isActive()) {
    throw new TransactionError(
      ERROR_CODES.commitRolledBack,
      'SQLite has rolled this transaction back because of an earlier error. Let that error out of the function.',
    )
  }
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

/** Statements outlive the call that made them, so they are guarded as well. */
const guardStatement = (statement: object, scope: Scope): object => {
  const proxy: object = new Proxy(statement, {
    get: (target, property) => {
      const value: unknown = Reflect.get(target, property, target)
      if (typeof value !== 'function') return value
      return (...args: unknown[]) => {
        checkScope(scope)
        const result = (value as AnyFunction).apply(target, args)
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
