/** The health indicator, by itself and in @nestjs/terminus. */
import { Controller, Get, Inject } from '@nestjs/common'
import { HealthCheckService, TerminusModule } from '@nestjs/terminus'
import { afterEach, describe, expect, it } from 'vitest'
import type { Outbox } from '../../src/index.ts'
import { getOutboxHealthToken, getOutboxToken, OutboxHealth, OutboxModule } from '../../src/nestjs/index.ts'
import { createTestOutbox, memoryStore } from '../../src/testing/index.ts'
import { closeAll, listen, provided, start } from './application.ts'

afterEach(closeAll)

describe('health', () => {
  it('is up while it delivers, and down when it was stopped', async () => {
    const app = await start({ imports: [OutboxModule.forRoot({ store: memoryStore() })] })
    const health = provided<OutboxHealth>(app, OutboxHealth)
    expect(await health.report()).toEqual({ status: 'up', started: true })
    expect(await health.check()).toEqual({ outbox: { status: 'up', started: true } })
    await provided<Outbox<never>>(app, getOutboxToken() as string).stop()
    expect(await health.check('shop')).toEqual({
      shop: { status: 'down', started: false, message: 'it is not started' },
    })
  })

  it('does not expect a process that only publishes to deliver', async () => {
    const module = OutboxModule.forRoot({ name: 'shop', store: memoryStore(), start: false })
    const app = await start({ imports: [module] })
    const health = provided<OutboxHealth>(app, getOutboxHealthToken('shop') as string)
    expect(await health.report()).toEqual({ status: 'up', started: false })
  })

  it('can look at how long something has waited', async () => {
    const test = createTestOutbox({ destinations: { nobody: { events: ['*'] } } })
    const health = new OutboxHealth(test.outbox, false)
    await test.outbox.start()
    await test.outbox.transaction((tx) => test.outbox.publish(tx, { type: 'a.b', payload: 1 }))
    expect(await health.report({ maxLagMs: 1_000 })).toMatchObject({ status: 'up', lagMs: 0 })
    await test.advance(5_000)
    expect(await health.report({ maxLagMs: 1_000 })).toEqual({
      status: 'down',
      started: true,
      lagMs: 5_000,
      message: 'something due has waited 5000 ms',
    })
    expect(await health.report()).toEqual({ status: 'up', started: true })
    await test.close()
  })

  it('is down when the database does not answer, or refuses', async () => {
    const silent = { isStarted: true, inspect: {} as never }
    const never = { status: () => new Promise<never>(() => {}) } as never
    expect(await new OutboxHealth({ ...silent, schema: never }, true).report({ timeoutMs: 5 })).toEqual({
      status: 'down',
      started: true,
      message: 'no answer of the database within 5 ms',
    })
    const broken = { status: () => Promise.reject(new Error('refused')) } as never
    expect(await new OutboxHealth({ ...silent, schema: broken }, true).report()).toMatchObject({
      message: 'refused',
    })
    const behind = { status: async () => ({ current: 1, latest: 2 }) } as never
    expect(await new OutboxHealth({ ...silent, schema: behind }, true).report()).toMatchObject({
      message: 'its tables are at version 1, this release needs 2',
    })
  })

  it('is an indicator of @nestjs/terminus', async () => {
    @Controller('health')
    class Health {
      constructor(
        @Inject(HealthCheckService) private readonly health: HealthCheckService,
        @Inject(OutboxHealth) private readonly outbox: OutboxHealth,
      ) {}

      @Get()
      check() {
        return this.health.check([() => this.outbox.check('outbox')])
      }
    }
    const { app, get } = await listen({
      imports: [TerminusModule.forRoot({ logger: false }), OutboxModule.forRoot({ store: memoryStore() })],
      controllers: [Health],
    })
    const up = { outbox: { status: 'up', started: true } }
    expect(await get('/health')).toEqual({
      status: 200,
      body: { status: 'ok', info: up, error: {}, details: up },
    })
    await provided<Outbox<never>>(app, getOutboxToken() as string).stop()
    const { status, body } = await get('/health')
    expect(status).toBe(503)
    expect(body).toMatchObject({ status: 'error', error: { outbox: { status: 'down' } } })
  })
})
