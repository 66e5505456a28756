/** Plays the platform: deploys, sends two requests, runs the schedule once. */
import { migrate, placeOrder, shutDown, sweep } from './handler.ts'

await migrate()
for (const item of ['lamp', 'chair']) {
  const { statusCode } = await placeOrder({ body: JSON.stringify({ item }) })
  console.log(`Answer: ${statusCode}`)
}
console.log(`Nothing left: ${(await sweep()).drained}`)
await shutDown()
