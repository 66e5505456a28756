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

/** What the transaction has to do with the application's statements. */
export interface Statements {
  /** Sends what must be there first. */
  before(): void
  /** Why that has failed; null if it has not. */
  failure(): unknown
}

/** A statement behind one of ours that failed is only told that the transaction has: its user should hear why. */
const explained = (answer: unknown, { failure }: Statements): unknown =>
  answer instanceof Promise
    ? answer.catch((error: unknown) => {
        throw failure() ?? error
      })
    : answer

const callOn = (
  target: object,
  scope: Scope,
  statements: Statements,
  name: string,
  fn: AnyFunction,
): AnyFunction => {
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
    if (!isQuery) return fn.apply(target, args)
    refuseControl(args[0])
    statements.before()
    return explained(fn.apply(target, args), statements)
  }
}

export const guardHandle = <Handle extends object>(
  handle: Handle,
  scope: Scope,
  statements: Statements,
): Handle =>
  new Proxy(handle, {
    get: (target, property) => {
      const value: unknown = Reflect.get(target, property, target)
      if (typeof value !== 'function' || property === 'constructor') return value
      return callOn(target, scope, statements, String(property), value as AnyFunction)
    },
  })
