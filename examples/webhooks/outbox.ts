import { createOutbox, defineEvent, typeOnly } from 'posthaste'
import { postgresStore } from 'posthaste/postgres'
import { webhookPublisher } from 'posthaste/publishers/webhook'
import { disable, endpointOf, pool } from './endpoints.ts'

const orderPlaced = defineEvent('order.placed', {
  schema: typeOnly<{ item: string }>(),
})

export const outbox = createOutbox({
  // Its own, so that other examples on this database do not deliver its events.
  store: postgresStore({ pool, schema: 'webhooks_outbox' }),
  migrate: true,
  destinations: {
    customers: {
      to: webhookPublisher({
        // Asked for every event, so a new address or secret counts from the next one on.
        endpoint: async ({ tenantId }) => {
          const endpoint = await endpointOf(tenantId ?? '')
          return endpoint === null ? null : { url: endpoint.url, secret: endpoint.secrets }
        },
        // Awaited: where the address could not be taken out of use, this is told again.
        onGone: async ({ url }) => {
          await disable(url)
          console.log(`${new URL(url).pathname.slice(1)} answered 410 and is not asked any more`)
        },
        // Only because the receivers of this example are on this machine.
        allowHttp: true,
        allowNetworks: ['127.0.0.1/32'],
      }),
      events: ['order.*'],
    },
  },
})

/** Yours would store the order in the same transaction. */
export const placeOrder = async (tenantId: string, item: string): Promise<void> => {
  await outbox.transaction((tx) => outbox.publish(tx, orderPlaced({ item }, { tenantId })))
  await outbox.flush()
}
