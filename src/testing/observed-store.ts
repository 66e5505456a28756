/**
 * The same store, with somebody watching: told after every call and every transaction, and of what a settle
 * wrote. Signals of tests come from here, because the database is where things become true.
 */
import type { OpenTransaction, SettleRequest, SettleResult, Store, Transactions } from '../core/spi/index.ts'
import { later, soon } from './real-timers.ts'

export interface StoreObserver {
  /** A call begins. */
  called?(call: string): void
  /** Calls of the store, or transactions, ended; `queue.read`, `transactions.run`, … Each once for several in a row. */
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

/** Who looks at what changed, and looks again because somebody has looked, need not do nothing else. */
const LOOK_AGAIN_MS = 5

/**
 * Not before whoever called has seen the answer himself; and all in one, because whoever is told may call again: two
 * calls for each that ended would be more in every turn, until no other turn comes.
 */
const gathered = (
  observer: StoreObserver,
  schedule: (tell: () => void) => void,
): ((call: string) => void) => {
  const calls = new Set<string>()
  const tell = (): void => {
    const told = [...calls]
    calls.clear()
    for (const call of told) observer.changed(call)
  }
  return (call) => {
    if (calls.size === 0) schedule(tell)
    calls.add(call)
  }
}

const ROLES = new Set(['lanes', 'queue', 'registry', 'operations', 'maintenance', 'inspection'])

/** Works for any store, whatever it is made of. */
export const observeStore = <S extends object>(store: S, observer: StoreObserver): S => {
  const changed = gathered(observer, (tell) => soon(tell))
  const looked = gathered(observer, (tell) => later(tell, LOOK_AGAIN_MS))
  const ended = (call: string): void => (call.startsWith('inspection.') ? looked : changed)(call)
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
