/** Somebody else's service: it knows the topic and the headers, and nothing of Posthaste. */
import { Consumer, stringDeserializers } from '@platformatic/kafka'
import type pg from 'pg'
import { access, brokers, topic } from './kafka.ts'

export interface Message {
  readonly eventId: string
  readonly order: { readonly id: string; readonly item: string }
}

export const createInvoices = async (pool: pg.Pool): Promise<void> => {
  await pool.query('CREATE TABLE IF NOT EXISTS invoices (order_id uuid PRIMARY KEY, item text NOT NULL)')
  await pool.query('CREATE TABLE IF NOT EXISTS seen (event_id uuid PRIMARY KEY)')
}

/** False: it was dealt with before. The id and the invoice are stored together, so a crash between them leaves neither. */
export const makeInvoice = async (pool: pg.Pool, { eventId, order }: Message): Promise<boolean> => {
  const client = await pool.connect()
  try {
    await client.query('BEGIN')
    const { rowCount } = await client.query('INSERT INTO seen VALUES ($1) ON CONFLICT DO NOTHING', [eventId])
    if (rowCount === 1)
      await client.query('INSERT INTO invoices (order_id, item) VALUES ($1, $2)', [order.id, order.item])
    await client.query('COMMIT')
    return rowCount === 1
  } catch (error) {
    await client.query('ROLLBACK')
    throw error
  } finally {
    client.release()
  }
}

/** Reads the topic from its beginning, one message after the other, until `handle` says that it is enough. */
export const consume = async (handle: (message: Message) => Promise<'more' | 'enough'>): Promise<void> => {
  const consumer = new Consumer({
    clientId: 'billing',
    groupId: `billing-${topic}`,
    bootstrapBrokers: [brokers],
    ...access,
    deserializers: stringDeserializers,
    retries: 10,
  })
  const stream = await consumer.consume({ topics: [topic], mode: 'earliest', autocommit: false })
  for await (const message of stream) {
    const answer = await handle({
      // `deduplication-id` would tell a replay apart from the first time; here it must not count twice.
      eventId: message.headers.get('event-id') ?? '',
      order: JSON.parse(message.value) as Message['order'],
    })
    // Only now: whatever happens before, the message comes again.
    await message.commit()
    if (answer === 'enough') break
  }
  await stream.close()
  await consumer.close()
}
