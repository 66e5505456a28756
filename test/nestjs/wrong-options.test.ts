/** What is said to the module and to its parts in the wrong words, or not at all: an error that says what to do. */
import { Injectable } from '@nestjs/common'
import { afterEach, describe, expect, it } from 'vitest'
import { createOutbox } from '../../src/index.ts'
import {
  OnOutboxEvent,
  OutboxHealth,
  OutboxModule,
  type OutboxModuleAsyncOptions,
} from '../../src/nestjs/index.ts'
import { memoryStore } from '../../src/testing/index.ts'
import { closeAll, start } from './application.ts'

afterEach(closeAll)

const refusal = (message: string) =>
  expect.objectContaining({
    code: 'POSTHASTE_INVALID_OPTION',
    message: expect.stringContaining(message) as string,
  }) as Error

/** Of users without types. */
const forRoot = OutboxModule.forRoot as (options?: unknown) => ReturnType<typeof OutboxModule.forRoot>
const forRootAsync = OutboxModule.forRootAsync as (options?: unknown) => ReturnType<typeof forRoot>

@Injectable()
class Mistaken {}

describe('OutboxModule', () => {
  it.each([
    [
      'forRoot without options',
      () => forRoot(),
      'OutboxModule.forRoot takes an object, such as { store: postgresStore(…) }, or { outbox } with one that createOutbox made; it got undefined',
    ],
    ['forRoot with a list', () => forRoot([]), 'it got a list'],
    [
      'forRootAsync without options',
      () => forRootAsync(),
      'OutboxModule.forRootAsync takes an object, such as { useFactory: () => ({ store: … }) }; it got undefined',
    ],
    [
      'a name that forRootAsync does not know',
      () => forRootAsync({ useFactory: () => ({}), strat: false }),
      'OutboxModule.forRootAsync does not know "strat"; did you mean "start"?',
    ],
  ])('refuses %s at once', (_, make, message) => {
    expect(make).toThrow(refusal(message))
  })

  it.each<[string, OutboxModuleAsyncOptions, string]>([
    [
      'a factory that returns nothing',
      { useFactory: () => undefined as never },
      'what OutboxModule.forRootAsync is given must return options, such as { store: postgresStore(…) }, or { outbox } with one that createOutbox made; it returned undefined',
    ],
    ['a factory that returns text', { useFactory: () => 'x' as never }, 'it returned the string "x"'],
    [
      'a factory that returns no outbox',
      { useFactory: () => ({ outbox: undefined as never }) },
      'outbox must be an outbox that createOutbox made; it lacks the method on, start, close',
    ],
    [
      'options beside an outbox that was made with its own',
      { useFactory: () => ({ outbox: createOutbox({ store: memoryStore() }) as never, migrate: true }) },
      'OutboxModule with an outbox does not know "migrate"; there are: outbox',
    ],
    [
      'a class without the method',
      { useClass: Mistaken as never },
      'useClass must be a provider that implements OutboxOptionsFactory; it lacks the method createOutboxOptions',
    ],
  ])('refuses %s when the application is made', async (_, options, message) => {
    await expect(start({ imports: [OutboxModule.forRootAsync(options)] })).rejects.toThrow(refusal(message))
  })

  it('refuses to be imported by itself, when there is no outbox', async () => {
    await expect(start({ imports: [OutboxModule] })).rejects.toThrow(
      refusal('imports has OutboxModule, and no outbox: import OutboxModule.forRoot(…)'),
    )
  })

  it('may be imported by itself beside one that has the outbox', async () => {
    const module = OutboxModule.forRoot({ store: memoryStore() })
    await expect(start({ imports: [module, OutboxModule] })).resolves.toBeDefined()
  })
})

describe('its parts', () => {
  it('@OnOutboxEvent refuses what it does not know', () => {
    expect(() => OnOutboxEvent('*', { dest: 'mailer' } as never)).toThrow(
      refusal('@OnOutboxEvent does not know "dest"; there are: destination, outbox'),
    )
    expect(() => OnOutboxEvent('*', { destinaton: 'mailer' } as never)).toThrow(
      refusal('did you mean "destination"?'),
    )
  })

  // It never throws: whoever asks for its health gets to know.
  it('OutboxHealth is down when it is asked for what it does not know', async () => {
    const health = new OutboxHealth(createOutbox({ store: memoryStore() }), false)
    expect(await health.check('x', { maxLag: 3 } as never)).toEqual({
      x: {
        status: 'down',
        started: false,
        message: 'OutboxHealth does not know "maxLag"; did you mean "maxLagMs"?',
      },
    })
  })
})
