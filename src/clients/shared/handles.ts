/** Plain JavaScript, and every `as any`, can hand over anything. That is said at once, not at the first transaction. */
import { ERROR_CODES, StoreError } from '../../core/errors.ts'

export const isObject = (value: unknown): value is object =>
  (typeof value === 'object' && value !== null) || typeof value === 'function'

/** Refuses what does not have these methods. */
export const requireMethods = (what: string, handle: unknown, methods: readonly string[]): void => {
  const members = (isObject(handle) ? handle : {}) as Readonly<Record<string, unknown>>
  const missing = methods.find((name) => typeof members[name] !== 'function')
  if (missing === undefined) return
  throw new StoreError(ERROR_CODES.unsupported, `This is not ${what}: it has no method ${missing}.`)
}
