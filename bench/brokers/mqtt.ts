import { connectAsync } from 'mqtt'
import { mqttPublisher } from '../../src/publishers/mqtt.ts'
import { type Carrier, newName, type RawMessage, windowed } from './carriers.ts'

export const mqtt: Carrier = {
  name: 'mqtt',
  client: 'mqtt',
  async open(url) {
    const topic = newName()
    return {
      topic,
      publisher: () => mqttPublisher({ url }),
      async raw() {
        const client = await connectAsync(url, { protocolVersion: 5 })
        const sendOne = ({ body, contentType, headers }: RawMessage): Promise<unknown> =>
          client.publishAsync(topic, body as string, {
            qos: 1,
            properties: { contentType, userProperties: Object.fromEntries(headers) },
          })
        return { send: (messages) => windowed(messages, sendOne), close: () => client.endAsync() }
      },
      // Nobody listens, so nothing stays.
      remove: async () => undefined,
    }
  },
}
