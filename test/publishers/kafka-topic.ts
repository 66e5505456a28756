/** Topics of the test's Kafka: made, and read from their beginning without a group. */
import { randomUUID } from 'node:crypto'
import { Admin, Consumer, IS_CONTROL, Producer, type RecordsBatch } from '@platformatic/kafka'
import { untilThere } from './received.ts'

export interface StoredRecord {
  readonly partition: number
  readonly key: Buffer | null
  readonly value: Buffer
  readonly headers: Readonly<Record<string, string>>
}

export interface KafkaAddress {
  readonly brokers: string
  readonly sasl: { readonly mechanism: 'PLAIN'; readonly username: string; readonly password: string }
}

interface Aborted {
  readonly producerId: bigint
  readonly firstOffset: bigint
}

export const addressOf = (url: string): KafkaAddress => {
  const { host, username, password } = new URL(url)
  return { brokers: host, sasl: { mechanism: 'PLAIN', username, password } }
}

const settingsOf = ({ brokers, sasl }: KafkaAddress) => ({
  clientId: 'posthaste-tests',
  bootstrapBrokers: [brokers],
  sasl,
  retries: 20,
  retryDelay: 100,
})

export const deleteTopic = async (address: KafkaAddress, topic: string): Promise<void> => {
  const admin = new Admin(settingsOf(address))
  await admin.deleteTopics({ topics: [topic] })
  await admin.close()
}

export const createTopic = async (
  address: KafkaAddress,
  topic: string,
  partitions = 1,
  configs: Readonly<Record<string, string>> = {},
): Promise<void> => {
  const [admin, producer] = [new Admin(settingsOf(address)), new Producer(settingsOf(address))]
  try {
    const list = Object.entries(configs).map(([name, value]) => ({ name, value }))
    await admin.createTopics({ topics: [topic], partitions, replicas: 1, configs: list })
    // Leaders are known a moment before they serve. Who sends meanwhile is told who leads, in an answer that this client
    // cannot read before its version 2.
    await admin.metadata({ topics: [topic], forceUpdate: true })
    const each = Array.from({ length: partitions }, (_, partitionIndex) => ({
      partitionIndex,
      timestamp: -1n,
    }))
    await untilThere(1, () =>
      admin.listOffsets({ topics: [{ name: topic, partitions: each }] }).catch(() => []),
    )
    // A broker that has just begun gives out no ids for producers yet.
    await producer.initIdempotentProducer({})
  } finally {
    await Promise.all([admin.close(), producer.close()])
  }
}

const isControl = ({ attributes }: RecordsBatch): boolean => (attributes & IS_CONTROL) !== 0

/** Without what belongs to transactions that were given up: up to their end, which a control batch marks. */
const kept = (batches: readonly RecordsBatch[], aborted: readonly Aborted[]): RecordsBatch[] => {
  const waiting = [...aborted]
  const given = new Set<bigint>()
  return batches.filter((batch) => {
    for (const [at, { producerId, firstOffset }] of waiting.entries()) {
      if (firstOffset > batch.firstOffset) continue
      given.add(producerId)
      waiting.splice(at, 1)
    }
    if (isControl(batch)) given.delete(batch.producerId)
    return !isControl(batch) && !given.has(batch.producerId)
  })
}

const recordsIn = (partition: number, batches: readonly RecordsBatch[]): StoredRecord[] =>
  batches.flatMap(({ records }) =>
    records.map(({ key, value, headers }) => ({
      partition,
      key: key ?? null,
      value: value ?? Buffer.alloc(0),
      headers: Object.fromEntries([...headers].map(([name, text]) => [String(name), String(text)])),
    })),
  )

const readPartition = async (
  consumer: Consumer,
  topic: string,
  partition: number,
): Promise<StoredRecord[]> => {
  const { topics } = await consumer.metadata({ topics: [topic] })
  const { id: topicId, partitions } = topics.get(topic) as { id: string; partitions: { leader: number }[] }
  const found: StoredRecord[] = []
  for (let fetchOffset = 0n; ; ) {
    const { responses } = await consumer.fetch({
      node: partitions[partition]?.leader ?? 1,
      minBytes: 0,
      maxBytes: 10_000_000,
      maxWaitTime: 0,
      isolationLevel: 1,
      topics: [
        {
          topicId,
          partitions: [
            {
              partition,
              currentLeaderEpoch: -1,
              fetchOffset,
              lastFetchedEpoch: -1,
              partitionMaxBytes: 10_000_000,
            },
          ],
        },
      ],
    })
    const { records: batches = [], abortedTransactions = [] } = responses[0]?.partitions[0] ?? {}
    const last = batches.at(-1)
    if (last === undefined) return found
    found.push(...recordsIn(partition, kept(batches, abortedTransactions)))
    fetchOffset = last.firstOffset + BigInt(last.lastOffsetDelta) + 1n
  }
}

/** What lies in the topic, partition by partition. Of transactions, only what was committed. */
export const readTopic = async (
  address: KafkaAddress,
  topic: string,
  partitions = 1,
): Promise<StoredRecord[]> => {
  const consumer = new Consumer({ ...settingsOf(address), groupId: randomUUID() })
  try {
    const found: StoredRecord[] = []
    // A broker that has just begun does not know its topics yet.
    const { topics } = await consumer.metadata({ topics: [topic] }).catch(() => ({ topics: new Map() }))
    if (!topics.has(topic)) return []
    for (let partition = 0; partition < partitions; partition += 1)
      found.push(...(await readPartition(consumer, topic, partition)))
    return found
  } finally {
    await consumer.close()
  }
}
