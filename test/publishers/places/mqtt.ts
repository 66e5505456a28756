import { connectAsync, type IPublishPacket } from 'mqtt'
import { mqttPublisher } from '../../../src/publishers/mqtt.ts'
import type { PublisherHarness, ReceivedMessage } from '../../../src/testing/suites/index.ts'
import { newTopic, startBroker } from '../broker.ts'
import { lowerNames, untilThere } from '../received.ts'

const messageOf = ({ payload, properties }: IPublishPacket): ReceivedMessage => {
  const headers = lowerNames((properties?.userProperties ?? {}) as Record<string, string>)
  return {
    body: Buffer.from(payload),
    contentType: properties?.contentType ?? null,
    key: headers['event-key'] ?? null,
    headers,
  }
}

/** Somebody listens from the beginning, with a session that outlives the broker. */
export const createMqttPlace = async (): Promise<PublisherHarness> => {
  const broker = await startBroker('mosquitto', (url) => mqttPublisher({ url }))
  const topic = newTopic()
  const received: ReceivedMessage[] = []
  const listener = await connectAsync(broker.url, {
    protocolVersion: 5,
    clientId: `listener-${topic}`,
    clean: false,
    properties: { sessionExpiryInterval: 3_600 },
    reconnectPeriod: 50,
  })
  listener.on('error', () => undefined)
  listener.on('message', (_topic, _payload, packet) => received.push(messageOf(packet)))
  await listener.subscribeAsync(topic, { qos: 2 })
  return {
    topic,
    keepsKey: true,
    unknownTopic: 'no/+/topic',
    tooLarge: 2_000_001,
    ...broker.hooks,
    // It saves once for all that it took in one round, after it has acknowledged it: killed, it would lose that.
    kill: () => broker.stop(),
    open: ({ format = 'plain' } = {}) => mqttPublisher({ url: broker.url, format }),
    openRefused: () => mqttPublisher({ url: broker.url.replace('mqtt://', 'mqtt://posthaste:wrong@') }),
    // More levels than Mosquitto takes.
    openPoisoned: async () => ({
      publisher: mqttPublisher({ url: broker.url }),
      poison: { topic: `${topic}/${'x/'.repeat(250)}` },
    }),
    received: (count) => untilThere(count, async () => received),
    async dispose() {
      await listener.endAsync(true)
      await broker.close()
    },
  }
}
