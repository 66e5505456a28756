import { createOutbox, defineEvent, typeOnly } from 'posthaste'
import { drizzleTransactions } from 'posthaste/clients/drizzle'
import { postgresStore } from 'posthaste/postgres'
import { db, pool } from './database.ts'

export const orderPlaced = defineEvent('order.placed', {
  schema: typeOnly<{ id: string; item: string }>(),
  key: (order) => order.id,
})

export const outbox = createOutbox({
  // Its own, so that other examples on this database do not deliver its events.
  store: postgresStore({ pool, schema: 'fastify_outbox' }),
  transactions: drizzleTransactions(db),
  migrate: true,
})

outbox.on(orderPlaced, async ({ payload }) => {
  console.log(`Mail: your ${payload.item} is on its way`)
})
