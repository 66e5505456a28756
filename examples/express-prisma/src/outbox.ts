import { createOutbox, defineEvent, typeOnly } from 'posthaste'
import { prismaTransactions } from 'posthaste/clients/prisma'
import { postgresStore } from 'posthaste/postgres'
import { connectionString, prisma } from './database.js'

export const orderPlaced = defineEvent('order.placed', {
  schema: typeOnly<{ id: string; item: string }>(),
  key: (order) => order.id,
})

export const outbox = createOutbox({
  // Its own, so that other examples on this database do not deliver its events.
  store: postgresStore({ connectionString, schema: 'express_outbox' }),
  transactions: prismaTransactions(prisma),
  migrate: true,
})

outbox.on(orderPlaced, async ({ payload }) => {
  console.log(`Mail: your ${payload.item} is on its way`)
})
