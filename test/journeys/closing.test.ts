/** A close while transactions are under way, as at the end of every process that serves requests. */
import { describe, expect, it } from 'vitest'
import { createOutbox } from '../../src/index.ts'
import { createMemoryDatabase, memoryStore } from '../../src/stores/memory/index.ts'
import { createFakeRuntime } from '../../src/testing/fake-runtime.ts'
import { gate, KINDS, publishAndWait, World } from './world.ts'

const TICK = { type: 'tick', payload: 1 }

describe.each(KINDS)('a close, %s', (kind) => {
  it('lets a transaction that is under way publish and commit', async () => {
    await using world = new World(kind)
    const [outbox, next] = [world.outbox(), world.outbox()]
    const [begun, end] = [gate(), gate()]
    const running = outbox.transaction(async (tx) => {
      begun.open()
      await end.promise
      return await outbox.publish(tx, TICK)
    })
    await begun.promise
    const closing = outbox.close()
    end.open()
    const id = await running
    await closing
    expect(await next.inspect.event(id)).not.toBeNull()
  })

  it('waits for one that was begun by hand', async () => {
    await using world = new World(kind)
    const outbox = world.outbox()
    const manual = await outbox.begin()
    let isClosed = false
    const closing = outbox.close().then(() => {
      isClosed = true
    })
    await manual.publish(TICK)
    expect(isClosed).toBe(false)
    await manual.commit()
    await closing
  })
})

it('a close waits for transactions no longer than drainMs, and says so', async () => {
  const runtime = createFakeRuntime()
  const told: string[] = []
  const outbox = createOutbox({
    store: memoryStore(),
    runtime,
    drainMs: 3_000,
    logger: { log: (level, message) => void (level === 'warn' && told.push(message)) },
  })
  const begun = gate()
  const running = outbox.transaction(async (tx) => {
    begun.open()
    await new Promise(() => undefined)
    await outbox.publish(tx, TICK)
  })
  running.catch(() => undefined)
  await begun.promise
  let isClosed = false
  const closing = outbox.close().then(() => {
    isClosed = true
  })
  await runtime.advance(2_900)
  expect(isClosed).toBe(false)
  await runtime.advance(100)
  await closing
  expect(told).toEqual([expect.stringContaining('transactions are under way')])
})

it('a close lets no other transaction begin, but those inside of one that is under way', async () => {
  const runtime = createFakeRuntime()
  const outbox = createOutbox({ store: memoryStore(), runtime })
  const [begun, end] = [gate(), gate()]
  const running = outbox.transaction(async () => {
    begun.open()
    await end.promise
    await outbox.transaction((tx) => outbox.publish(tx, TICK))
  })
  await begun.promise
  const closing = outbox.close()
  await runtime.settle()
  const refused = { code: 'POSTHASTE_CLOSED' }
  await expect(outbox.begin()).rejects.toMatchObject(refused)
  await expect(outbox.transaction(() => undefined)).rejects.toMatchObject(refused)
  end.open()
  await running
  await closing
})

it.each(['a transaction', 'a delivery'])('a close that waits for %s delivers nothing new', async (what) => {
  const runtime = createFakeRuntime()
  const outbox = createOutbox({
    store: memoryStore(),
    runtime,
    destinations: { pulled: { events: ['*'] } },
    serve: ['local'],
  })
  const [begun, end] = [gate(), gate()]
  const wait = async (): Promise<void> => {
    begun.open()
    await end.promise
  }
  if (what === 'a delivery') outbox.on('tick', wait)
  await outbox.start()
  const running = outbox.transaction(async (tx) => {
    await outbox.publish(tx, TICK)
    if (what === 'a transaction') await wait()
  })
  await begun.promise
  const closing = outbox.close()
  await runtime.settle()
  const refused = { code: 'POSTHASTE_CLOSED' }
  await expect(outbox.fetch({ destination: 'pulled' })).rejects.toMatchObject(refused)
  await expect(outbox.processOnce()).rejects.toMatchObject(refused)
  await expect(outbox.flush()).rejects.toMatchObject(refused)
  end.open()
  await running
  await closing
  await runtime.settle()
  expect(runtime.nextTimerInMs).toBeNull()
})

it('a close gives back what is committed late although its claim is old', async () => {
  const runtime = createFakeRuntime()
  const database = createMemoryDatabase()
  const store = memoryStore({ database })
  const outbox = createOutbox({ store, runtime, drainMs: 60_000, hotLeaseMs: 30_000 })
  outbox.on('tick', () => undefined)
  await outbox.start()
  const { committed, commit } = await publishAndWait(outbox, TICK)
  await runtime.advance(20_000)
  const closing = outbox.close()
  await runtime.settle()
  // A claim of what is not sent any more need not last: asking for that would be answered after the end.
  Object.assign(store.queue, { extend: () => new Promise(() => undefined) })
  commit()
  await committed
  await closing
  expect([...database.deliveriesInOrder].map(({ token }) => token)).toEqual([null])
})
