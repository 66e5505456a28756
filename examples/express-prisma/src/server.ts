import express from 'express'
import { createTables, prisma } from './database.js'
import { orderPlaced, outbox } from './outbox.js'

const app = express()
app.use(express.json())

app.post('/orders', async (request, response) => {
  const { item } = request.body as { item: string }
  // `tx` is the client of an interactive transaction: the order and the event are stored together, or neither is.
  const order = await outbox.transaction(async (tx) => {
    const row = await tx.order.create({ data: { item } })
    await outbox.publish(tx, orderPlaced(row))
    return row
  })
  response.status(201).json(order)
})

await createTables()
await outbox.start()
const port = Number(process.env.PORT ?? 3000)
const server = app.listen(port, '127.0.0.1', (error) => {
  if (error) throw error
  console.log(`Listening on http://127.0.0.1:${port}`)
})

/** First the requests that are under way, then the deliveries, then the database. */
const stop = async (): Promise<void> => {
  await new Promise((resolve) => server.close(resolve))
  await outbox.close()
  await prisma.$disconnect()
}

for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => void stop())
