import { type ChannelModel, type ConsumeMessage, connect } from 'amqplib'
import { rabbitmqPublisher } from '../../../src/publishers/rabbitmq/index.ts'
import type { PublisherHarness, ReceivedMessage } from '../../../src/testing/suites/index.ts'
import { newTopic, startBroker } from '../broker.ts'
import { lowerNames, untilThere } from '../received.ts'

const messageOf = ({ content, properties }: ConsumeMessage): ReceivedMessage => {
  const headers = lowerNames(properties.headers as Record<string, string>)
  return {
    body: content,
    contentType: (properties.contentType as string | undefined) ?? null,
    key: headers['event-key'] ?? null,
    headers,
  }
}

export const createRabbitmqPlace = async (): Promise<PublisherHarness> => {
  const broker = await startBroker('rabbitmq', (url) => rabbitmqPublisher({ url }))
  const topic = newTopic()
  const asking = async <T>(ask: (connection: ChannelModel) => Promise<T>): Promise<T> => {
    const connection = await connect(broker.url)
    connection.on('error', () => undefined)
    try {
      return await ask(connection)
    } finally {
      await connection.close().catch(() => undefined)
    }
  }
  await asking(async (connection) => await (await connection.createChannel()).assertQueue(topic))
  /** Without acknowledging, so that everything is still there, and in its order, when we have gone. */
  const look = (): Promise<ReceivedMessage[]> =>
    asking(async (connection) => {
      const channel = await connection.createChannel()
      const { messageCount } = await channel.checkQueue(topic)
      const found: ReceivedMessage[] = []
      if (messageCount === 0) return found
      await new Promise<void>((resolve, reject) => {
        channel.on('close', () => reject(new Error('the channel was closed')))
        const take = (message: ConsumeMessage | null): void => {
          if (message !== null) found.push(messageOf(message))
          if (found.length >= messageCount) resolve()
        }
        channel.consume(topic, take).catch(reject)
      })
      return found
    })
  return {
    topic,
    keepsKey: true,
    unknownTopic: newTopic(),
    tooLarge: 2_000_001,
    ...broker.hooks,
    open: ({ format = 'plain' } = {}) => rabbitmqPublisher({ url: broker.url, format }),
    openRefused: () => rabbitmqPublisher({ url: broker.url.replace(/\/\/.*@/, '//posthaste:wrong@') }),
    received: (count) => untilThere(count, look),
    dispose: () => broker.close(),
  }
}
