import { jetstream, jetstreamManager } from '@nats-io/jetstream'
import { connect, headers as newHeaders } from '@nats-io/transport-node'
import { natsPublisher } from '../../src/publishers/nats.ts'
import { type Carrier, newName, type RawMessage, windowed } from './carriers.ts'

export const nats: Carrier = {
  name: 'nats',
  client: '@nats-io/jetstream',
  async open(url) {
    const { host, username, password } = new URL(url)
    const topic = newName()
    const open = () => connect({ servers: host, user: username, pass: password })
    const manager = await open()
    const { streams } = await jetstreamManager(manager)
    await streams.add({ name: topic, subjects: [topic] })
    return {
      topic,
      publisher: () => natsPublisher({ servers: url }),
      async raw() {
        const connection = await open()
        const stream = jetstream(connection)
        const sendOne = ({ id, body, contentType, headers }: RawMessage): Promise<unknown> => {
          const all = newHeaders()
          all.set('content-type', contentType)
          for (const [name, value] of headers) all.set(name, value)
          return stream.publish(topic, body as string, { msgID: id, headers: all })
        }
        return { send: (messages) => windowed(messages, sendOne), close: () => connection.close() }
      },
      async remove() {
        await streams.delete(topic)
        await manager.close()
      },
    }
  },
}
