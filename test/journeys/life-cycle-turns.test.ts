/** Starting, stopping, rounds and pulling, when one comes in the middle of another. */
import { AsyncLocalStorage } from 'node:async_hooks'
import { describe, expect, it } from 'vitest'
import { createOutbox, type OutboxOptions } from '../../src/index.ts'
import { createMemoryDatabase, type MemoryTransaction, memoryStore } from '../../src/stores/memory/index.ts'
import { createFakeRuntime } from '../../src/testing/fake-runtime.ts'

const deferred = () => {
  let resolve = (): void => undefined
  const promise = new Promise<void>((done) => {
    resolve = done
  })
  return { promise, resolve }
}

type Options = Partial<OutboxOptions<MemoryTransaction, MemoryTransaction>>

const create = (options: Options = {}, database = createMemoryDatabase()) =>
  createOutbox({ store: memoryStore({ database }), pollIntervalMs: 10, ...options })

type TestedOutbox = ReturnType<typeof create>

const publish = (outbox: TestedOutbox, ...numbers: number[]) =>
  outbox.transaction((tx) =>
    outbox.publishMany(
      tx,
      numbers.map((n) => ({ type: 'tick', payload: n })),
    ),
  )

describe('starting and stopping', () => {
  it('take turns: a start during a stop begins when that is over, and can be stopped', async () => {
    const outbox = create()
    const begun = deferred()
    const end = deferred()
    const heard: number[] = []
    outbox.on<number>('tick', async ({ payload }) => {
      heard.push(payload)
      begun.resolve()
      await end.promise
    })
    await outbox.start()
    await publish(outbox, 1)
    await begun.promise
    const stopping = outbox.stop()
    const starting = outbox.start()
    end.resolve()
    expect(await stopping).toEqual({ clean: true })
    await starting
    expect(outbox.isStarted).toBe(true)
    await publish(outbox, 2)
    await outbox.flush()
    await outbox.stop()
    expect(outbox.isStarted).toBe(false)
    await publish(outbox, 3)
    expect(heard).toEqual([1, 2])
    await outbox.close()
  })

  it('give back what was claimed before a stop and is committed after it: the next process has it at once', async () => {
    const database = createMemoryDatabase()
    const [leaving, next] = [create({}, database), create({}, database)]
    const heard = deferred()
    leaving.on('tick', () => undefined)
    next.on('tick', () => heard.resolve())
    await leaving.start()
    const late = await leaving.begin()
    await late.publish({ type: 'tick', payload: 1 })
    await leaving.stop()
    await late.commit()
    await next.start()
    await heard.promise
    await Promise.all([leaving.close(), next.close()])
    expect([...database.deliveries.values()]).toMatchObject([{ status: 'done', suspicions: 0 }])
  })

  it('leave no lanes behind when a maintainer does not come to its end', async () => {
    const database = createMemoryDatabase()
    const store = memoryStore({ database })
    const runtime = createFakeRuntime()
    const cleaning = deferred()
    const cleanup = (): Promise<never> => {
      cleaning.resolve()
      return new Promise(() => undefined)
    }
    const maintenance = { ...store.maintenance, cleanup }
    const outbox = createOutbox({ store: { ...store, maintenance }, runtime, cleanupIntervalMs: 1_000 })
    outbox.on('tick', () => undefined)
    await outbox.start()
    await runtime.advance(2_000)
    await cleaning.promise
    expect(database.workers.size).toBe(1)
    const stopping = outbox.stop()
    await runtime.advance(10_000)
    expect(await stopping).toEqual({ clean: false })
    expect(database.workers.size).toBe(0)
  })

  it('leave no lanes behind when a stop comes while a round is about to begin', async () => {
    const database = createMemoryDatabase()
    const store = memoryStore({ database })
    const [asked, answered] = [deferred(), deferred()]
    const declare: typeof store.registry.declare = async (destinations) => {
      asked.resolve()
      await answered.promise
      return await store.registry.declare(destinations)
    }
    const outbox = createOutbox({ store: { ...store, registry: { ...store.registry, declare } } })
    outbox.on('tick', () => undefined)
    const round = outbox.processOnce()
    await asked.promise
    await outbox.stop()
    answered.resolve()
    await round
    expect([...database.workers.values()]).toEqual([])
    await outbox.close()
  })

  it('stop() ends a round whose listener never ends, and the round says what was done before', async () => {
    const outbox = create()
    const begun = deferred()
    outbox.on<number>('tick', async ({ payload }) => {
      if (payload === 1) return
      begun.resolve()
      await new Promise(() => undefined)
    })
    await publish(outbox, 1, 2)
    const round = outbox.processOnce()
    await begun.promise
    expect(await outbox.stop({ drainMs: 20 })).toEqual({ clean: false })
    expect(await round).toEqual({ claimed: 1, done: 1, retried: 0, dead: 0, idle: false })
    await outbox.close()
  })

  it('stop() while the store is opened ends the round that waits for it, before anything is sent', async () => {
    const store = memoryStore()
    const [asked, answered] = [deferred(), deferred()]
    const open: typeof store.open = async (context) => {
      asked.resolve()
      await answered.promise
      await store.open(context)
    }
    const outbox = createOutbox({ store: { ...store, open } })
    let heard = 0
    outbox.on('tick', () => {
      heard += 1
    })
    const round = outbox.processOnce()
    await asked.promise
    await outbox.stop()
    answered.resolve()
    expect(await round).toMatchObject({ claimed: 0, idle: false })
    expect(heard).toBe(0)
    await outbox.close()
  })

  it('close() ends once however often it is called, and closes publishers once', async () => {
    let closed = 0
    const to = {
      send: async () => [],
      close: async () => {
        closed += 1
      },
    }
    const outbox = create({ destinations: { broker: { to, events: ['*'] } } })
    await outbox.start()
    await Promise.all([outbox.close(), outbox.close()])
    await outbox.close()
    expect(closed).toBe(1)
    expect(() => outbox.on('tick', () => undefined)).toThrow(/closed/)
  })
})

