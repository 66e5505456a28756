/** The stages put together by hand: a dispatcher, its poller and a client. */
import { describe, expect, it } from 'vitest'
import { createClient, Dispatcher, ListenerRegistry, Poller } from '../../src/index.ts'
import { createMemoryDatabase, memoryStore } from '../../src/stores/memory/index.ts'
import { createFakeRuntime } from '../../src/testing/index.ts'
import { gate } from './world.ts'

const createParts = (
  given: {
    readonly database?: ReturnType<typeof createMemoryDatabase>
    readonly runtime?: ReturnType<typeof createFakeRuntime>
    readonly hotQueueCapacity?: number
    readonly listener?: () => Promise<void>
  } = {},
) => {
  const { database = createMemoryDatabase(), runtime = createFakeRuntime(), listener, ...options } = given
  const heard: unknown[] = []
  const listeners = new ListenerRegistry()
  listeners.on('tick', async ({ payload }) => {
    heard.push(payload)
    await listener?.()
  })
  const dispatcher = new Dispatcher({
    store: memoryStore({ database }),
    listeners,
    runtime,
    workers: 1,
    ...options,
  })
  const poller = new Poller({ dispatcher, skipRecentMs: 0, intervalMs: 1_000 })
  const client = createClient({ dispatcher })
  return {
    ...{ dispatcher, poller, client, heard, database, runtime },
    publish: (payload: unknown, more: object = {}) =>
      client.transaction((tx) => client.publish(tx, { type: 'tick', payload, ...more })),
    async close() {
      await poller.close()
      const closing = dispatcher.close()
      await runtime.advance(60_000)
      await closing
    },
  }
}

describe('parts that were put together by hand', () => {
  it('deliver what is published now, and what is published for later', async () => {
    const t = createParts()
    await t.poller.start()
    await t.publish('now')
    await t.publish('later', { delayMs: 5_000, key: 'k' })
    await t.runtime.settle()
    expect(t.heard).toEqual(['now'])
    await t.runtime.advance(5_000)
    expect(t.heard).toEqual(['now', 'later'])
    await t.close()
  })

  it('do not remember events that are delivered by another process', async () => {
    const database = createMemoryDatabase()
    const runtime = createFakeRuntime()
    const [one, other] = [createParts({ database, runtime }), createParts({ database, runtime })]
    await one.poller.start()
    await other.poller.start()
    await runtime.advance(20_000)
    for (let n = 0; n < 50; n += 1) await one.publish(n, { key: `key ${n}` })
    await runtime.advance(5_000)
    expect(other.heard.length).toBeGreaterThan(0)
    expect(one.heard.length + other.heard.length).toBe(50)
    expect(one.dispatcher.inFlight.size).toBe(0)
    await one.close()
    await other.close()
  })

  it('release a claim that does not fit into the queue any more, so that it is not late', async () => {
    const held = gate()
    const t = createParts({ hotQueueCapacity: 1, listener: () => held.promise })
    await t.poller.start()
    await t.publish('first')
    const [a, b] = [await t.client.begin(), await t.client.begin()]
    await a.publish({ type: 'tick', payload: 'a' })
    await b.publish({ type: 'tick', payload: 'b' })
    await a.commit()
    await b.commit()
    held.open()
    await t.runtime.advance(2_000)
    expect(t.heard).toEqual(['first', 'a', 'b'])
    expect([...t.database.deliveries.values()].map(({ suspicions }) => suspicions)).toEqual([0, 0, 0])
    await t.close()
  })

  it('refuse a poller for a dispatcher that is open, because it would wait for another one', async () => {
    const t = createParts()
    await t.dispatcher.open()
    expect(() => new Poller({ dispatcher: t.dispatcher })).toThrow(/open already/)
    await t.publish('heard')
    await t.runtime.settle()
    expect(t.heard).toEqual(['heard'])
    await t.close()
  })
})
