/** No secret in anything that the library says: on SQLite. test/databases/canary.test.ts is the same on PostgreSQL. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { createOutbox } from '../../src/index.ts'
import { kafkaPublisher } from '../../src/publishers/kafka/index.ts'
import { mqttPublisher } from '../../src/publishers/mqtt.ts'
import { natsPublisher } from '../../src/publishers/nats.ts'
import { rabbitmqPublisher } from '../../src/publishers/rabbitmq/index.ts'
import { redisPublisher } from '../../src/publishers/redis.ts'
import { webhookPublisher } from '../../src/publishers/webhook/index.ts'
import { mysqlStore } from '../../src/stores/mysql/index.ts'
import { postgresStore } from '../../src/stores/postgres/index.ts'
import { sqliteStore } from '../../src/stores/sqlite/index.ts'
import { CANARY, expectNoCanary, faces, loggers, singAlong } from './canary.ts'

it('a secret in payload, headers and errors is in no log, metric, span or error', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'posthaste-canary-'))
  const store = sqliteStore({ file: join(folder, 'shop.db'), driver: 'libsql' })
  const { default: Database } = await import('libsql')
  const corrupt = async (id: string): Promise<void> => {
    const db = new Database(join(folder, 'shop.db'))
    db.prepare('UPDATE outbox_events SET payload = ? WHERE id = ?').run(
      `{"a": ${CANARY}`,
      Buffer.from(id.replaceAll('-', ''), 'hex'),
    )
    db.close()
  }
  expectNoCanary(await singAlong(store as never, corrupt))
  rmSync(folder, { recursive: true, force: true })
})

const DSN = (scheme: string): string => `${scheme}://shop:${CANARY}@127.0.0.1:1/shop`

it.each([
  ['PostgreSQL', () => postgresStore({ connectionString: DSN('postgres') })],
  ['MySQL', () => mysqlStore({ connectionString: DSN('mysql') })],
])('a database that cannot be reached is reported without the password: %s', async (_, make) => {
  const { logger, logs } = loggers()
  const errors: string[] = []
  try {
    const outbox = createOutbox({ store: make() as never, logger })
    outbox.on('*', () => undefined)
    await outbox.start().catch((error: unknown) => errors.push(...faces(error)))
    await outbox.inspect.counts().catch((error: unknown) => errors.push(...faces(error)))
    await outbox.close().catch((error: unknown) => errors.push(...faces(error)))
  } catch (error) {
    errors.push(...faces(error))
  }
  expect(errors.length).toBeGreaterThan(0)
  for (const text of [...logs, ...errors]) expect(text).not.toContain(CANARY)
})

const BAD = `postgres//shop:${CANARY}@db`

it.each<[string, () => unknown]>([
  ['a connection string that is none', () => postgresStore({ connectionString: BAD })],
  [
    'a connection string with a bad port',
    () => postgresStore({ connectionString: `postgres://u:${CANARY}@h:99999999/x` }),
  ],
  [
    'a connection string of the wrong kind',
    () => postgresStore({ connectionString: [DSN('postgres')] as never }),
  ],
  ['MySQL with a bad address', () => mysqlStore({ connectionString: BAD })],
  [
    'Kafka with a bad password',
    () =>
      kafkaPublisher({
        brokers: 'h:1',
        sasl: { mechanism: 'PLAIN', username: 'u', password: 5 as never, token: CANARY } as never,
      }),
  ],
  ['RabbitMQ with a bad address', () => rabbitmqPublisher({ url: BAD } as never)],
  ['Redis with a bad address', () => redisPublisher({ url: BAD } as never)],
  ['NATS with a bad address', () => natsPublisher({ servers: BAD, password: CANARY } as never)],
  ['MQTT with a bad address', () => mqttPublisher({ url: BAD } as never)],
  ['a webhook with a bad secret', () => webhookPublisher({ url: 'https://h', secret: CANARY } as never)],
  ['a webhook with a bad address', () => webhookPublisher({ url: BAD, secret: CANARY } as never)],
  ['an option of an outbox', () => createOutbox({ store: DSN('postgres') as never })],
])('a mistake in an option is reported without what was given: %s', async (_, make) => {
  const said: string[] = []
  try {
    const made = make() as { readonly open?: (context: object) => Promise<void> }
    if (made.open !== undefined) {
      const outbox = createOutbox({ store: made as never })
      await outbox.inspect.counts().catch((error: unknown) => said.push(...faces(error)))
      await outbox.close().catch(() => undefined)
    }
  } catch (error) {
    said.push(...faces(error))
  }
  for (const text of said) expect(text).not.toContain(CANARY)
})
