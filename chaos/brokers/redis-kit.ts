/** Redis: one stream. A position is the entry's id, which begins with the server's time. */
import { createClient } from 'redis'
import { redisPublisher } from '../../src/publishers/redis.ts'
import { ANSWER_WITHIN_MS, type Arrival, type Kit, TOPIC } from './kit.ts'

const COUNT = '500'
const WAIT_MS = '100'

/** An id, and names and values in turns. */
type Entry = readonly [id: string, fields: readonly string[]]

const arrivalOf = ([id, fields]: Entry): Arrival => {
  const pairs = fields.flatMap((name, at) => (at % 2 === 0 ? [[name, fields[at + 1] ?? '']] : []))
  const headers = Object.fromEntries(pairs) as Record<string, string>
  return { position: id, at: Number(id.split('-')[0]), key: headers['event-key'] ?? null, headers }
}

export const redisKit: Kit = {
  // The first entry makes the stream.
  setUp: async () => undefined,
  publisher: (url) => redisPublisher({ url, connectTimeoutMs: ANSWER_WITHIN_MS }),
  async read(url) {
    const socket = { connectTimeout: ANSWER_WITHIN_MS, reconnectStrategy: false } as const
    const client = createClient({ url, socket, disableOfflineQueue: true, RESP: 2 })
    client.on('error', () => undefined)
    await client.connect()
    let last = '0-0'
    return {
      async next() {
        const args = ['XREAD', 'COUNT', COUNT, 'BLOCK', WAIT_MS, 'STREAMS', TOPIC, last]
        const answer = (await client.sendCommand(args)) as [string, Entry[]][] | null
        const entries = answer?.[0]?.[1] ?? []
        last = entries.at(-1)?.[0] ?? last
        return entries.map(arrivalOf)
      },
      close: async () => client.destroy(),
    }
  },
}
