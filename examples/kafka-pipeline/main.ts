import { consume, createInvoices, makeInvoice } from './billing.ts'
import { createTopic } from './kafka.ts'
import { createOrders, outbox, placeOrder, pool } from './shop.ts'

await createTopic()
await createOrders()
await createInvoices(pool)
await outbox.start()

const lamp = await placeOrder('ada', 'lamp')
const orders = [lamp, await placeOrder('ada', 'chair'), await placeOrder('ada', 'table')]
let handled = 0
const consuming = consume(async (message) => {
  const isNew = await makeInvoice(pool, message)
  console.log(`${isNew ? 'Invoice for' : 'Seen before:'} ${message.order.item}`)
  handled += 1
  // Everything has arrived once: now the first one comes again.
  if (handled === 3) {
    await outbox.flush()
    await outbox.operator.replay({ eventIds: [lamp.eventId] })
  }
  return handled === 4 ? 'enough' : 'more'
})
await consuming
// Those of earlier starts are there, too.
const { rows } = await pool.query('SELECT count(*) AS count FROM invoices WHERE order_id = ANY($1)', [
  orders.map(({ orderId }) => orderId),
])
console.log(`Invoices: ${rows[0].count}`)
await outbox.close()
await pool.end()
