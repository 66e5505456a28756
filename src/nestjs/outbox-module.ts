/**
 * `OutboxModule`. It is two modules: an inner one that has the outbox and may be global, and an outer one that starts
 * and closes it. Nest runs the hooks of a module before those of what it imports when it shuts down, and those of
 * global modules last; so the outbox is drained before the database that it was given is closed.
 */
import { type DynamicModule, Inject, Module, type OnModuleInit, type Provider } from '@nestjs/common'
import { DiscoveryModule, DiscoveryService } from '@nestjs/core'
import { checkMethods } from '../core/check-options.ts'
import { InvalidOptionError } from '../core/errors.ts'
import { refuseUnknown, shownWithKind } from '../core/model/index.ts'
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
import { DEFAULT_NAME, getOutboxHealthToken, getOutboxToken, nameInToken } from './tokens.ts'

type Factory = Pick<OutboxModuleAsyncOptions, 'inject'> &
  Required<Pick<OutboxModuleAsyncOptions, 'useFactory'>>

/** Read as an object from here on; Nest itself would fail with what JavaScript says of its absence. */
const requireObject = (at: string, given: unknown, verb: string, such: string): void => {
  if (typeof given === 'object' && given !== null && !Array.isArray(given)) return
  throw new InvalidOptionError(`${at}, such as ${such}; it ${verb} ${shownWithKind(given)}`, {
    option: 'options',
    value: given,
  })
}

const SOURCE = '{ store: postgresStore(…) }, or { outbox } with one that createOutbox made'

const build = (name: string, source: OutboxSource): AnyOutbox => {
  if (!('outbox' in source))
    return createOutbox({ logger: nestLogger(name), ...source } as never) as AnyOutbox
  // Everything else was said when it was made.
  refuseUnknown('OutboxModule with an outbox', source, new Set(['outbox']))
  checkMethods('outbox', source.outbox, 'an outbox that createOutbox made', ['on', 'start', 'close'])
  return source.outbox
}

/** As an object, so that the compiler misses none when an option is added. */
const ASYNC_NAMES: ReadonlySet<string> = new Set(
  Object.keys({
    name: true,
    global: true,
    start: true,
    transactionHost: true,
    imports: true,
    inject: true,
    useFactory: true,
    useClass: true,
    useExisting: true,
  } satisfies Record<keyof OutboxModuleAsyncOptions, true>),
)

const factoryOf = ({ inject, useFactory, useClass, useExisting }: OutboxModuleAsyncOptions): Factory => {
  if (useFactory !== undefined) return { inject: inject ?? [], useFactory }
  const token = useExisting ?? useClass
  if (token === undefined) {
    throw new InvalidOptionError('OutboxModule.forRootAsync needs useFactory, useClass or useExisting', {
      option: 'useFactory',
      value: undefined,
    })
  }
  const useMethod = (
    factory: OutboxOptionsFactory,
  ): ReturnType<OutboxOptionsFactory['createOutboxOptions']> => {
    const option = useExisting === undefined ? 'useClass' : 'useExisting'
    checkMethods(option, factory, 'a provider that implements OutboxOptionsFactory', ['createOutboxOptions'])
    return factory.createOutboxOptions()
  }
  return { inject: [token], useFactory: useMethod }
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
    const source: unknown = await made.useFactory(...injected)
    requireObject('what OutboxModule.forRootAsync is given must return options', source, 'returned', SOURCE)
    const outbox = build(name, source as OutboxSource)
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
    imports: [providers],
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

export class OutboxModule implements OnModuleInit {
  readonly #discovery: DiscoveryService

  constructor(discovery: DiscoveryService) {
    this.#discovery = discovery
  }

  /** By itself it has no outbox. Beside one of forRoot it changes nothing, so that is allowed. */
  onModuleInit(): void {
    if (this.#discovery.getProviders().some(({ token }) => nameInToken(token) !== null)) return
    throw new InvalidOptionError(
      `imports has OutboxModule, and no outbox: import OutboxModule.forRoot(…) with ${SOURCE}, or OutboxModule.forRootAsync(…)`,
      { option: 'imports', value: undefined },
    )
  }

  static forRoot(options: OutboxModuleOptions): DynamicModule {
    requireObject('OutboxModule.forRoot takes an object', options, 'got', SOURCE)
    const { name, global, start, transactionHost, imports, ...source } = options
    return compose(options, { inject: [], useFactory: () => source as OutboxSource }, [])
  }

  static forRootAsync(options: OutboxModuleAsyncOptions): DynamicModule {
    requireObject(
      'OutboxModule.forRootAsync takes an object',
      options,
      'got',
      '{ useFactory: () => ({ store: … }) }',
    )
    refuseUnknown('OutboxModule.forRootAsync', options, ASYNC_NAMES)
    const { useClass } = options
    return compose(options, factoryOf(options), useClass === undefined ? [] : [useClass])
  }
}
// By hand, so that the build needs no decorators.
Inject(DiscoveryService)(OutboxModule, undefined, 0)
Module({ imports: [DiscoveryModule] })(OutboxModule)
