import { consume, createInvoices, makeInvoice } from './billing.ts'
import { createTopic } from './kafka.ts'
import { createOrders, outbox, placeOrder, pool } from './shop.ts'

await createTopic()
await createOrders()
await createInvoices(pool)
await outbox.start()

const [lamp = ''] = [await placeOrder('lamp'), await placeOrder('chair'), await placeOrder('table')]
let handled = 0
const consuming = consume(async (message) => {
  const isNew = await makeInvoice(pool, message)
  console.log(`${isNew ? 'Invoice for' : 'Seen before:'} ${message.order.item}`)
  handled += 1
  // Everything has arrived once: now the first one comes again.
  if (handled === 3) {
    await outbox.flush()
    await outbox.operator.replay({ eventIds: [lamp] })
  }
  return handled === 4 ? 'enough' : 'more'
})
await consuming
const { rows } = await pool.query('SELECT count(*) AS count FROM invoices')
console.log(`Invoices: ${rows[0].count}`)
await outbox.close()
await pool.end()