describe('a round of a process that was never started', () => {
  it('is drained by close(), so that nobody delivers its events a second time', async () => {
    const database = createMemoryDatabase()
    const outbox = create({}, database)
    const begun = deferred()
    const end = deferred()
    let heard = 0
    const listen = (other: TestedOutbox) =>
      other.on('tick', async () => {
        heard += 1
        begun.resolve()
        await end.promise
      })
    listen(outbox)
    await publish(outbox, 1)
    const flushing = outbox.flush({ timeoutMs: 60_000 }).catch(() => undefined)
    await begun.promise
    const closing = outbox.close()
    end.resolve()
    await closing
    await flushing
    const next = create({}, database)
    listen(next)
    expect(await next.processOnce()).toMatchObject({ claimed: 0, idle: true })
    await next.close()
    expect(heard).toBe(1)
  })

  it('tells by flush() that attempts failed', async () => {
    const outbox = create()
    outbox.on('tick', () => {
      throw new Error('no')
    })
    await publish(outbox, 1)
    expect(await outbox.flush()).toMatchObject({ drained: true, failed: 1 })
    await outbox.close()
  })
})

describe('a batch that is open', () => {
  const pulled = { pulled: { events: ['*'] } }

  it('keeps stop() from calling it clean, and its commit says what was not written', async () => {
    const database = createMemoryDatabase()
    const outbox = create({ destinations: pulled, serve: [] }, database)
    await publish(outbox, 1)
    const batch = await outbox.fetch()
    expect(await outbox.stop({ drainMs: 20 })).toEqual({ clean: false })
    const other = create({ destinations: pulled, serve: [] }, database)
    await expect(other.fetch()).rejects.toMatchObject({ code: 'POSTHASTE_NO_DELIVERIES' })
    batch.ack()
    await expect(batch.commit()).rejects.toMatchObject({
      code: 'POSTHASTE_CONFLICT',
      detail: { deliveryIds: [batch.deliveries[0]?.id] },
    })
    expect(() => batch.ack()).toThrow(/ended/)
    await other.close()
    await outbox.close()
  })

  it('leaves no lanes behind when the process starts to deliver by itself', async () => {
    const outbox = create({ destinations: pulled })
    await publish(outbox, 1)
    const batch = await outbox.fetch()
    batch.ack()
    await batch.commit()
    const heard: number[] = []
    const all = deferred()
    outbox.on<number>('pulled', '*', ({ payload }) => {
      heard.push(payload)
      if (heard.length === 40) all.resolve()
    })
    await outbox.start()
    const numbers = Array.from({ length: 40 }, (_, n) => n)
    await outbox.transaction((tx) =>
      outbox.publishMany(
        tx,
        numbers.map((n) => ({ type: 'tick', payload: n, key: `k${n}` })),
      ),
    )
    await all.promise
    await outbox.close()
  })

  it('leaves no lanes behind either when somebody pulls while start() waits for it', async () => {
    const outbox = create({ destinations: pulled })
    outbox.on('pulled', '*', () => undefined)
    await publish(outbox, 1)
    const batch = await outbox.fetch()
    const starting = outbox.start()
    await new Promise((resolve) => setImmediate(resolve))
    await expect(outbox.fetch()).rejects.toMatchObject({ code: 'POSTHASTE_NO_DELIVERIES' })
    batch.ack()
    await batch.commit()
    await starting
    expect(await outbox.inspect.workers()).toMatchObject([{ lanes: 64 }])
    await expect(outbox.fetch()).rejects.toMatchObject({ code: 'POSTHASTE_CONFLICT' })
    await outbox.close()
  })
})

