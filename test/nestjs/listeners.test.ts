/** `@OnOutboxEvent`: where it is found, how often, and with which instance. */
import { Controller, Inject, Injectable, Scope } from '@nestjs/common'
import { REQUEST } from '@nestjs/core'
import { afterEach, describe, expect, it } from 'vitest'
import {
  defineEvent,
  type ListenerContext,
  type Outbox,
  type OutboxEvent,
  typeOnly,
} from '../../src/index.ts'
import { getOutboxToken, OnOutboxEvent, OutboxModule } from '../../src/nestjs/index.ts'
import { memoryStore } from '../../src/testing/index.ts'
import { closeAll, Heard, provided, start } from './application.ts'

afterEach(closeAll)

const orderPlaced = defineEvent('order.placed', { schema: typeOnly<{ id: string; total: number }>() })

type Metadata = Parameters<typeof start>[0]

/** What an application with these providers has heard when everything is delivered. */
const deliver = async (metadata: Metadata, types: readonly string[], destinations = {}): Promise<void> => {
  const app = await start({
    ...metadata,
    imports: [OutboxModule.forRoot({ store: memoryStore(), destinations }), ...(metadata.imports ?? [])],
  })
  const outbox = provided<Outbox<never>>(app, getOutboxToken() as string)
  await outbox.transaction(async (tx) => {
    for (const type of types) await outbox.publish(tx, { type, payload: { id: type, total: 1 } })
  })
  expect(await outbox.flush()).toEqual({ drained: true, failed: 0 })
}

describe('a method hears', () => {
  it('events of a definition, with the context of the delivery', async () => {
    const heard: unknown[] = []
    class Mails {
      readonly greeting = 'thank you for'

      @OnOutboxEvent(orderPlaced)
      async thank(event: OutboxEvent<{ id: string; total: number }>, context: ListenerContext) {
        heard.push([this.greeting, event.payload.id, context.destination, context.attempt])
      }
    }
    await deliver({ providers: [Mails] }, ['order.placed'])
    expect(heard).toEqual([['thank you for', 'order.placed', 'local', 1]])
  })

  it('what several decorators say, also those of a method that takes no event', async () => {
    let heard = 0
    class Counter {
      @OnOutboxEvent('order.*')
      @OnOutboxEvent('user.renamed')
      count(): void {
        heard += 1
      }
    }
    await deliver({ providers: [Counter] }, ['order.placed', 'order.paid', 'user.renamed'])
    expect(heard).toBe(3)
  })

  it('what goes to a destination', async () => {
    const heard: string[] = []
    class Warehouse {
      @OnOutboxEvent(orderPlaced, { destination: 'warehouse' })
      pack(_event: unknown, { destination }: ListenerContext): void {
        heard.push(destination)
      }
    }
    await deliver({ providers: [Warehouse] }, ['order.placed'], { warehouse: { events: ['order.*'] } })
    expect(heard).toEqual(['warehouse'])
    await expect(deliver({ providers: [Warehouse] }, [])).rejects.toMatchObject({
      code: 'POSTHASTE_UNKNOWN_DESTINATION',
    })
  })

  it('in a controller too', async () => {
    const heard: string[] = []
    @Controller()
    class Orders {
      @OnOutboxEvent('*')
      hear({ type }: OutboxEvent): void {
        heard.push(type)
      }
    }
    await deliver({ controllers: [Orders] }, ['a.b'])
    expect(heard).toEqual(['a.b'])
  })

  it('once, whatever names its provider has', async () => {
    const heard: string[] = []
    class Single {
      @OnOutboxEvent('*')
      hear({ type }: OutboxEvent): void {
        heard.push(type)
      }
    }
    const single = new Single()
    await deliver(
      {
        providers: [
          { provide: Single, useValue: single },
          { provide: 'alias', useExisting: Single },
          { provide: 'made', useFactory: () => single },
        ],
      },
      ['a.b'],
    )
    expect(heard).toEqual(['a.b'])
  })

  it('what its class inherited, and the nearest declaration counts', async () => {
    const heard: string[] = []
    class Base {
      @OnOutboxEvent('a.*')
      inherited({ type }: OutboxEvent): void {
        heard.push(`inherited ${type}`)
      }

      @OnOutboxEvent('a.*')
      replaced({ type }: OutboxEvent): void {
        heard.push(`base ${type}`)
      }
    }
    class Derived extends Base {
      @OnOutboxEvent('b.*')
      override replaced({ type }: OutboxEvent): void {
        heard.push(`derived ${type}`)
      }
    }
    await deliver({ providers: [Derived] }, ['a.b', 'b.c'])
    expect(heard.sort()).toEqual(['derived b.c', 'inherited a.b'])
  })

  it('through decorators that replace it, above and below', async () => {
    const heard: string[] = []
    const Loud = (_target: object, _name: string, descriptor: PropertyDescriptor) => {
      const original = descriptor.value as (event: OutboxEvent) => void
      descriptor.value = function (this: unknown, event: OutboxEvent) {
        heard.push('loud')
        return original.call(this, event)
      }
    }
    class Wrapped {
      @Loud
      @OnOutboxEvent('a.*')
      above({ type }: OutboxEvent): void {
        heard.push(type)
      }

      @OnOutboxEvent('b.*')
      @Loud
      below({ type }: OutboxEvent): void {
        heard.push(type)
      }
    }
    await deliver({ providers: [Wrapped] }, ['a.b'])
    await deliver({ providers: [Wrapped] }, ['b.c'])
    expect(heard).toEqual(['loud', 'a.b', 'loud', 'b.c'])
  })
})

