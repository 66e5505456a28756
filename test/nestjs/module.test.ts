/** `OutboxModule` in real applications: who gets which outbox, and what lives how long. */
import { Controller, Inject, Injectable, Module, type OnApplicationShutdown, Post } from '@nestjs/common'
import { afterEach, describe, expect, it } from 'vitest'
import { createOutbox, type Outbox } from '../../src/index.ts'
import {
  getOutboxToken,
  InjectOutbox,
  OnOutboxEvent,
  OutboxModule,
  type OutboxOptionsFactory,
} from '../../src/nestjs/index.ts'
import { type SqliteHandle, sqliteStore } from '../../src/stores/sqlite/index.ts'
import { memoryStore } from '../../src/testing/index.ts'
import { testFolder } from '../stores/sqlite-files.ts'
import { closeAll, Heard, listen, provided, start } from './application.ts'

const folders: ReturnType<typeof testFolder>[] = []

afterEach(async () => {
  await closeAll()
  for (const folder of folders.splice(0)) folder.remove()
})

const newFile = (): string => {
  const folder = testFolder()
  folders.push(folder)
  return folder.file
}

type AnyOutbox = Outbox<never>
const outboxOf = (app: Parameters<typeof provided>[0], name?: string): AnyOutbox =>
  provided<AnyOutbox>(app, getOutboxToken(name) as string)

const publish = (outbox: AnyOutbox, type: string) =>
  outbox.transaction((tx) => outbox.publish(tx, { type, payload: {} }))

@Injectable()
class Audit extends Heard {
  @OnOutboxEvent('*')
  hear(event: Parameters<Heard['add']>[0]): void {
    this.add(event)
  }
}

describe('an application on SQLite', () => {
  it('delivers what a request published, and its data are there', async () => {
    const file = newFile()

    @Controller('orders')
    class Orders {
      constructor(@InjectOutbox() private readonly outbox: Outbox<SqliteHandle>) {}

      @Post()
      async place(): Promise<{ id: string }> {
        return await this.outbox.transaction(async (tx) => {
          tx.exec('CREATE TABLE IF NOT EXISTS orders (id TEXT)')
          tx.exec("INSERT INTO orders VALUES ('o-1')")
          return { id: await this.outbox.publish(tx, { type: 'order.placed', payload: { id: 'o-1' } }) }
        })
      }
    }

    const { app, post } = await listen({
      imports: [OutboxModule.forRoot({ store: sqliteStore({ file, driver: 'libsql' }) })],
      controllers: [Orders],
      providers: [Audit],
    })
    const { status, body } = await post('/orders')
    expect(status).toBe(201)
    const [event] = await provided<Audit>(app, Audit).count(1)
    expect(event?.id).toBe((body as { id: string }).id)
    expect(event?.payload).toEqual({ id: 'o-1' })
  })
})

describe('where the options come from', () => {
  const CONFIG = 'CONFIG'

  @Module({ providers: [{ provide: CONFIG, useValue: { drainMs: 7 } }], exports: [CONFIG] })
  class ConfigModule {}

  @Injectable()
  class OutboxConfig implements OutboxOptionsFactory {
    constructor(@Inject(CONFIG) readonly config: { drainMs: number }) {}

    createOutboxOptions() {
      return { store: memoryStore(), drainMs: this.config.drainMs }
    }
  }

  @Module({ imports: [ConfigModule], providers: [OutboxConfig], exports: [OutboxConfig] })
  class OutboxConfigModule {}

  it.each([
    ['forRoot', () => OutboxModule.forRoot({ store: memoryStore() })],
    [
      'forRoot with an outbox',
      () => OutboxModule.forRoot({ outbox: createOutbox({ store: memoryStore() }) }),
    ],
    [
      'useFactory',
      () =>
        OutboxModule.forRootAsync({
          imports: [ConfigModule],
          inject: [CONFIG],
          useFactory: async ({ drainMs }: { drainMs: number }) => ({ store: memoryStore(), drainMs }),
        }),
    ],
    ['useClass', () => OutboxModule.forRootAsync({ imports: [ConfigModule], useClass: OutboxConfig })],
    [
      'useExisting',
      () => OutboxModule.forRootAsync({ imports: [OutboxConfigModule], useExisting: OutboxConfig }),
    ],
  ])('%s', async (_, module) => {
    const app = await start({ imports: [module()], providers: [Audit] })
    await publish(outboxOf(app), 'a.b')
    await provided<Audit>(app, Audit).count(1)
  })

  it('nowhere is refused', () => {
    expect(() => OutboxModule.forRootAsync({})).toThrow('useFactory, useClass or useExisting')
  })

  it('an option that does not exist is refused, as by createOutbox', async () => {
    const options = { store: memoryStore(), drainMilliseconds: 1 }
    await expect(start({ imports: [OutboxModule.forRoot(options)] })).rejects.toThrow('drainMs')
  })
})

