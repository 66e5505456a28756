import { type Channel, connect } from 'amqplib'
import { rabbitmqPublisher } from '../../src/publishers/rabbitmq/index.ts'
import { EVENT_TYPE } from '../peers/payload.ts'
import { type Carrier, newName, type RawMessage, windowed } from './carriers.ts'

export const rabbitmq: Carrier = {
  name: 'rabbitmq',
  client: 'amqplib',
  async open(url) {
    const topic = newName()
    const asking = async (ask: (channel: Channel) => Promise<unknown>): Promise<void> => {
      const connection = await connect(url)
      await ask(await connection.createChannel())
      await connection.close()
    }
    await asking((channel) => channel.assertQueue(topic))
    return {
      topic,
      publisher: () => rabbitmqPublisher({ url }),
      async raw() {
        const connection = await connect(url, { noDelay: true })
        const channel = await connection.createConfirmChannel()
        const sendOne = ({ id, body, contentType, headers }: RawMessage): Promise<void> =>
          new Promise((resolve, reject) => {
            const properties = {
              mandatory: true,
              persistent: true,
              contentType,
              messageId: id,
              timestamp: Math.floor(Date.now() / 1_000),
              type: EVENT_TYPE,
              appId: 'posthaste',
              headers: Object.fromEntries(headers),
            }
            channel.publish('', topic, Buffer.from(body as string), properties, (error) =>
              error ? reject(error as Error) : resolve(),
            )
          })
        return { send: (messages) => windowed(messages, sendOne), close: () => connection.close() }
      },
      remove: () => asking((channel) => channel.deleteQueue(topic)),
    }
  },
}
