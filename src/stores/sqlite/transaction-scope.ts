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
  readonly inTransaction: () => boolean
  /** It ended without us, so what the connection is in since then is somebody else's. */
  hasEnded: boolean
  readonly iterators: OpenIterators
  /** A savepoint could not be undone, so what it wrote must not be committed. */
  isSpoilt: boolean
}

export interface Scope extends SqlScope {
  readonly shared: Shared
}

export const newScope = (inTransaction: () => boolean): Scope =>
  scopeOf({ inTransaction, hasEnded: false, iterators: new OpenIterators(), isSpoilt: false })

export const nestedScope = ({ shared }: Scope): Scope => scopeOf(shared)

const scopeOf = (shared: Shared): Scope => ({ ended: false, child: null, shared })

/**
 * Whether SQLite or somebody else has ended the transaction. Asked after everything that is sent through us, thrown or not,
 * and remembered: once another one has begun on the connection nobody could tell any more.
 */
export const isLost = ({ shared }: Scope): boolean => {
  shared.hasEnded ||= !shared.inTransaction()
  return shared.hasEnded
}

/** What was begun in it may go on, also while a nested one is open. */
export const checkUsable = (scope: Scope): void => {
  if (scope.ended) throw transactionOver()
  if (isLost(scope)) {
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

const observed = <T>(scope: Scope, call: () => T): T => {
  try {
    return call()
  } finally {
    isLost(scope)
  }
}

/** Sends something on the connection of the transaction. */
export const useScope = <T>(scope: Scope, call: () => T): T => {
  checkScope(scope)
  return observed(scope, call)
}

const refuseControl = (sql: unknown): void => {
  const keyword = typeof sql === 'string' ? transactionControl(sql) : null
  if (keyword === null) return
  throw controlRefused(keyword)
}

const NEST = 'nest outbox.transaction for a savepoint'

/** Members that would begin or end transactions unseen, or pull the connection away, and what to do instead. */
const FORBIDDEN: ReadonlyMap<string, string> = new Map([
  ['transaction', NEST],
  ['close', NEST],
  ['sync', NEST],
  ['syncUntil', NEST],
  ['createTagStore', 'use prepare()'],
])

const CHECKS_SQL = new Set(['exec', 'prepare', 'pragma'])

type AnyFunction = (...args: unknown[]) => unknown

const guardIterator = (iterator: Iterator<unknown>, scope: Scope): object =>
  scope.shared.iterators.guard(iterator, scope, (call) => {
    checkUsable(scope)
    return observed(scope, call)
  })

/** Statements outlive the call that made them, so they are guarded as well. */
const guardStatement = (statement: object, scope: Scope): object => {
  const proxy: object = new Proxy(statement, {
    get: (target, property) => {
      const value: unknown = Reflect.get(target, property, target)
      if (typeof value !== 'function') return value
      return (...args: unknown[]) => {
        const result = useScope(scope, () => (value as AnyFunction).apply(target, args))
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
        const advice = FORBIDDEN.get(name)
        if (advice !== undefined) {
          throw new TransactionError(
            ERROR_CODES.conflict,
            `${name}() is not allowed inside outbox.transaction; ${advice}.`,
          )
        }
        if (CHECKS_SQL.has(name)) refuseControl(args[0])
        const result = observed(scope, () => (value as AnyFunction).apply(target, args))
        if (result === target) return guardHandle(target, scope)
        return name === 'prepare' && typeof result === 'object' && result !== null
          ? guardStatement(result, scope)
          : result
      }
    },
  })
