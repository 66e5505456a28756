/** Mistakes that people make on their first day, and that must not pass without a word. */
import { describe, expect, it } from 'vitest'
import { createOutbox, defineEvent, fixed, typeOnly } from '../../src/index.ts'
import { sqliteStore } from '../../src/stores/sqlite/index.ts'
import { createTestOutbox, memoryStore } from '../../src/testing/index.ts'

const orderPlaced = defineEvent('order.placed', { schema: typeOnly<{ id: number }>() })

/** What a process hears of a promise that nobody awaited. */
const unheardFailure = (): Promise<unknown> =>
  new Promise((resolve) => {
    const before = process.listeners('unhandledRejection')
    process.removeAllListeners('unhandledRejection')
    process.once('unhandledRejection', (reason) => {
      for (const listener of before) process.on('unhandledRejection', listener)
      resolve(reason)
    })
  })

describe('a mistake', () => {
  it.each(['start', 'processOnce'] as const)(
    '%s() that nobody awaits does not fail in silence',
    async (method) => {
      const outbox = createOutbox({
        store: sqliteStore({ file: '/there/is/no/such/folder/shop.db', driver: 'libsql' }),
        destinations: { mail: { events: ['*'] } },
      })
      const unheard = unheardFailure()
      void outbox[method]()
      expect(await unheard).toMatchObject({ code: expect.stringMatching(/^POSTHASTE_/) })
      await outbox.close()
    },
  )

  it('a listener for what its destination never hears is refused', () => {
    const outbox = createOutbox({
      store: memoryStore(),
      destinations: { mail: { events: [orderPlaced, 'user.*'] } },
    })
    const listen = (pattern: string) => outbox.on('mail', pattern as never, async () => undefined)
    expect(() => listen('order.shipped')).toThrow(/not among the events of destination "mail"/)
    for (const pattern of ['order.placed', 'order.*', '*', 'user.created', 'user.*']) listen(pattern)
  })

  it('an event that nobody hears is told of, also where its publisher knew no routes', async () => {
    const told: unknown[] = []
    const outbox = createOutbox({
      store: memoryStore(),
      destinations: { mail: { events: ['order.*'] } },
      logger: {
        log: (_, message, fields) => {
          if (message.startsWith('no destination hears')) told.push(fields?.type)
        },
      },
    })
    outbox.on('mail', 'order.*', () => undefined)
    // As a function that is called per request does: each round is a new engine.
    for (const request of [1, 2]) {
      await outbox.transaction(async (tx) => {
        await outbox.publish(tx, { type: 'order.placed', payload: request })
        await outbox.publish(tx, { type: 'oder.placed', payload: request })
        await outbox.publish(tx, { type: 'oder.placed', payload: request })
      })
      await outbox.flush()
    }
    expect(told).toEqual(['oder.placed'])
    await outbox.close()
  })

  it('a forgotten listener is missed', () => {
    const outbox = createOutbox({ store: memoryStore(), destinations: { mail: { events: [orderPlaced] } } })
    expect(() => outbox.on('mail', orderPlaced as never)).toThrow(/lacks the listener/)
  })

  it('a forgotten event is missed where a destination would be taken for one', async () => {
    const outbox = createOutbox({ store: memoryStore(), destinations: { audit: { events: ['*'] } } })
    expect(() => outbox.on('audit', () => undefined)).toThrow(
      /lacks the event: on\("audit", event, listener\) .* "\*" .* on\("local", "audit", listener\)/,
    )
    // A type of that name is heard by whoever says where.
    const heard: string[] = []
    outbox.on('audit', '*', ({ type }) => heard.push(`audit ${type}`))
    outbox.on('local', 'audit', ({ type }) => heard.push(`local ${type}`))
    await outbox.transaction((tx) => outbox.publish(tx, { type: 'audit', payload: 1 }))
    expect(await outbox.flush()).toMatchObject({ drained: true, failed: 0 })
    expect(heard.sort()).toEqual(['audit audit', 'local audit'])
    await outbox.close()
  })

  it('a listener that throws is in the log long before its event is dead', async () => {
    const lines: string[] = []
    await using t = createTestOutbox({
      retry: fixed({ delayMs: 60_000, maxAttempts: 10 }),
      logger: { log: (level, message, facts) => void lines.push(`${level} ${message} ${facts?.error}`) },
    })
    t.outbox.on(orderPlaced, async () => {
      throw new Error('a typo in my listener')
    })
    await t.outbox.start()
    await t.outbox.transaction((tx) => t.outbox.publish(tx, orderPlaced({ id: 1 })))
    await t.drain()
    expect(lines.join('\n')).toContain('warn attempts failed and are tried again')
    expect(lines.join('\n')).toContain('a typo in my listener')
  })

  it('an error about an option does not carry what the wrong object contains', () => {
    const pool = { options: { password: 'secret' } }
    let caught: unknown
    try {
      createOutbox({ store: pool as never })
    } catch (error) {
      caught = error
    }
    expect(JSON.stringify((caught as { detail: unknown }).detail)).not.toContain('secret')
  })
})
