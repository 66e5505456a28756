/** Every publisher with what it cannot do without, and the names of all its options. None of them needs anybody to be there. */
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Publisher } from '../../src/core/spi/index.ts'
import {
  type FilePublisherOptions,
  filePublisher,
  type StdoutPublisherOptions,
  stdoutPublisher,
} from '../../src/publishers/file.ts'
import { type ForwardPublisherOptions, forwardPublisher } from '../../src/publishers/forward.ts'
import { type KafkaPublisherOptions, kafkaPublisher } from '../../src/publishers/kafka/index.ts'
import { type MqttPublisherOptions, mqttPublisher } from '../../src/publishers/mqtt.ts'
import { type NatsPublisherOptions, natsPublisher } from '../../src/publishers/nats.ts'
import { type RabbitmqPublisherOptions, rabbitmqPublisher } from '../../src/publishers/rabbitmq/index.ts'
import { type RedisPublisherOptions, redisPublisher } from '../../src/publishers/redis.ts'
import { type WebhookPublisherOptions, webhookPublisher } from '../../src/publishers/webhook/index.ts'

interface Listed {
  readonly needed: object
  readonly options: Readonly<Record<string, 'needed' | 'optional'>>
  make(options: object): Publisher
}

/** The compiler misses no option, and knows which are optional. */
type Kinds<Options> = {
  readonly [Name in keyof Required<Options>]: object extends Pick<Options, Name> ? 'optional' : 'needed'
}

const listed = <Options extends object>(
  make: (options: Options) => Publisher,
  needed: Options,
  options: Kinds<Options>,
): Listed => ({ make: make as Listed['make'], needed, options: options as Listed['options'] })

const FORMAT = { format: 'optional', source: 'optional' } as const

export const ALL_PUBLISHERS: Readonly<Record<string, Listed>> = {
  file: listed<FilePublisherOptions>(
    filePublisher,
    { path: join(tmpdir(), 'posthaste-never-written') },
    { ...FORMAT, path: 'needed', sync: 'optional' },
  ),
  stdout: listed<StdoutPublisherOptions>(stdoutPublisher, {}, FORMAT),
  forward: listed<ForwardPublisherOptions<null>>(
    forwardPublisher,
    { to: { transaction: (work) => work(null), publishMany: async () => [] } },
    { to: 'needed' },
  ),
  kafka: listed<KafkaPublisherOptions>(
    kafkaPublisher,
    { brokers: '127.0.0.1:1' },
    {
      ...FORMAT,
      brokers: 'needed',
      clientId: 'optional',
      sasl: 'optional',
      tls: 'optional',
      compression: 'optional',
      transactionalId: 'optional',
      maxMessageBytes: 'optional',
      connectTimeoutMs: 'optional',
      requestTimeoutMs: 'optional',
    },
  ),
  mqtt: listed<MqttPublisherOptions>(
    mqttPublisher,
    { url: 'mqtt://127.0.0.1:1' },
    {
      ...FORMAT,
      url: 'needed',
      qos: 'optional',
      retain: 'optional',
      clientId: 'optional',
      connectTimeoutMs: 'optional',
    },
  ),
  nats: listed<NatsPublisherOptions>(
    natsPublisher,
    { servers: 'nats://127.0.0.1:1' },
    {
      ...FORMAT,
      servers: 'needed',
      connection: 'optional',
      ackTimeoutMs: 'optional',
      connectTimeoutMs: 'optional',
    },
  ),
  rabbitmq: listed<RabbitmqPublisherOptions>(
    rabbitmqPublisher,
    { url: 'amqp://127.0.0.1:1' },
    {
      ...FORMAT,
      url: 'needed',
      exchange: 'optional',
      mandatory: 'optional',
      persistent: 'optional',
      connection: 'optional',
      connectTimeoutMs: 'optional',
    },
  ),
  redis: listed<RedisPublisherOptions>(
    redisPublisher,
    { url: 'redis://127.0.0.1:1' },
    {
      ...FORMAT,
      url: 'needed',
      prefix: 'optional',
      waitForReplicas: 'optional',
      waitMs: 'optional',
      answerTimeoutMs: 'optional',
      connectTimeoutMs: 'optional',
    },
  ),
  webhook: listed<WebhookPublisherOptions>(
    webhookPublisher,
    {
      endpoint: {
        url: 'https://example.com/',
        secret: `whsec_${Buffer.alloc(32, 7).toString('base64')}`,
      },
    },
    {
      ...FORMAT,
      endpoint: 'needed',
      concurrency: 'optional',
      timeoutMs: 'optional',
      maxResponseBytes: 'optional',
      breakerThreshold: 'optional',
      breakerOpenMs: 'optional',
      breakerMaxOpenMs: 'optional',
      allowHttp: 'optional',
      allowNetworks: 'optional',
      onGone: 'optional',
      lookup: 'optional',
    },
  ),
}