describe('listeners', () => {
  it('run outside of the request and the transaction of whoever published', async () => {
    const requests = new AsyncLocalStorage<string>()
    const shop = create()
    const mail = create()
    const heard = deferred()
    let seen: unknown = 'not called'
    mail.on('tick', async () => {
      seen = requests.getStore()
      await shop.transaction(async (tx) => tx.set('mailed', true))
      heard.resolve()
    })
    await mail.start()
    const failing = requests.run('request 1', () =>
      shop.transaction(async () => {
        await publish(mail, 1)
        await heard.promise
        throw new Error('the request fails')
      }),
    )
    await expect(failing).rejects.toThrow('the request fails')
    expect(seen).toBeUndefined()
    let mailed: unknown
    await shop.transaction(async (tx) => {
      mailed = tx.get('mailed')
    })
    expect(mailed).toBe(true)
    await mail.close()
    await shop.close()
  })

  it('are not called in the context of an operator who resumes their destination', async () => {
    const requests = new AsyncLocalStorage<string>()
    const outbox = create({ destinations: { sink: { events: ['*'], concurrency: 1 } } })
    const begun = deferred()
    const end = deferred()
    const all = deferred()
    const seen: unknown[] = []
    outbox.on('sink', 'tick', async () => {
      seen.push(requests.getStore())
      begun.resolve()
      if (seen.length === 3) all.resolve()
      await end.promise
    })
    await publish(outbox, 1, 2, 3)
    await outbox.start()
    await begun.promise
    await outbox.operator.pause('sink')
    end.resolve()
    await outbox.flush({ timeoutMs: 20 })
    expect(seen).toHaveLength(1)
    await requests.run('operator', () => outbox.operator.resume('sink'))
    await all.promise
    expect(seen).toEqual([undefined, undefined, undefined])
    await outbox.close()
  })

  it('[74] an async onFailure that rejects is logged', async () => {
    const logged = deferred()
    const outbox = create({
      onFailure: (() => Promise.reject(new Error('mine'))) as () => void,
      logger: {
        log: (_level, message) => {
          if (message.includes('onFailure')) logged.resolve()
        },
      },
    })
    outbox.on('tick', () => {
      throw new Error('no')
    })
    await outbox.start()
    await publish(outbox, 1)
    await logged.promise
    await outbox.close()
  })
})

describe('what would otherwise vanish without a word', () => {
  it('is logged once: an event that nobody hears, and a start that was forgotten', async () => {
    const messages: string[] = []
    const outbox = create({ logger: { log: (_level, message) => messages.push(message) } })
    outbox.on('tick', () => undefined)
    await publish(outbox, 1, 2)
    await outbox.start()
    for (let n = 0; n < 3; n += 1) {
      await outbox.transaction((tx) => outbox.publish(tx, { type: 'tikc', payload: n }))
    }
    await outbox.close()
    expect(messages.filter((message) => message.includes('not started'))).toHaveLength(1)
    expect(messages.filter((message) => message.includes('no destination hears'))).toHaveLength(1)
  })
})
