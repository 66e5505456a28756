/**
 * A handle that lives as long as its transaction. It looks like the application's own client, but it says so
 * when it is used too late, behind a savepoint's back, or to end the transaction by hand.
 */
import { ERROR_CODES, TransactionError } from '../../core/errors.ts'
import { checkScope, controlRefused, type Scope } from '../sql/transaction-scope.ts'
import { isTimeout } from './errors.ts'
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

/** Members that send nothing by themselves, or what we see. A function that returns its handle is asked for `then`. */
const UNSENDING: ReadonlySet<string | symbol> = new Set(['query', 'then', 'constructor', Symbol.toStringTag])

type AnyFunction = (...args: unknown[]) => unknown

/** What the transaction has to do with the application's statements. */
export interface Statements {
  /** Sends what must be there first, and then the statement: by `call`, or together. */
  apply(args: readonly unknown[], call: () => unknown): unknown
  /** Sends what must be there first. */
  overtake(): void
  /** Why that has failed; null if it has not. */
  readonly failure: unknown
}

/** A statement behind one of ours that failed is only told that the transaction has: its user should hear why. */
const explained = (answer: unknown, statements: Statements): unknown =>
  answer instanceof Promise
    ? answer.catch((error: unknown) => {
        throw isTimeout(error) ? error : (statements.failure ?? error)
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
    const call = (): unknown => fn.apply(target, args)
    return explained(statements.apply(args, call), statements)
  }
}

export const guardHandle = <Handle extends object>(
  handle: Handle,
  scope: Scope,
  statements: Statements,
): Handle =>
  new Proxy(handle, {
    get: (target, property) => {
      // Who looks deeper may reach the server by other ways.
      if (!UNSENDING.has(property)) statements.overtake()
      const value: unknown = Reflect.get(target, property, target)
      if (typeof value !== 'function' || property === 'constructor') return value
      return callOn(target, scope, statements, String(property), value as AnyFunction)
    },
  })
