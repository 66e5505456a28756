import { createClient } from 'redis'
import { redisPublisher } from '../../src/publishers/redis.ts'
import { type Carrier, newName, type RawMessage, windowed } from './carriers.ts'

export const redis: Carrier = {
  name: 'redis',
  client: 'redis',
  async open(url) {
    const topic = newName()
    return {
      topic,
      publisher: () => redisPublisher({ url }),
      async raw() {
        const client = createClient({ url })
        await client.connect()
        const sendOne = ({ body, contentType, headers }: RawMessage): Promise<unknown> =>
          client.xAdd(topic, '*', {
            'content-type': contentType,
            ...Object.fromEntries(headers),
            data: body as string,
          })
        return { send: (messages) => windowed(messages, sendOne), close: async () => client.destroy() }
      },
      async remove() {
        const client = createClient({ url })
        await client.connect()
        await client.del(topic)
        client.destroy()
      },
    }
  },
}
