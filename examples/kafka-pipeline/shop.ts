import { randomUUID } from 'node:crypto'
import pg from 'pg'
import { createOutbox, defineEvent, typeOnly } from 'posthaste'
import { postgresStore } from 'posthaste/postgres'
import { kafkaPublisher } from 'posthaste/publishers/kafka'
import { access, brokers, topic } from './kafka.ts'

const orderPlaced = defineEvent('order.placed', {
  schema: typeOnly<{ id: string; customer: string; item: string }>(),
  // The key of the record, too: all that a customer orders is in one partition, in order.
  key: (order) => order.customer,
})

export const pool = new pg.Pool({
  connectionString: process.env.DATABASE_URL ?? 'postgres://postgres:postgres@localhost:5432/postgres',
})

export const outbox = createOutbox({
  // Its own, so that other examples on this database do not deliver its events.
  store: postgresStore({ pool, schema: 'pipeline_outbox' }),
  migrate: true,
  destinations: {
    kafka: { to: kafkaPublisher({ brokers, ...access }), events: ['order.*'], topic },
  },
})

export const createOrders = async (): Promise<void> => {
  await pool.query(
    'CREATE TABLE IF NOT EXISTS customer_orders (id uuid PRIMARY KEY, customer text NOT NULL, item text NOT NULL)',
  )
}

export interface Placed {
  readonly orderId: string
  readonly eventId: string
}

/** The order and the event are stored together, or neither is. */
export const placeOrder = (customer: string, item: string): Promise<Placed> =>
  outbox.transaction(async (tx) => {
    const id = randomUUID()
    await tx.query('INSERT INTO customer_orders (id, customer, item) VALUES ($1, $2, $3)', [
      id,
      customer,
      item,
    ])
    return { orderId: id, eventId: await outbox.publish(tx, orderPlaced({ id, customer, item })) }
  })
