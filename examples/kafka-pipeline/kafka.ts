import { Admin } from '@platformatic/kafka'

const { host, username, password } = new URL(process.env.KAFKA_URL ?? 'kafka://localhost:9092')

/** Yours may need no credentials, or others. */
const credentials =
  username === ''
    ? {}
    : {
        sasl: {
          mechanism: 'PLAIN' as const,
          username: decodeURIComponent(username),
          password: decodeURIComponent(password),
        },
      }

export const brokers = host
export const access = credentials

/** Another one for each start, so that the example always finds it empty. Yours has a name. */
export const topic = `orders-${Date.now()}`

/** Posthaste creates no topics: how many partitions and replicas there are is for you to say. */
export const createTopic = async (): Promise<void> => {
  const admin = new Admin({ clientId: 'shop', bootstrapBrokers: [brokers], ...access, retries: 10 })
  await admin.createTopics({ topics: [topic], partitions: 3, replicas: 1 })
  await admin.close()
}
