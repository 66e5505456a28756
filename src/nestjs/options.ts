/** What an application says to `OutboxModule`. */
import type { InjectionToken, ModuleMetadata, OptionalFactoryDependency, Type } from '@nestjs/common'
import type { OutboxOptions } from '../core/options.ts'
import type { Outbox } from '../core/outbox-api.ts'
import type { Store } from '../core/spi/index.ts'

// Nest does not carry types through injection: whoever injects an outbox says what its transactions are.
// biome-ignore lint/suspicious/noExplicitAny: see above.
type Any = any

export type AnyOutbox = Outbox<Any, Any, Any>

/** Options of `createOutbox`, or an outbox that it made. */
export type OutboxSource =
  | (Omit<OutboxOptions<Any, Any>, 'store'> & { readonly store: Omit<Store<Any, Any>, 'transactions'> })
  | { readonly outbox: AnyOutbox }

export interface OutboxModuleSettings {
  /** Needed for a second outbox: `@InjectOutbox(name)`, `@OnOutboxEvent(event, { outbox: name })`. */
  readonly name?: string
  /** Injectable everywhere without importing the module again. Default true. */
  readonly global?: boolean
  /** Deliver in this process from the bootstrap on. Default true; `false` for one that only publishes. */
  readonly start?: boolean
  /** `TransactionHost` of @nestjs-cls/transactional: `publish(event)` without a handle joins its transaction. */
  readonly transactionHost?: InjectionToken
  /** Modules that export what is injected here. */
  readonly imports?: ModuleMetadata['imports']
}

export type OutboxModuleOptions = OutboxModuleSettings & OutboxSource

/** For `useClass` and `useExisting`. */
export interface OutboxOptionsFactory {
  createOutboxOptions(): OutboxSource | Promise<OutboxSource>
}

export interface OutboxModuleAsyncOptions extends OutboxModuleSettings {
  readonly inject?: readonly (InjectionToken | OptionalFactoryDependency)[]
  readonly useFactory?: (...injected: Any[]) => OutboxSource | Promise<OutboxSource>
  readonly useClass?: Type<OutboxOptionsFactory>
  readonly useExisting?: InjectionToken<OutboxOptionsFactory>
}
