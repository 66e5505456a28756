/** One function around every method of a store: the network, the observer and the planted defects are such layers. */
import type { Store } from '../src/core/spi/index.ts'

export type Call = (args: readonly unknown[]) => Promise<unknown>

/** `name` is `role.method`, such as `queue.settle`. */
export type Layer = (name: string, args: readonly unknown[], next: Call) => Promise<unknown>

const ROLES = ['lanes', 'queue', 'registry', 'inspection', 'operations', 'maintenance'] as const

export const intercept = <Tx, E>(store: Store<Tx, E>, layer: Layer): Store<Tx, E> => {
  const wrapRole = (role: (typeof ROLES)[number]): Record<string, unknown> => {
    const methods = store[role] as unknown as Record<
      string,
      (...args: readonly unknown[]) => Promise<unknown>
    >
    const wrapped: Record<string, unknown> = {}
    for (const [method, call] of Object.entries(methods)) {
      wrapped[method] = (...args: readonly unknown[]) =>
        layer(`${role}.${method}`, args, (given) => call(...given))
    }
    return wrapped
  }
  const roles = Object.fromEntries(ROLES.map((role) => [role, wrapRole(role)]))
  const { insertSync: _none, ...rest } = store
  return {
    ...rest,
    capabilities: { ...store.capabilities, synchronous: false },
    ...roles,
    insert: (executor: E, request) =>
      layer('insert', [executor, request], (args) =>
        store.insert(args[0] as E, args[1] as typeof request),
      ) as ReturnType<Store<Tx, E>['insert']>,
  } as Store<Tx, E>
}
