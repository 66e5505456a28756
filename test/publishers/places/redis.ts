import { createClient, RESP_TYPES } from 'redis'
import { redisPublisher } from '../../../src/publishers/redis.ts'
import type { PublisherHarness, ReceivedMessage } from '../../../src/testing/suites/index.ts'
import { newTopic, startBroker } from '../broker.ts'
import { lowerNames, untilThere } from '../received.ts'

/** An answer of XRANGE: id, and names and values in turns, as bytes. */
type Entry = [Buffer, Buffer[]]

const messageOf = ([, fields]: Entry): ReceivedMessage => {
  const pairs = new Map<string, Buffer>()
  for (let at = 0; at < fields.length; at += 2) pairs.set(String(fields[at]), fields[at + 1] as Buffer)
  const { data = Buffer.alloc(0), 'content-type': contentType, ...headers } = Object.fromEntries(pairs)
  const texts = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, String(value)]))
  return {
    body: data,
    contentType: contentType === undefined ? null : String(contentType),
    key: texts['event-key'] ?? null,
    headers: lowerNames(texts),
  }
}

export const createRedisPlace = async (): Promise<PublisherHarness> => {
  const open = (url: string) => redisPublisher({ url })
  const broker = await startBroker('redis', open)
  const topic = newTopic()
  const ask = async <T>(args: readonly string[]): Promise<T> => {
    const client = createClient({ url: broker.url, socket: { reconnectStrategy: false } })
    client.on('error', () => undefined)
    await client.connect()
    try {
      const types = { [RESP_TYPES.BLOB_STRING]: Buffer }
      return (await client.withTypeMapping(types).sendCommand([...args])) as T
    } finally {
      client.destroy()
    }
  }
  const unknownTopic = newTopic()
  await ask(['SET', unknownTopic, 'this is no stream'])
  return {
    topic,
    keepsKey: true,
    unknownTopic,
    ...broker.hooks,
    open: ({ format = 'plain' } = {}) => redisPublisher({ url: broker.url, format }),
    openRefused: () => redisPublisher({ url: broker.url.replace('redis://', 'redis://nobody:wrong@') }),
    /** It answers that this is no protocol, and closes the connection with the rest unread: the answer may get lost. */
    async openPoisoned() {
      await ask(['CONFIG', 'SET', 'proto-max-bulk-len', '1mb'])
      const poison = { data: JSON.stringify('x'.repeat(1_100_000)) }
      return { publisher: open(broker.url), poison, mayBeNamed: true }
    },
    received: (count) =>
      untilThere(count, async () => (await ask<Entry[]>(['XRANGE', topic, '-', '+'])).map(messageOf)),
    async dispose() {
      await ask(['CONFIG', 'SET', 'proto-max-bulk-len', '512mb'])
      await broker.close()
    },
  }
}
