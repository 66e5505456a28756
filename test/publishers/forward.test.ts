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
})
