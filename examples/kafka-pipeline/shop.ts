import { randomUUID } from 'node:crypto'
import pg from 'pg'
import { createOutbox, defineEvent, typeOnly } from 'posthaste'
import { postgresStore } from 'posthaste/postgres'
import { kafkaPublisher } from 'posthaste/publishers/kafka'
import { access, brokers, topic } from './kafka.ts'

const orderPlaced = defineEvent('order.placed', {
  schema: typeOnly<{ id: string; item: string }>(),
  // The key of the record, too: all that happens to one order is in one partition, in order.
  key: (order) => order.id,
})

export const pool = new pg.Pool({
  connectionString: process.env.DATABASE_URL ?? 'postgres://postgres:postgres@localhost:5432/postgres',
})

export const outbox = createOutbox({
  store: postgresStore({ pool }),
  migrate: true,
  destinations: {
    kafka: { to: kafkaPublisher({ brokers, ...access }), events: ['order.*'], topic },
  },
})

export const createOrders = async (): Promise<void> => {
  await pool.query('CREATE TABLE IF NOT EXISTS orders (id uuid PRIMARY KEY, item text NOT NULL)')
}

/** The order and the event are stored together, or neither is. Gives the id of the event. */
export const placeOrder = (item: string): Promise<string> =>
  outbox.transaction(async (tx) => {
    const id = randomUUID()
    await tx.query('INSERT INTO orders (id, item) VALUES ($1, $2)', [id, item])
    return await outbox.publish(tx, orderPlaced({ id, item }))
  })
