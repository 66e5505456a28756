import { jetstreamManager } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import { describe, expect, it, onTestFinished } from 'vitest'
import type { Publisher } from '../../../src/core/spi/index.ts'
import { natsPublisher } from '../../../src/publishers/nats.ts'
import { PublisherFixture } from '../../../src/testing/suites/publisher-fixture.ts'
import { newTopic, startBroker } from '../broker.ts'
import { createNatsPlace } from '../places/nats.ts'
import { testPublisher } from '../run.ts'

testPublisher('nats')

describe('nats in particular', () => {
  /** A place, and a stream of its own with these settings. */
  const begin = async (settings: object) => {
    const place = await createNatsPlace()
    const t = new PublisherFixture(place)
    const { url } = await startBroker('nats', () => ({}) as Publisher)
    const { host, username, password } = new URL(url)
    const connection = await connect({ servers: host, user: username, pass: password })
    onTestFinished(async () => {
      await t.close()
      await connection.close()
      await place.dispose()
    })
    const name = newTopic()
    const { streams } = await jetstreamManager(connection)
    await streams.add({ name, subjects: [name, `${name}.>`], ...settings } as never)
    const count = async (): Promise<number> => (await streams.info(name)).state.messages
    return { t, url, name, count, connection }
  }

  it('[62] waits for a stream that is full, and spends no attempt', async () => {
    const { t, name: full } = await begin({ max_msgs: 1, discard: 'new' })
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

  it('a subject that is closed to us is about its events alone, and is heard of at once', async () => {
    const { t, url } = await begin({})
    const servers = url.replace(/\/\/.*@/, '//guest:guest@')
    const publisher = t.closing(natsPublisher({ servers, ackTimeoutMs: 20_000 }))
    const closed = () => t.delivery({ topic: 'closed.orders' })
    const results = await t.send(publisher, [t.delivery(), closed(), t.delivery(), closed()], 10_000)
    expect(results.map((result) => t.verdict(result))).toEqual(['done', 'retry', 'done', 'retry'])
  })

  it.each(['{}', 'ok', '', '{"stream":"","seq":1}', '{"stream":"x","seq":0}'])(
    'an answer of somebody who is no stream is no acknowledgement: %s',
    async (answer) => {
      const { t, connection } = await begin({})
      const topic = newTopic()
      connection.subscribe(topic, { callback: (_error, message) => void message.respond(answer) })
      await connection.flush()
      const results = await t.send(t.open(), [t.delivery({ topic }), t.delivery()])
      expect(results.map((result) => t.verdict(result))).toEqual(['retry', 'done'])
    },
  )

  it('a header of an event gives the server no orders', async () => {
    const { t, name, count } = await begin({ allow_rollup_hdrs: true })
    const publisher = t.open()
    const headers = { 'Nats-Rollup': 'all', 'nats-expected-stream': 'another' }
    for (let n = 0; n < 3; n += 1) await t.sends(publisher, [t.delivery({ topic: name, headers })])
    expect(await count()).toBe(3)
  })

  it.each(['*', '>', 'a.*', 'a.>', '*.a', 'a\0'])('nothing is published at %j', async (end) => {
    const { t, name, count } = await begin({})
    const results = await t.send(t.open(), [
      t.delivery({ topic: `${name}.${end}` }),
      t.delivery({ topic: `${name}.a*` }),
    ])
    expect(results.map((result) => t.verdict(result))).toEqual(['dead', 'done'])
    expect(await count()).toBe(1)
  })
})
