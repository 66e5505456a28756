import { connect, type IConnackPacket } from 'mqtt'
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
        const client = connect(url, { protocolVersion: 5 })
        const { properties } = await new Promise<IConnackPacket>((resolve) => client.once('connect', resolve))
        const sendOne = ({ body, contentType, headers }: RawMessage): Promise<unknown> =>
          client.publishAsync(topic, body as string, {
            qos: 1,
            properties: { contentType, userProperties: Object.fromEntries(headers) },
          })
        // The library does not keep to what the broker takes before it has answered; who uses it has to.
        const most = properties?.receiveMaximum
        return { send: (messages) => windowed(messages, sendOne, most), close: () => client.endAsync() }
      },
      // Nobody listens, so nothing stays.
      remove: async () => undefined,
    }
  },
}