describe('a provider with a scope', () => {
  it.each([
    ['request', Scope.REQUEST],
    ['transient', Scope.TRANSIENT],
  ])('%s: is made anew for every event', async (_, scope) => {
    let made = 0
    const heard: string[] = []
    @Injectable({ scope })
    class Scoped {
      readonly number = ++made

      @OnOutboxEvent('*')
      hear({ type }: OutboxEvent): void {
        heard.push(`${type} ${this.number > 0}`)
      }
    }
    await deliver({ providers: [Scoped] }, ['a.b', 'a.b', 'a.b'])
    expect(heard).toEqual(['a.b true', 'a.b true', 'a.b true'])
    expect(made).toBe(3)
  })

  it('may be a controller', async () => {
    let made = 0
    const heard: string[] = []
    @Controller({ scope: Scope.REQUEST })
    class Orders {
      readonly number = ++made

      @OnOutboxEvent('*')
      hear({ type }: OutboxEvent): void {
        heard.push(type)
      }
    }
    await deliver({ controllers: [Orders] }, ['a.b', 'c.d'])
    expect(heard.sort()).toEqual(['a.b', 'c.d'])
    expect(made).toBe(2)
  })

  it('is not found when a factory makes it', async () => {
    const heard: string[] = []
    class Made {
      @OnOutboxEvent('*')
      hear({ type }: OutboxEvent): void {
        heard.push(type)
      }
    }
    const factory = { provide: Made, scope: Scope.REQUEST, useFactory: () => new Made() }
    await deliver({ providers: [factory] }, ['a.b'])
    expect(heard).toEqual([])
  })

  it('gets the event as its request, and so do those that it injects', async () => {
    const heard: unknown[] = []
    @Injectable({ scope: Scope.REQUEST })
    class Tenant {
      constructor(@Inject(REQUEST) readonly event: OutboxEvent) {}
    }
    @Injectable()
    class Mails {
      constructor(@Inject(Tenant) readonly tenant: Tenant) {}

      @OnOutboxEvent('*')
      hear(event: OutboxEvent): void {
        heard.push(this.tenant.event.id === event.id)
      }
    }
    await deliver({ providers: [Tenant, Mails] }, ['a.b', 'c.d'])
    expect(heard).toEqual([true, true])
  })

  it('that cannot be made is a failed attempt', async () => {
    let tries = 0
    const heard = new Heard()
    @Injectable({ scope: Scope.REQUEST })
    class Moody {
      constructor() {
        tries += 1
        if (tries === 1) throw new Error('not today')
      }

      @OnOutboxEvent('*')
      hear(event: OutboxEvent): void {
        heard.add(event)
      }
    }
    let tell = (_error: unknown): void => {}
    const failed = new Promise<unknown>((resolve) => {
      tell = resolve
    })
    const app = await start({
      imports: [OutboxModule.forRoot({ store: memoryStore(), onFailure: ({ error }) => tell(error) })],
      providers: [Moody],
    })
    const outbox = provided<Outbox<never>>(app, getOutboxToken() as string)
    await outbox.transaction((tx) => outbox.publish(tx, { type: 'a.b', payload: 1 }))
    expect(await failed).toMatchObject({ message: 'not today' })
    await heard.count(1)
    expect(heard.types).toEqual(['a.b'])
  })
})

describe('types', () => {
  it('of a method that a definition does not fit are refused', () => {
    class Wrong {
      // @ts-expect-error: an order has no sku
      @OnOutboxEvent(orderPlaced)
      hear(_event: OutboxEvent<{ sku: string }>): void {}

      // @ts-expect-error: not a method
      @OnOutboxEvent(orderPlaced)
      field = 1
    }
    expect(new Wrong().field).toBe(1)
  })
})
