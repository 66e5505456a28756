import { describe, expect, it, onTestFinished } from 'vitest'
import { mqttPublisher } from '../../../src/publishers/mqtt.ts'
import { PublisherFixture } from '../../../src/testing/suites/publisher-fixture.ts'
import { startProxy } from '../../databases/proxy.ts'
import { newTopic, startBroker } from '../broker.ts'
import { testPublisher } from '../run.ts'

testPublisher('mqtt')

describe('mqtt in particular', () => {
  const open = async (qos: 1 | 2) => {
    const { url } = await startBroker('mosquitto', (each) => mqttPublisher({ url: each }))
    const proxy = await startProxy(url)
    const connections = new Set<number>()
    proxy.onSent((connection) => void connections.add(connection))
    const t = new PublisherFixture({ topic: newTopic() } as never)
    onTestFinished(async () => {
      await t.close()
      await proxy[Symbol.asyncDispose]()
    })
    return { t, connections, publisher: t.closing(mqttPublisher({ url: proxy.url, qos })) }
  }

  it.each([1, 2] as const)('a topic that is closed to us is about its events alone, QoS %i', async (qos) => {
    const { t, publisher } = await open(qos)
    const results = await t.send(publisher, [
      t.delivery(),
      t.delivery({ topic: 'closed/orders' }),
      t.delivery(),
    ])
    expect(results.map((result) => t.verdict(result))).toEqual(['done', 'retry', 'done'])
  })

  it('has no more under way than the broker takes, and so keeps its connection', async () => {
    const { t, publisher, connections } = await open(2)
    await t.sends(publisher, [t.delivery()])
    // Two at once share the connection, and what it takes.
    const batches = [0, 1].map(() =>
      t.send(
        publisher,
        Array.from({ length: 200 }, () => t.delivery()),
      ),
    )
    const verdicts = (await Promise.all(batches)).flat().map((result) => t.verdict(result))
    expect(new Set(verdicts)).toEqual(new Set(['done']))
    expect(connections.size).toBe(1)
  })
})
