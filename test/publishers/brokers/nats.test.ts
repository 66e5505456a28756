import { jetstreamManager } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import { describe, expect, it, onTestFinished } from 'vitest'
import type { Publisher } from '../../../src/core/spi/index.ts'
import { PublisherFixture } from '../../../src/testing/suites/publisher-fixture.ts'
import { newTopic, startBroker } from '../broker.ts'
import { createNatsPlace } from '../places/nats.ts'
import { testPublisher } from '../run.ts'

testPublisher('nats')

describe('nats in particular', () => {
  it('[62] waits for a stream that is full, and spends no attempt', async () => {
    const place = await createNatsPlace()
    const t = new PublisherFixture(place)
    const { host, username, password } = new URL((await startBroker('nats', () => ({}) as Publisher)).url)
    const connection = await connect({ servers: host, user: username, pass: password })
    onTestFinished(async () => {
      await t.close()
      await connection.close()
      await place.dispose()
    })
    const full = newTopic()
    const { streams } = await jetstreamManager(connection)
    await streams.add({ name: full, subjects: [full], max_msgs: 1, discard: 'new' } as never)
    const publisher = t.open()
    await t.sends(publisher, [t.delivery({ topic: full })])
    const results = await t.send(publisher, [t.delivery({ topic: full }), t.delivery()])
    expect(results.map((result) => t.verdict(result))).toEqual(['outage', 'done'])
  })

  it('[63] stores once what is sent again because its answer was lost', async () => {
    const place = await createNatsPlace()
    const t = new PublisherFixture(place)
    onTestFinished(async () => {
      await t.close()
      await place.dispose()
    })
    const [publisher, delivery] = [t.open(), t.delivery({ data: '"once"' })]
    await t.sends(publisher, [delivery])
    await t.sends(publisher, [delivery])
    await t.sends(publisher, [t.delivery({ data: '"last"' })])
    const bodies = (await place.received(2)).map(({ body }) => Buffer.from(body).toString())
    expect(bodies).toEqual(['"once"', '"last"'])
  })
})
