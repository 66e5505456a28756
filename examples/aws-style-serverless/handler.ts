import { randomUUID } from 'node:crypto'
import pg from 'pg'
import { createOutbox, defineEvent, typeOnly } from 'posthaste'
import { postgresStore } from 'posthaste/postgres'

const orderPlaced = defineEvent('order.placed', {
  schema: typeOnly<{ id: string; item: string }>(),
  key: (order) => order.id,
})

// Outside of the handlers, so that an instance that is used again has its connections already.
const pool = new pg.Pool({
  connectionString: process.env.DATABASE_URL ?? 'postgres://postgres:postgres@localhost:5432/postgres',
  max: 2,
})

// Never started: between two requests the platform may freeze this process, and nothing in it may count on running.
// The schema is its own, so that other examples on this database do not deliver its events.
const outbox = createOutbox({ store: postgresStore({ pool, schema: 'serverless_outbox' }) })

outbox.on(orderPlaced, async ({ payload }) => {
  console.log(`Mail: your ${payload.item} is on its way`)
})

/** One request: store, say, and deliver before the answer. */
export const placeOrder = async (request: {
  body: string
}): Promise<{ statusCode: number; body: string }> => {
  const { item } = JSON.parse(request.body) as { item: string }
  const id = randomUUID()
  await outbox.transaction(async (tx) => {
    await tx.query('INSERT INTO orders (id, item) VALUES ($1, $2)', [id, item])
    await outbox.publish(tx, orderPlaced({ id, item }))
  })
  // What does not make it in this time is stored, and waits for the next round of `sweep`.
  await outbox.flush({ timeoutMs: 2_000 })
  return { statusCode: 201, body: JSON.stringify({ id }) }
}

/** Once a minute, by the platform's schedule: retries, what a killed request left behind, and old rows. */
export const sweep = async (): Promise<{ drained: boolean }> => {
  const { drained } = await outbox.flush({ timeoutMs: 20_000 })
  await outbox.operator.cleanup()
  return { drained }
}

/** Once per deployment. */
export const migrate = async (): Promise<void> => {
  await outbox.schema.migrate()
  await pool.query('CREATE TABLE IF NOT EXISTS orders (id uuid PRIMARY KEY, item text NOT NULL)')
}

export const shutDown = async (): Promise<void> => {
  await outbox.close()
  await pool.end()
}
