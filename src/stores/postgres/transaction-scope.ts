/**
 * A handle that lives as long as its transaction. It looks like the application's own client, but it says so
 * when it is used too late, behind a savepoint's back, or to end the transaction by hand.
 */
import { ERROR_CODES, TransactionError } from '../../core/errors.ts'
import { checkScope, controlRefused, type Scope } from '../sql/transaction-scope.ts'
import { transactionControl } from './transaction-control.ts'

const textOf = (query: unknown): unknown =>
  typeof query === 'object' && query !== null ? (query as { readonly text?: unknown }).text : query

const refuseControl = (query: unknown): void => {
  const text = textOf(query)
  const keyword = typeof text === 'string' ? transactionControl(text) : null
  if (keyword === null) return
  throw controlRefused(keyword)
}

/** Members that would pull the connection away. */
const FORBIDDEN = new Set(['release', 'end', 'connect'])

type AnyFunction = (...args: unknown[]) => unknown

const callOn = (target: object, scope: Scope, name: string, fn: AnyFunction): AnyFunction => {
  const isForbidden = FORBIDDEN.has(name)
  const isQuery = name === 'query'
  return (...args) => {
    checkScope(scope)
    if (isForbidden) {
      throw new TransactionError(
        ERROR_CODES.conflict,
        `${name}() is not allowed inside outbox.transaction: the connection goes back by itself.`,
      )
    }
    if (isQuery) refuseControl(args[0])
    return fn.apply(target, args)
  }
}

export const guardHandle = <Handle extends object>(handle: Handle, scope: Scope): Handle =>
  new Proxy(handle, {
    get: (target, property) => {
      const value: unknown = Reflect.get(target, property, target)
      if (typeof value !== 'function' || property === 'constructor') return value
      return callOn(target, scope, String(property), value as AnyFunction)
    },
  })
