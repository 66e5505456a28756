import { describe, expect, it, onTestFinished } from 'vitest'
import { createOutbox } from '../../src/index.ts'
import { forwardPublisher } from '../../src/publishers/forward.ts'
import { memoryStore } from '../../src/stores/memory/index.ts'
import { PublisherFixture } from '../../src/testing/suites/publisher-fixture.ts'
import { testPublisher } from './run.ts'

testPublisher('forward')

describe('forwarding in particular', () => {
  it('one that the other database refuses fails alone, and spends nobody else an attempt', async () => {
    const to = createOutbox({
      store: memoryStore(),
      destinations: { elsewhere: { events: ['*'] } },
      serve: [],
    })
    await to.start()
    onTestFinished(() => to.close())
    const t = new PublisherFixture({ topic: 'unused' } as never)
    const deliveries = [t.delivery(), t.delivery(), t.delivery()]
    const taken = deliveries[1]?.event.id as string
    // Somebody has published another event under this id there.
    await to.transaction((tx) => to.publish(tx, { id: taken, type: 'order.placed', payload: 1 }))
    const results = await t.send(forwardPublisher({ to }), deliveries)
    expect(results.map((result) => t.verdict(result))).toEqual(['done', 'retry', 'done'])
  })

  it.each([
    ['with the batch', 1],
    ['with one of it alone, after the batch was refused', 2],
  ])('to a database that hangs is an outage, and spends no attempt: %s', async (_, hangsAt) => {
    const t = new PublisherFixture({ topic: 'unused' } as never)
    const stop = new AbortController()
    let transactions = 0
    const publisher = forwardPublisher({
      to: {
        transaction: async () => {
          transactions += 1
          if (transactions < hangsAt) throw new Error('one of them is refused')
          // As the core does it when the time is over.
          stop.abort(new Error('the delivery did not end in time'))
          return await new Promise<never>(() => undefined)
        },
        publishMany: async () => [],
      },
    })
    const results = await publisher.send([t.delivery(), t.delivery()], { signal: stop.signal })
    expect(results.map((result) => t.verdict(result))).toEqual(['outage', 'outage'])
    expect(transactions).toBe(hangsAt)
  })
})
