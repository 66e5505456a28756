import { Admin, Producer, stringSerializers } from '@platformatic/kafka'
import { kafkaPublisher } from '../../src/publishers/kafka/index.ts'
import { type Carrier, KAFKA_BATCH, newName, type RawMessage } from './carriers.ts'

const PARTITIONS = 3

export const kafka: Carrier = {
  name: 'kafka',
  client: '@platformatic/kafka',
  async open(url) {
    const { host, username, password } = new URL(url)
    const sasl = { mechanism: 'PLAIN', username, password } as const
    const settings = { clientId: 'bench', bootstrapBrokers: [host], sasl }
    const topic = newName()
    const asking = async (ask: (admin: Admin) => Promise<unknown>): Promise<void> => {
      const admin = new Admin({ ...settings, retries: 20, retryDelay: 100 })
      await ask(admin)
      await admin.close()
    }
    await asking(async (admin) => {
      await admin.createTopics({ topics: [topic], partitions: PARTITIONS, replicas: 1 })
      await admin.metadata({ topics: [topic], forceUpdate: true })
    })
    return {
      topic,
      publisher: () => kafkaPublisher({ brokers: host, sasl }),
      async raw() {
        const serializers = stringSerializers
        const producer = new Producer({ ...settings, idempotent: true, serializers, retries: 10 })
        const toSend = ({ key, body, contentType, headers }: RawMessage) => ({
          topic,
          key,
          value: body as string,
          headers: { 'content-type': contentType, ...Object.fromEntries(headers) },
        })
        return {
          async send(messages) {
            // The client numbers the records of one send at a time.
            for (let from = 0; from < messages.length; from += KAFKA_BATCH) {
              const batch = messages.slice(from, from + KAFKA_BATCH).map(toSend)
              await producer.send({ messages: batch, acks: -1 })
            }
          },
          close: () => producer.close(),
        }
      },
      remove: () => asking((admin) => admin.deleteTopics({ topics: [topic] })),
    }
  },
}
