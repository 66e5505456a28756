/** An application's own tests: the outbox of `posthaste/testing` in the place of the real one. */
import { Controller, Injectable, Logger, Module, Post } from '@nestjs/common'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { defineEvent, type Outbox, type OutboxEvent, typeOnly } from '../../src/index.ts'
import { getOutboxToken, InjectOutbox, OnOutboxEvent, OutboxModule } from '../../src/nestjs/index.ts'
import { createTestOutbox, memoryStore } from '../../src/testing/index.ts'
import { closeAll, listen, provided, start } from './application.ts'

afterEach(closeAll)

const orderPlaced = defineEvent('order.placed', { schema: typeOnly<{ id: string }>() })

@Injectable()
class Mails {
  readonly sent: string[] = []
  attempts = 0

  @OnOutboxEvent(orderPlaced)
  send(event: OutboxEvent<{ id: string }>): void {
    this.attempts += 1
    if (this.attempts === 1) throw new Error('the mail server is tired')
    this.sent.push(event.payload.id)
  }
}

@Controller('orders')
class Orders {
  constructor(@InjectOutbox() private readonly outbox: Outbox<unknown>) {}

  @Post()
  async place(): Promise<void> {
    await this.outbox.transaction((tx) => this.outbox.publish(tx, orderPlaced({ id: 'o-1' })))
  }
}

@Module({
  imports: [
    OutboxModule.forRootAsync({
      useFactory: () => {
        throw new Error('a test must not connect to the real database')
      },
    }),
  ],
  controllers: [Orders],
  providers: [Mails],
})
class AppModule {}

describe('tests of an application', () => {
  it('override the outbox with one of posthaste/testing', async () => {
    const test = createTestOutbox()
    const { app, post } = await listen({ imports: [AppModule] }, (builder) =>
      builder.overrideProvider(getOutboxToken()).useValue(test.outbox),
    )
    expect((await post('/orders')).status).toBe(201)
    test.expectPublished(orderPlaced, { id: 'o-1' })
    test.expectNotPublished('order.cancelled')
    // The retry needs time to pass, which the test clock does at once.
    await test.drain({ untilIdle: true })
    expect(provided<Mails>(app, Mails).sent).toEqual(['o-1'])
  })

  it('of one module import OutboxModule with it', async () => {
    const test = createTestOutbox()
    const app = await start({
      imports: [OutboxModule.forRoot({ outbox: test.outbox })],
      controllers: [Orders],
    })
    await provided<Orders>(app, Orders).place()
    test.expectPublished(orderPlaced)
  })
})

describe('the log', () => {
  it("is Nest's", async () => {
    const said = vi.spyOn(Logger.prototype, 'log').mockReturnValue(undefined)
    try {
      const destinations = { warehouse: { events: ['*'] } }
      await start({ imports: [OutboxModule.forRoot({ store: memoryStore(), destinations })] })
      expect(said.mock.calls.map(([text]) => text)).toContain(
        'nobody listens at this destination here; it waits for a process that does destination=warehouse',
      )
    } finally {
      said.mockRestore()
    }
  })
})
