import { createClient } from 'redis'
import { describe, expect, it, onTestFinished } from 'vitest'
import type { Publisher } from '../../../src/core/spi/index.ts'
import { redisPublisher } from '../../../src/publishers/redis.ts'
import { PublisherFixture } from '../../../src/testing/suites/publisher-fixture.ts'
import { newTopic, startBroker } from '../broker.ts'
import { testPublisher } from '../run.ts'

testPublisher('redis')

describe('redis in particular', () => {
  const begin = async () => {
    const { url } = await startBroker('redis', () => ({}) as Publisher)
    const client = createClient({ url })
    await client.connect()
    const t = new PublisherFixture({ topic: newTopic() } as never)
    onTestFinished(async () => {
      await t.close()
      client.destroy()
    })
    return { url, client, t }
  }

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

  it('a stream that is closed to us is about its events alone; a command is not', async () => {
    const { url, client, t } = await begin()
    const user = newTopic()
    onTestFinished(async () => {
      const other = createClient({ url })
      await other.connect()
      await other.sendCommand(['ACL', 'DELUSER', user])
      other.destroy()
    })
    await client.sendCommand(['ACL', 'SETUSER', user, 'on', '>word', '+@all', `~${t.harness.topic}`])
    const publisher = t.closing(redisPublisher({ url: url.replace('//', `//${user}:word@`) }))
    const send = async () =>
      (await t.send(publisher, [t.delivery(), t.delivery({ topic: 'closed' }), t.delivery()])).map((result) =>
        t.verdict(result),
      )
    expect(await send()).toEqual(['done', 'retry', 'done'])
    await client.sendCommand(['ACL', 'SETUSER', user, '-xadd'])
    expect(await send()).toEqual(['outage', 'outage', 'outage'])
  })

  it('a header cannot pass for the payload', async () => {
    const { url, client, t } = await begin()
    const { topic } = t.harness
    await t.sends(t.closing(redisPublisher({ url })), [
      t.delivery({ headers: { data: 'forged', Data: 'forged' } }),
    ])
    const [entry] = (await client.sendCommand(['XRANGE', topic, '-', '+'])) as unknown as [[string, string[]]]
    expect(entry[1]).not.toContain('forged')
  })
})
