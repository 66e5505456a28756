/** Finds the methods that `@OnOutboxEvent` marks, in all providers and controllers of the application. */
import { ContextIdFactory, type DiscoveryService, ModuleRef } from '@nestjs/core'
import type { Listener } from '../core/listeners.ts'
import { type Declared, declaredBy } from './on-outbox-event.ts'

export interface Found extends Declared {
  readonly listener: Listener
}

type Wrapper = ReturnType<DiscoveryService['getProviders']>[number]
type Methods = Readonly<Record<string | symbol, Listener>>

/** Named methods are looked up at every call, so that a test can put a spy in their place. */
const call = (instance: object, name: string | symbol, ...[event, context]: Parameters<Listener>): unknown =>
  (instance as Methods)[name]?.(event, context)

/** An instance per event, in a context of its own; whoever injects REQUEST gets the event. */
const resolving = (wrapper: Wrapper, name: string | symbol): Listener => {
  const moduleRef = wrapper.host?.getProviderByKey<ModuleRef>(ModuleRef).instance as ModuleRef
  return async (event, context) => {
    const contextId = ContextIdFactory.create()
    moduleRef.registerRequestByContextId(event, contextId)
    const instance = await moduleRef.resolve<object>(wrapper.token as string, contextId)
    return await call(instance, name, event, context)
  }
}

const listenerOf = (wrapper: Wrapper, instance: object, name: string | symbol): Listener =>
  wrapper.isDependencyTreeStatic() && !wrapper.isTransient
    ? (event, context) => call(instance, name, event, context)
    : resolving(wrapper, name)

export const findListeners = (discovery: DiscoveryService): readonly Found[] => {
  const seen = new Set<object>()
  return [...discovery.getProviders(), ...discovery.getControllers()].flatMap((wrapper) => {
    // Of a provider with a scope it is an empty object with the prototype of its class.
    const instance: unknown = wrapper.instance
    if (typeof instance !== 'object' || instance === null) return []
    // A second name for the same provider does not make it hear twice.
    if (wrapper.isAlias || seen.has(instance)) return []
    seen.add(instance)
    return [...declaredBy(instance)].flatMap(([name, declared]) =>
      declared.map((one) => ({ ...one, listener: listenerOf(wrapper, instance, name) })),
    )
  })
}
