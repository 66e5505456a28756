import fastify from 'fastify'
import { createTables, orders, pool } from './database.ts'
import { orderPlaced, outbox } from './outbox.ts'

const app = fastify()

app.post<{ Body: { item: string } }>('/orders', async (request, reply) => {
  const { item } = request.body
  // `tx` is a transaction of Drizzle: the order and the event are stored together, or neither is.
  const order = await outbox.transaction(async (tx) => {
    const [row] = await tx.insert(orders).values({ item }).returning()
    if (row === undefined) throw new Error('the order was not stored')
    await outbox.publish(tx, orderPlaced(row))
    return row
  })
  return reply.code(201).send(order)
})

// Runs when the last request has ended: first what is under way is delivered, then the database goes.
app.addHook('onClose', async () => {
  await outbox.close()
  await pool.end()
})

await createTables()
await outbox.start()
await app.listen({ port: Number(process.env.PORT ?? 3000), host: '127.0.0.1' })
console.log(`Listening on ${app.listeningOrigin}`)

for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => void app.close())
