/** Processes that tell each other of new events, with pollers that would not look for an hour. */
import { afterEach, describe, expect, it } from 'vitest'
import { createOutbox, type OutboxEvent } from '../../src/index.ts'
import { createMemoryDatabase, memoryStore } from '../../src/testing/index.ts'

const HOUR_MS = 3_600_000
type Wake = (destinations: readonly string[]) => void

/** What a database that can carry messages gives to each of its clients. */
const createBus = () => {
  const listeners = new Set<Wake>()
  const sent: (readonly string[])[] = []
  let broken = false
  const wakeup = {
    async listen(wake: Wake) {
      if (broken) throw new Error('the server does not listen')
      listeners.add(wake)
      return async () => void listeners.delete(wake)
    },
    async notify(destinations: readonly string[]) {
      if (broken) throw new Error('the server does not listen')
      sent.push(destinations)
      for (const wake of listeners) wake(destinations)
    },
  }
  return { wakeup, sent, listeners, breakDown: () => (broken = true) }
}

const closing: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close()
})

const createWorld = () => {
  const database = createMemoryDatabase()
  const bus = createBus()
  const open = (serve?: readonly string[]) => {
    const store = { ...memoryStore({ database }), wakeup: bus.wakeup }
    const outbox = createOutbox({
      store,
      destinations: { here: { events: ['*'] } },
      pollIntervalMs: HOUR_MS,
      ...(serve === undefined ? {} : { serve }),
    })
    closing.push(() => outbox.close())
    return outbox
  }
  return { bus, open }
}

/** Resolves with the next event that is heard. */
const nextEvent = (outbox: ReturnType<ReturnType<typeof createWorld>['open']>): Promise<OutboxEvent> =>
  new Promise((resolve) => {
    outbox.on('here', '*', async (event) => resolve(event))
  })

describe('wake-up', () => {
  it('a process that only writes wakes the one that delivers, after the commit', async () => {
    const { bus, open } = createWorld()
    const worker = open()
    const heard = nextEvent(worker)
    await worker.start()
    const writer = open()
    await writer.transaction(async (tx) => {
      await writer.publish(tx, { type: 'a', payload: 1 })
      expect(bus.sent).toEqual([])
    })
    expect((await heard).type).toBe('a')
    expect(bus.sent).toEqual([[]])
  })

  it('a process that serves nothing does not listen, so its own messages cost it nothing', async () => {
    const { bus, open } = createWorld()
    await open([]).start()
    expect(bus.listeners.size).toBe(0)
  })

  it('many commits at once are told in a few messages', async () => {
    const { bus, open } = createWorld()
    const worker = open()
    await worker.start()
    const writer = open()
    const publish = () => writer.transaction((tx) => writer.publish(tx, { type: 'a', payload: 1 }))
    await Promise.all(Array.from({ length: 100 }, publish))
    await writer.close()
    expect(bus.sent.length).toBeLessThanOrEqual(3)
  })

  it('a process that has all lanes tells nobody', async () => {
    const { bus, open } = createWorld()
    const worker = open()
    const heard = nextEvent(worker)
    await worker.start()
    await worker.transaction((tx) => worker.publish(tx, { type: 'a', payload: 1, key: 'k' }))
    await heard
    expect(bus.sent).toEqual([])
  })

  it('nothing is lost when messages cannot be sent or heard', async () => {
    const { bus, open } = createWorld()
    bus.breakDown()
    const worker = open()
    const heard = nextEvent(worker)
    await worker.start()
    const writer = open()
    await writer.transaction((tx) => writer.publish(tx, { type: 'a', payload: 1 }))
    await worker.processOnce()
    expect((await heard).type).toBe('a')
  })

  it('a stopped process listens no longer', async () => {
    const { bus, open } = createWorld()
    const worker = open()
    void nextEvent(worker)
    await worker.start()
    expect(bus.listeners.size).toBe(1)
    await worker.stop()
    expect(bus.listeners.size).toBe(0)
  })
})
