/**
 * `OutboxModule`. It is two modules: an inner one that has the outbox and may be global, and an outer one that starts
 * and closes it. Nest runs the hooks of a module before those of what it imports when it shuts down, and those of
 * global modules last; so the outbox is drained before the database that it was given is closed.
 */
import { type DynamicModule, Module, type Provider } from '@nestjs/common'
import { DiscoveryModule, DiscoveryService } from '@nestjs/core'
import { InvalidOptionError } from '../core/errors.ts'
import { createOutbox } from '../core/outbox.ts'
import { joinAmbient, type TransactionHostLike } from './ambient.ts'
import { OutboxHealth } from './health.ts'
import { OutboxHost } from './host.ts'
import { nestLogger } from './logger.ts'
import type {
  AnyOutbox,
  OutboxModuleAsyncOptions,
  OutboxModuleOptions,
  OutboxModuleSettings,
  OutboxOptionsFactory,
  OutboxSource,
} from './options.ts'
import { DEFAULT_NAME, getOutboxHealthToken, getOutboxToken } from './tokens.ts'

type Factory = Pick<OutboxModuleAsyncOptions, 'inject'> &
  Required<Pick<OutboxModuleAsyncOptions, 'useFactory'>>

const build = (name: string, source: OutboxSource): AnyOutbox =>
  'outbox' in source
    ? source.outbox
    : (createOutbox({ logger: nestLogger(name), ...source } as never) as AnyOutbox)

const factoryOf = ({ inject, useFactory, useClass, useExisting }: OutboxModuleAsyncOptions): Factory => {
  if (useFactory !== undefined) return { inject: inject ?? [], useFactory }
  const token = useExisting ?? useClass
  if (token === undefined) {
    throw new InvalidOptionError('OutboxModule.forRootAsync needs useFactory, useClass or useExisting', {
      option: 'useFactory',
      value: undefined,
    })
  }
  return { inject: [token], useFactory: (factory: OutboxOptionsFactory) => factory.createOutboxOptions() }
}

/** One provider from the options to the outbox: whoever overrides it in a test overrides all of that. */
const outboxProvider = (
  name: string,
  host: OutboxModuleSettings['transactionHost'],
  made: Factory,
): Provider => ({
  provide: getOutboxToken(name),
  inject: [...(host === undefined ? [] : [host]), ...(made.inject ?? [])],
  async useFactory(...injected: unknown[]) {
    const ambient = host === undefined ? null : (injected.shift() as TransactionHostLike)
    const outbox = build(name, await made.useFactory(...injected))
    return ambient === null ? outbox : joinAmbient(outbox, ambient)
  },
})

class OutboxProviders {}
Module({})(OutboxProviders)

const compose = (settings: OutboxModuleSettings, made: Factory, more: readonly Provider[]): DynamicModule => {
  const { name = DEFAULT_NAME, global = true, start = true, transactionHost, imports = [] } = settings
  const token = getOutboxToken(name)
  const health = getOutboxHealthToken(name)
  const providers: DynamicModule = {
    module: OutboxProviders,
    global,
    imports,
    providers: [
      ...more,
      outboxProvider(name, transactionHost, made),
      {
        provide: health,
        inject: [token],
        useFactory: (outbox: AnyOutbox) => new OutboxHealth(outbox, start),
      },
    ],
    exports: [token, health],
  }
  return {
    module: OutboxModule,
    imports: [DiscoveryModule, providers],
    providers: [
      {
        provide: OutboxHost,
        inject: [token, DiscoveryService],
        useFactory: (outbox: AnyOutbox, discovery: DiscoveryService) =>
          new OutboxHost({ name, start, outbox, discovery }),
      },
    ],
    // For those who import the module again because it is not global.
    exports: [providers],
  }
}

// biome-ignore lint/complexity/noStaticOnlyClass: that is what a dynamic module of Nest is.
export class OutboxModule {
  static forRoot(options: OutboxModuleOptions): DynamicModule {
    const { name, global, start, transactionHost, imports, ...source } = options
    return compose(options, { inject: [], useFactory: () => source as OutboxSource }, [])
  }

  static forRootAsync(options: OutboxModuleAsyncOptions): DynamicModule {
    const { useClass } = options
    return compose(options, factoryOf(options), useClass === undefined ? [] : [useClass])
  }
}
// By hand, so that the build needs no decorators.
Module({})(OutboxModule)
