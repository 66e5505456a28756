import { kafkaPublisher } from '../../../src/publishers/kafka/index.ts'
import type { PublisherHarness, ReceivedMessage } from '../../../src/testing/suites/index.ts'
import { newTopic, startBroker } from '../broker.ts'
import { addressOf, createTopic, readTopic, type StoredRecord } from '../kafka-topic.ts'
import { lowerNames, untilThere } from '../received.ts'

const messageOf = ({ key, value, headers }: StoredRecord): ReceivedMessage => {
  const all = lowerNames(headers)
  return { body: value, contentType: all['content-type'] ?? null, key: key?.toString() ?? null, headers: all }
}

/** A broker tells its clients where it is; behind the proxy they have to hear that it is the proxy. */
export const tellPort =
  (from: string) =>
  (data: Buffer, to: number): Buffer => {
    const { hostname, port } = new URL(from)
    const address = Buffer.alloc(hostname.length + 4)
    address.write(hostname)
    address.writeInt32BE(Number(port), hostname.length)
    const changed = Buffer.from(data)
    for (let at = changed.indexOf(address); at >= 0; at = changed.indexOf(address, at + 1))
      changed.writeInt32BE(to, at + hostname.length)
    return changed
  }

export const createKafkaPlace = async (): Promise<PublisherHarness> => {
  const open = (url: string) => kafkaPublisher(addressOf(url))
  const broker = await startBroker('kafka', open, tellPort)
  const address = addressOf(broker.url)
  const topic = newTopic()
  // Of one partition: the suite looks at the order of events without keys too.
  await createTopic(address, topic)
  return {
    topic,
    keepsKey: true,
    unknownTopic: newTopic(),
    tooLarge: 1_000_001,
    ...broker.hooks,
    open: ({ format = 'plain' } = {}) => kafkaPublisher({ ...address, format }),
    openRefused: () => kafkaPublisher({ ...address, sasl: { ...address.sasl, password: 'wrong' } }),
    received: (count) => untilThere(count, async () => (await readTopic(address, topic)).map(messageOf)),
    dispose: () => broker.close(),
  }
}