describe('several outboxes', () => {
  it('have names, and listeners of their own', async () => {
    class Both {
      readonly shop = new Heard()
      readonly billing = new Heard()

      @OnOutboxEvent('*')
      first(event: Parameters<Heard['add']>[0]): void {
        this.shop.add(event)
      }

      @OnOutboxEvent('*', { outbox: 'billing' })
      second(event: Parameters<Heard['add']>[0]): void {
        this.billing.add(event)
      }
    }
    const app = await start({
      imports: [
        OutboxModule.forRoot({ store: memoryStore() }),
        OutboxModule.forRoot({ name: 'billing', store: memoryStore() }),
      ],
      providers: [Both],
    })
    await publish(outboxOf(app), 'order.placed')
    await publish(outboxOf(app, 'billing'), 'invoice.sent')
    const { shop, billing } = provided<Both>(app, Both)
    await Promise.all([shop.count(1), billing.count(1)])
    expect([shop.types, billing.types]).toEqual([['order.placed'], ['invoice.sent']])
  })

  it('must not have the same name', async () => {
    const module = () => OutboxModule.forRoot({ name: 'shop', store: memoryStore() })
    await expect(start({ imports: [module(), module()] })).rejects.toThrow(
      'two outboxes have the name "shop"',
    )
  })

  it('a listener of one that does not exist is refused', async () => {
    class Lost {
      @OnOutboxEvent('*', { outbox: 'shpo' })
      hear(): void {}
    }
    const imports = [OutboxModule.forRoot({ name: 'shop', store: memoryStore() })]
    await expect(start({ imports, providers: [Lost] })).rejects.toThrow(
      'names the outbox "shpo", which does not exist; there are: shop',
    )
  })
})

describe('who may inject it', () => {
  @Injectable()
  class Needy {
    constructor(@InjectOutbox() readonly outbox: AnyOutbox) {}
  }

  it('everybody, unless it is said otherwise', async () => {
    @Module({ providers: [Needy] })
    class Feature {}
    const app = await start({ imports: [OutboxModule.forRoot({ store: memoryStore() }), Feature] })
    expect(provided<Needy>(app, Needy).outbox).toBe(outboxOf(app))
  })

  it('who imports the module, when it is not global', async () => {
    const outbox = OutboxModule.forRoot({ store: memoryStore(), global: false })
    @Module({ providers: [Needy] })
    class Stranger {}
    await expect(start({ imports: [outbox, Stranger] })).rejects.toThrow("can't resolve dependencies")

    @Module({ imports: [outbox], providers: [Needy] })
    class Friend {}
    const app = await start({ imports: [outbox, Friend] })
    expect(provided<Needy>(app, Needy).outbox).toBe(outboxOf(app))
  })
})

describe('the life cycle', () => {
  it('starts at the bootstrap and is closed at the end', async () => {
    const app = await start({ imports: [OutboxModule.forRoot({ store: memoryStore() })] })
    const outbox = outboxOf(app)
    expect(outbox.isStarted).toBe(true)
    await app.close()
    expect(outbox.isStarted).toBe(false)
    await expect(publish(outbox, 'a.b')).rejects.toMatchObject({ code: 'POSTHASTE_CLOSED' })
  })

  it('does not start a process that only publishes, which can still deliver when asked', async () => {
    const app = await start({
      imports: [OutboxModule.forRoot({ store: memoryStore(), start: false })],
      providers: [Audit],
    })
    expect(outboxOf(app).isStarted).toBe(false)
    await publish(outboxOf(app), 'a.b')
    await outboxOf(app).flush()
    expect(provided<Audit>(app, Audit).types).toEqual(['a.b'])
  })

  it('a start that fails fails the bootstrap', async () => {
    const file = newFile()
    const store = sqliteStore({ file, driver: 'libsql' })
    await expect(start({ imports: [OutboxModule.forRoot({ store, migrate: false })] })).rejects.toMatchObject(
      {
        code: 'POSTHASTE_SCHEMA_BEHIND',
      },
    )
  })

  it('a start that fails closes all outboxes, since Nest does not', async () => {
    const names = ['first', 'second', 'third'] as const
    const outboxes = names.map((name) =>
      name === 'second'
        ? createOutbox({ store: sqliteStore({ file: newFile(), driver: 'libsql' }), migrate: false })
        : createOutbox({ store: memoryStore() }),
    )
    const imports = names.map((name, n) =>
      OutboxModule.forRoot({ name, outbox: outboxes[n] as (typeof outboxes)[0] }),
    )
    await expect(start({ imports })).rejects.toMatchObject({ code: 'POSTHASTE_SCHEMA_BEHIND' })
    for (const outbox of outboxes) {
      expect(outbox.isStarted).toBe(false)
      await expect(outbox.start()).rejects.toMatchObject({ code: 'POSTHASTE_CLOSED' })
    }
  })

  it.each([true, false])(
    'a request under way ends first, then what it published is delivered, then others close (global: %s)',
    async (global) => {
      const order: string[] = []
      let entered = (): void => {}
      const isIn = new Promise<void>((resolve) => {
        entered = resolve
      })
      let goOn = (): void => {}
      const mayGo = new Promise<void>((resolve) => {
        goOn = resolve
      })

      @Injectable()
      class Database implements OnApplicationShutdown {
        readonly store = memoryStore()
        onApplicationShutdown(): void {
          order.push('database closed')
        }
      }
      @Module({ providers: [Database], exports: [Database] })
      class DatabaseModule {}

      @Controller()
      class Slow {
        constructor(@InjectOutbox() private readonly outbox: AnyOutbox) {}

        @Post('slow')
        async slow(): Promise<void> {
          entered()
          await mayGo
          await publish(this.outbox, 'slow.done')
          order.push('request ended')
        }

        @OnOutboxEvent('slow.done')
        hear(): void {
          order.push('delivered')
        }
      }

      const { app, post } = await listen({
        imports: [
          OutboxModule.forRootAsync({
            global,
            imports: [DatabaseModule],
            inject: [Database],
            useFactory: ({ store }: Database) => ({ store }),
          }),
        ],
        controllers: [Slow],
      })
      const asked = post('/slow')
      await isIn
      const closed = app.close()
      goOn()
      expect((await asked).status).toBe(201)
      await closed
      expect(order.filter((it) => it !== 'delivered')).toEqual(['request ended', 'database closed'])
      expect(order.indexOf('delivered')).toBeGreaterThanOrEqual(0)
      expect(order.at(-1)).toBe('database closed')
    },
  )
})
