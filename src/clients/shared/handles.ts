/** Plain JavaScript, and every `as any`, can hand over anything. That is said at once, not at the first transaction. */
import { isProxy } from 'node:util/types'
import { ERROR_CODES, StoreError, TransactionError } from '../../core/errors.ts'

export const isObject = (value: unknown): value is object =>
  (typeof value === 'object' && value !== null) || typeof value === 'function'

/** Refuses what does not have these methods. */
export const requireMethods = (what: string, handle: unknown, methods: readonly string[]): void => {
  const members = (isObject(handle) ? handle : {}) as Readonly<Record<string, unknown>>
  const missing = methods.find((name) => typeof members[name] !== 'function')
  if (missing === undefined) return
  throw new StoreError(ERROR_CODES.unsupported, `This is not ${what}: it has no method ${missing}.`)
}

/**
 * A Proxy may be one object for the transactions of all requests. What is remembered of a transaction by its handle would
 * then be another's, and an event would end with a transaction that it is not part of.
 */
export const requireOneTransaction = (library: string, handle: object): void => {
  if (!isProxy(handle)) return
  throw new TransactionError(
    ERROR_CODES.unsupported,
    `this handle is a Proxy, which ${library} does not make: one object may stand for the transactions of all requests, as ` +
      'that of @InjectTransaction() in @nestjs-cls/transactional does, and nobody could tell to which of them the event ' +
      'belongs. Give publish the handle itself, there txHost.tx, or none where the outbox knows the transactionHost.',
    { library },
  )
}
