/** NATS: one stream in files. A position is the number of a message in it. */
import { DeliverPolicy, jetstream, jetstreamManager, StorageType } from '@nats-io/jetstream'
import { connect, type MsgHdrs, type NatsConnection } from '@nats-io/transport-node'
import { natsPublisher } from '../../src/publishers/nats.ts'
import { ANSWER_WITHIN_MS, type Kit, TOPIC } from './kit.ts'

const COUNT = 500
/** The shortest that the client takes. */
const WAIT_MS = 1_000
const NANOSECONDS = 1_000_000

const open = async (url: string): Promise<NatsConnection> => {
  const { host, username, password } = new URL(url)
  return await connect({
    servers: host,
    user: username,
    pass: password,
    reconnect: false,
    timeout: ANSWER_WITHIN_MS,
  })
}

const textsOf = (headers: MsgHdrs | undefined): Record<string, string> =>
  Object.fromEntries(
    (headers?.keys() ?? []).map((name) => [name, decodeURIComponent(headers?.get(name) ?? '')]),
  )

export const natsKit: Kit = {
  async setUp(url) {
    const connection = await open(url)
    const manager = await jetstreamManager(connection)
    await manager.streams.add({ name: TOPIC, subjects: [TOPIC], storage: StorageType.File })
    await connection.close()
  },
  publisher: (url) =>
    natsPublisher({ servers: url, ackTimeoutMs: ANSWER_WITHIN_MS, connectTimeoutMs: ANSWER_WITHIN_MS }),
  async read(url) {
    const connection = await open(url)
    const consumer = await jetstream(connection).consumers.get(TOPIC, { deliver_policy: DeliverPolicy.All })
    return {
      async next() {
        const arrivals = []
        for await (const { seq, headers, info } of await consumer.fetch({
          max_messages: COUNT,
          expires: WAIT_MS,
        })) {
          const texts = textsOf(headers)
          const at = Math.floor(Number(info.timestampNanos) / NANOSECONDS)
          arrivals.push({ position: String(seq), at, key: texts['event-key'] ?? null, headers: texts })
        }
        if (connection.isClosed()) throw new Error('the connection was closed')
        return arrivals
      },
      close: () => connection.close(),
    }
  },
}
