/** Locks on keys in the memory store, when transactions wait for each other or end while they wait. */
import { describe, expect, it } from 'vitest'
import { createOutbox } from '../../src/index.ts'
import { createMemoryDatabase, memoryStore } from '../../src/stores/memory/index.ts'

const process = (database = createMemoryDatabase()) =>
  createOutbox({ store: memoryStore({ database }), keyOrder: 'locked' })

const event = (key: string) => ({ type: 'tick', payload: {}, key })

describe('a transaction that waits for a key', () => {
  it('keeps nothing when its process goes away meanwhile', async () => {
    const database = createMemoryDatabase()
    const [first, gone, next] = [process(database), process(database), process(database)]
    const holder = await first.begin()
    await holder.publish(event('k'))
    const waiter = await gone.begin()
    const waiting = waiter.publish(event('k'))
    const refused = expect(waiting).rejects.toThrow(/over/)
    await gone.close()
    await holder.commit()
    await refused
    await next.transaction((tx) => next.publish(tx, event('k')))
    expect(database.events.size).toBe(2)
    await Promise.all([first.close(), next.close()])
  })

  it('closes no circle, also when several of its inserts wait', async () => {
    const outbox = process()
    const [a, b, c] = [await outbox.begin(), await outbox.begin(), await outbox.begin()]
    await a.publish(event('a'))
    await b.publish(event('b'))
    await c.publish(event('c'))
    const waiting = [a.publish(event('b')), a.publish(event('c'))]
    await expect(b.publish(event('a'))).rejects.toMatchObject({ code: 'POSTHASTE_STORE_BUSY' })
    await b.rollback()
    await c.commit()
    await Promise.all(waiting)
    await a.commit()
    await outbox.close()
  })
})
