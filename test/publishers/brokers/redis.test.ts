import { describe, expect, it, onTestFinished } from 'vitest'
import { redisPublisher } from '../../../src/publishers/redis.ts'
import { PublisherFixture } from '../../../src/testing/suites/publisher-fixture.ts'
import { newTopic, startBroker } from '../broker.ts'
import { testPublisher } from '../run.ts'

testPublisher('redis')

describe('redis in particular', () => {
  it('[65] counts as sent only what enough replicas have, and spends no attempt on the rest', async () => {
    const broker = await startBroker('redis', (url) => redisPublisher({ url }))
    const t = new PublisherFixture({ topic: newTopic() } as never)
    onTestFinished(async () => {
      await t.close()
      await broker.close()
    })
    // This server has none.
    const waiting = t.closing(redisPublisher({ url: broker.url, waitForReplicas: 1, waitMs: 50 }))
    const results = await t.send(waiting, [t.delivery(), t.delivery()])
    expect(results.map((result) => t.verdict(result))).toEqual(['outage', 'outage'])
    const relaxed = t.closing(redisPublisher({ url: broker.url }))
    await t.sends(relaxed, [t.delivery()])
  })
})
