import { AckPolicy, DeliverPolicy, jetstream, jetstreamManager } from '@nats-io/jetstream'
import { connect, type MsgHdrs, type NatsConnection } from '@nats-io/transport-node'
import { natsPublisher } from '../../../src/publishers/nats.ts'
import type { PublisherHarness, ReceivedMessage } from '../../../src/testing/suites/index.ts'
import { newTopic, startBroker } from '../broker.ts'
import { lowerNames, untilThere } from '../received.ts'

const optionsFor = (url: string): object => {
  const { host, username, password } = new URL(url)
  return { servers: host, user: username, pass: password, reconnect: false }
}

const messageOf = (data: Uint8Array, headers: MsgHdrs | undefined): ReceivedMessage => {
  const all = lowerNames(
    Object.fromEntries((headers?.keys() ?? []).map((name) => [name, headers?.get(name) ?? ''])),
  )
  return { body: data, contentType: all['content-type'] ?? null, key: all['event-key'] ?? null, headers: all }
}

export const createNatsPlace = async (): Promise<PublisherHarness> => {
  const broker = await startBroker('nats', (url) => natsPublisher({ servers: url }))
  const [topic, stream] = [newTopic(), newTopic()]
  const asking = async <T>(ask: (connection: NatsConnection) => Promise<T>): Promise<T> => {
    const connection = await connect(optionsFor(broker.url))
    try {
      return await ask(connection)
    } finally {
      await connection.close()
    }
  }
  await asking(async (connection) =>
    (await jetstreamManager(connection)).streams.add({ name: stream, subjects: [topic] }),
  )
  const look = (): Promise<ReceivedMessage[]> =>
    asking(async (connection) => {
      const manager = await jetstreamManager(connection)
      const { state } = await manager.streams.info(stream)
      if (state.messages === 0) return []
      const consumer = await jetstream(connection).consumers.get(stream, {
        deliver_policy: DeliverPolicy.All,
        ack_policy: AckPolicy.None,
      } as never)
      const found: ReceivedMessage[] = []
      const messages = await consumer.fetch({ max_messages: state.messages, expires: 2_000 })
      for await (const { data, headers } of messages) found.push(messageOf(data, headers))
      return found
    })
  return {
    topic,
    keepsKey: true,
    unknownTopic: 'nobody.listens.here',
    tooLarge: 1_200_000,
    ...broker.hooks,
    open: ({ format = 'plain' } = {}) => natsPublisher({ servers: broker.url, format }),
    openRefused: () => natsPublisher({ servers: broker.url.replace(/\/\/.*@/, '//posthaste:wrong@') }),
    // A line of the protocol that is longer than the server takes, which it tells nobody.
    openPoisoned: async () => ({
      publisher: natsPublisher({ servers: broker.url }),
      poison: { topic: `${topic}.${'x'.repeat(5_000)}` },
    }),
    received: (count) => untilThere(count, look),
    dispose: () => broker.close(),
  }
}
