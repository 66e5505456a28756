/** Somebody who takes every connection and never says a word, such as a machine that is out of memory. */
import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import type { Publisher } from '../../src/core/spi/index.ts'
import { kafkaPublisher } from '../../src/publishers/kafka/index.ts'
import { mqttPublisher } from '../../src/publishers/mqtt.ts'
import { natsPublisher } from '../../src/publishers/nats.ts'
import { rabbitmqPublisher } from '../../src/publishers/rabbitmq/index.ts'
import { redisPublisher } from '../../src/publishers/redis.ts'
import { PublisherFixture } from '../../src/testing/suites/publisher-fixture.ts'

const connectTimeoutMs = 300
/** Far more than was said. The first one loads the library too, which a busy machine takes longer for. */
const LIMIT_MS = 5_000
const FIRST_LIMIT_MS = 60_000

const PUBLISHERS: Readonly<Record<string, (host: string) => Publisher>> = {
  kafka: (host) => kafkaPublisher({ brokers: host, connectTimeoutMs, requestTimeoutMs: 300 }),
  mqtt: (host) => mqttPublisher({ url: `mqtt://${host}`, connectTimeoutMs }),
  nats: (host) => natsPublisher({ servers: `nats://${host}`, connectTimeoutMs }),
  'nats that begins with TLS': (host) =>
    natsPublisher({ servers: host, connectTimeoutMs, connection: { tls: { handshakeFirst: true } } }),
  rabbitmq: (host) => rabbitmqPublisher({ url: `amqp://${host}`, connectTimeoutMs }),
  redis: (host) => redisPublisher({ url: `redis://${host}`, connectTimeoutMs }),
}

const t = new PublisherFixture({ topic: 'orders' } as never)
const server = createServer({ allowHalfOpen: false })
const open = new Set<Socket>()
let connected = 0

beforeEach(async () => {
  connected = 0
  server.on('connection', (socket) => {
    connected += 1
    open.add(socket)
    socket.on('error', () => undefined).on('close', () => open.delete(socket))
    socket.resume()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
})

afterEach(async () => {
  server.removeAllListeners('connection')
  for (const socket of open) socket.destroy()
  server.close()
  await once(server, 'close')
})

it.each(Object.keys(PUBLISHERS))(
  '%s waits no longer than was said, and leaves no connection behind',
  async (name) => {
    const publisher = (PUBLISHERS[name] as (host: string) => Publisher)(
      `127.0.0.1:${(server.address() as AddressInfo).port}`,
    )
    for (let n = 0; n < 3; n += 1) {
      const [result] = await t.send(publisher, [t.delivery()], n === 0 ? FIRST_LIMIT_MS : LIMIT_MS)
      expect(t.verdict(result)).toBe('outage')
      expect(String((result as { readonly error: unknown }).error)).not.toContain('aborted')
    }
    expect(connected).toBeGreaterThanOrEqual(3)
    await vi.waitFor(() => expect(open.size).toBe(0), { timeout: 60_000 })
    await publisher.close?.()
  },
)
