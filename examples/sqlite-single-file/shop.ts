import { createOutbox, defineEvent, typeOnly } from 'posthaste'
import { sqliteStore } from 'posthaste/sqlite'

const orderPlaced = defineEvent('order.placed', {
  schema: typeOnly<{ id: number; item: string }>(),
  key: (order) => String(order.id),
})

// Orders, events and what became of them: all in this file.
const outbox = createOutbox({ store: sqliteStore({ file: 'shop.db' }) })

outbox.on(orderPlaced, async ({ payload }) => {
  console.log(`Packing order ${payload.id}: ${payload.item}`)
})

await outbox.start()

await outbox.transaction(async (tx) => {
  tx.exec('CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, item TEXT NOT NULL)')
  const { id } = tx.prepare("INSERT INTO orders (item) VALUES ('lamp') RETURNING id").get() as { id: number }
  await outbox.publish(tx, orderPlaced({ id, item: 'lamp' }))
})

// Says nothing to anybody: the order is taken back, and its event with it.
await outbox
  .transaction(async (tx) => {
    tx.exec("INSERT INTO orders (item) VALUES ('sofa')")
    await outbox.publish(orderPlaced({ id: 0, item: 'sofa' }))
    throw new Error('the card was refused')
  })
  .catch((error: Error) => console.log(`No sofa: ${error.message}`))

await outbox.close()
