/** The publishers that `npm run test:publishers` can run the conformance suite on. */
import type { PublisherHarness, SuiteOptions } from '../../src/testing/suites/index.ts'
import { createFilePlace } from './places/file.ts'
import { createForwardPlace } from './places/forward.ts'
import { createKafkaPlace } from './places/kafka.ts'
import { createMqttPlace } from './places/mqtt.ts'
import { createNatsPlace } from './places/nats.ts'
import { createRabbitmqPlace } from './places/rabbitmq.ts'
import { createRedisPlace } from './places/redis.ts'
import { createWebhookPlace } from './places/webhook.ts'

export interface PublisherTarget {
  readonly skip: NonNullable<SuiteOptions['skip']>
  create(): Promise<PublisherHarness>
}

const CLOUDEVENTS = [
  'CloudEvents as one document',
  'CloudEvents as one document, of bytes',
  'CloudEvents with the payload as it is',
]

const because = (reason: string, ...tests: readonly string[]): PublisherTarget['skip'] =>
  tests.map((test) => ({ test, reason }))

export const PUBLISHER_TARGETS: Readonly<Record<string, PublisherTarget>> = {
  file: {
    create: createFilePlace,
    skip: because('a line has no place beside the payload', 'CloudEvents with the payload as it is'),
  },
  forward: {
    create: createForwardPlace,
    skip: [
      ...because('events stay what they are', ...CLOUDEVENTS),
      ...because(
        'it is an event of its own in the other outbox',
        'a later run has an id of its own to be recognised by',
      ),
    ],
  },
  kafka: { create: createKafkaPlace, skip: [] },
  mqtt: { create: createMqttPlace, skip: [] },
  nats: { create: createNatsPlace, skip: [] },
  rabbitmq: { create: createRabbitmqPlace, skip: [] },
  redis: { create: createRedisPlace, skip: [] },
  webhook: { create: createWebhookPlace, skip: [] },
}
