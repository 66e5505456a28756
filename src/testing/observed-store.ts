/**
 * The same store, with somebody watching: told after every call and every transaction, and of what a settle
 * wrote. Signals of tests come from here, because the database is where things become true.
 */
import type { OpenTransaction, SettleRequest, SettleResult, Store, Transactions } from '../core/spi/index.ts'
import { soon } from './real-timers.ts'

export interface StoreObserver {
  /** A call begins. */
  called?(call: string): void
  /** A call of the store, or a transaction, ended; `queue.read`, `transactions.run`, … */
  changed(call: string): void
  settled?(request: SettleRequest, result: SettleResult): void
}

/** A copy of nothing: reads go to `target`, except for what `replace` has. Private fields stay reachable. */
const over = <T extends object>(target: T, replace: (name: string, value: unknown) => unknown): T => {
  const replaced = new Map<string | symbol, unknown>()
  // Before an empty object, because a frozen target would have to be answered with its own values.
  return new Proxy(Object.create(target) as T, {
    get(_, name) {
      if (replaced.has(name)) return replaced.get(name)
      const value: unknown = Reflect.get(target, name, target)
      const answer = typeof name === 'string' ? replace(name, value) : value
      const kept = typeof answer === 'function' && answer === value ? answer.bind(target) : answer
      replaced.set(name, kept)
      return kept
    },
  })
}

const observedRole = <T extends object>(
  prefix: string,
  role: T,
  observer: StoreObserver,
  ended: (call: string) => void,
): T =>
  over(role, (name, method) => {
    if (typeof method !== 'function') return method
    return (...args: unknown[]): unknown => {
      observer.called?.(`${prefix}.${name}`)
      const answer: unknown = Reflect.apply(method, role, args)
      return answer instanceof Promise ? answer.finally(() => ended(`${prefix}.${name}`)) : answer
    }
  })

const observedTransactions = <Tx, E>(
  transactions: Transactions<Tx, E>,
  ended: (call: string) => void,
): Transactions<Tx, E> =>
  over(transactions, (name, value) => {
    if (name === 'run') {
      const run: Transactions<Tx, E>['run'] = (fn) =>
        transactions.run(fn).finally(() => ended('transactions.run'))
      return run
    }
    if (name !== 'begin' || value === undefined) return value
    return async (): Promise<OpenTransaction<Tx>> => {
      const open = await (transactions.begin?.() as Promise<OpenTransaction<Tx>>)
      return {
        tx: open.tx,
        commit: () => open.commit().finally(() => ended('transactions.commit')),
        rollback: () => open.rollback().finally(() => ended('transactions.rollback')),
      }
    }
  })

const ROLES = new Set(['lanes', 'queue', 'registry', 'operations', 'maintenance', 'inspection'])

/** Works for any store, whatever it is made of. */
export const observeStore = <S extends object>(store: S, observer: StoreObserver): S => {
  // Not before whoever called has seen the answer himself.
  const ended = (call: string): void => void soon(() => observer.changed(call))
  return over(store, (name, value) => {
    if (name === 'transactions') return observedTransactions(value as Store['transactions'], ended)
    if (!ROLES.has(name)) return value
    const role = observedRole(name, value as object, observer, ended)
    if (name !== 'queue') return role
    const { settle } = role as Store['queue']
    return over(role, (method, original) => {
      if (method !== 'settle') return original
      return async (request: SettleRequest): Promise<SettleResult> => {
        const result = await settle(request)
        observer.settled?.(request, result)
        return result
      }
    })
  })
}
