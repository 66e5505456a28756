/** Several clusters of one kind in one outbox: each has a connection, a breaker and a pace of its own. */
import { createClient } from 'redis'
import { afterAll, describe, expect, it } from 'vitest'
import { killService, removeService, startService } from '../../../scripts/services/index.ts'
import { createOutbox } from '../../../src/core/outbox.ts'
import { redisPublisher } from '../../../src/publishers/redis.ts'
import { memoryStore } from '../../../src/stores/memory/index.ts'
import { newTopic } from '../broker.ts'
import { untilThere } from '../received.ts'

const LEFT = 'redis@left'
const RIGHT = 'redis@right'

/** What lies in the stream, as numbers, in order. */
const numbersIn = async (url: string, stream: string): Promise<number[]> => {
  const client = createClient({ url, socket: { reconnectStrategy: false } })
  client.on('error', () => undefined)
  await client.connect()
  try {
    const entries = await client.xRange(stream, '-', '+')
    return (entries ?? []).map(({ message }) => (JSON.parse(message.data ?? '') as { n: number }).n)
  } finally {
    client.destroy()
  }
}

describe('two clusters of one kind', () => {
  afterAll(async () => {
    await removeService(LEFT)
    await removeService(RIGHT)
  })

  it('hear what is for them; while one is away the other goes on, and the first one catches up', async () => {
    const [left, right] = [await startService(LEFT), await startService(RIGHT)]
    const topic = newTopic()
    const options = { events: ['order.*'], topic, breaker: { openMs: 100, maxOpenMs: 300 } }
    const outbox = createOutbox({
      store: memoryStore(),
      pollIntervalMs: 50,
      destinations: {
        left: { ...options, to: redisPublisher({ url: left }) },
        right: { ...options, to: redisPublisher({ url: right }), events: ['*'] },
      },
    })
    await outbox.start()
    const publish = (type: string, n: number) =>
      outbox.transaction((tx) => outbox.publish(tx, { type, key: 'k', payload: { n } }))
    const arrived = async (url: string, numbers: readonly number[]): Promise<void> => {
      const found = await untilThere(numbers.length, () => numbersIn(url, topic))
      // Some may have come twice; the first ones are in order.
      expect([...new Set(found)]).toEqual(numbers)
    }
    await publish('order.placed', 1)
    await publish('mail.sent', 2)
    await arrived(left, [1])
    await arrived(right, [1, 2])
    await killService(LEFT)
    for (const n of [3, 4, 5]) await publish('order.placed', n)
    await arrived(right, [1, 2, 3, 4, 5])
    await startService(LEFT)
    await arrived(left, [1, 3, 4, 5])
    await outbox.flush()
    const { deliveries } = await outbox.inspect.list({ limit: 100 })
    expect(deliveries.every(({ status, attempts }) => status === 'done' && attempts === 1)).toBe(true)
    await outbox.close()
  })
})
