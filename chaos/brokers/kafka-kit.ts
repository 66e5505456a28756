/** Kafka: a topic of three partitions. A position is partition and offset; order is that of a partition, and so of a key. */
import { randomUUID } from 'node:crypto'
import { Consumer, type RecordsBatch } from '@platformatic/kafka'
import { kafkaPublisher } from '../../src/publishers/kafka/index.ts'
import { addressOf, createTopic } from '../../test/publishers/kafka-topic.ts'
import { tellPort } from '../../test/publishers/places/kafka.ts'
import { ANSWER_WITHIN_MS, type Arrival, type Kit, TOPIC } from './kit.ts'

const PARTITIONS = 3
const FETCH_BYTES = 1_000_000
const WAIT_MS = 100

const arrivalsIn = (partition: number, batches: readonly RecordsBatch[]): Arrival[] =>
  batches.flatMap(({ firstOffset, maxTimestamp, records }) =>
    records.map(({ offsetDelta, key, headers }) => ({
      position: `${partition}:${firstOffset + BigInt(offsetDelta)}`,
      // With LogAppendTime all records of a batch have this one.
      at: Number(maxTimestamp),
      key: key?.toString() ?? null,
      headers: Object.fromEntries([...headers].map(([name, value]) => [String(name), String(value)])),
    })),
  )

export const kafkaKit: Kit = {
  setUp: (url) =>
    createTopic(addressOf(url), TOPIC, PARTITIONS, { 'message.timestamp.type': 'LogAppendTime' }),
  publisher: (url) => kafkaPublisher({ ...addressOf(url), requestTimeoutMs: ANSWER_WITHIN_MS }),
  tell: tellPort,
  async read(url) {
    const { brokers, sasl } = addressOf(url)
    const consumer = new Consumer({
      clientId: 'chaos-reader',
      groupId: randomUUID(),
      bootstrapBrokers: [brokers],
      sasl,
      retries: false,
      requestTimeout: ANSWER_WITHIN_MS,
    })
    // Failures are reported here too, beside those of what was asked.
    consumer.connections.on('connecting', ({ connection }) => connection.on('error', () => undefined))
    const offsets = Array.from({ length: PARTITIONS }, () => 0n)
    return {
      async next() {
        const { topics } = await consumer.metadata({ topics: [TOPIC] })
        const found = topics.get(TOPIC)
        const { responses } = await consumer.fetch({
          node: found?.partitions[0]?.leader ?? 1,
          minBytes: 1,
          maxBytes: FETCH_BYTES,
          maxWaitTime: WAIT_MS,
          topics: [
            {
              topicId: found?.id ?? '',
              partitions: offsets.map((fetchOffset, partition) => ({
                partition,
                currentLeaderEpoch: -1,
                fetchOffset,
                lastFetchedEpoch: -1,
                partitionMaxBytes: FETCH_BYTES,
              })),
            },
          ],
        })
        return (responses[0]?.partitions ?? []).flatMap(({ partitionIndex, records: batches = [] }) => {
          const last = batches.at(-1)
          if (last !== undefined)
            offsets[partitionIndex] = last.firstOffset + BigInt(last.lastOffsetDelta) + 1n
          return arrivalsIn(partitionIndex, batches)
        })
      },
      close: () => new Promise((resolve) => void consumer.close(true, resolve)),
    }
  },
}
