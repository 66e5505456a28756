import { addSecret, createEndpoints, dropOldSecrets, pool, register } from './endpoints.ts'
import { outbox, placeOrder } from './outbox.ts'
import { startReceiver } from './receiver.ts'

const receiver = await startReceiver()
await createEndpoints()
await outbox.start()

receiver.useSecret('acme', await register('acme', receiver.urlOf('acme')))
await placeOrder('acme', 'lamp')

// A new secret, in three steps: both count; the receiver changes; the old one goes.
const secret = await addSecret('acme')
await placeOrder('acme', 'chair')
receiver.useSecret('acme', secret)
await dropOldSecrets('acme')
await placeOrder('acme', 'table')

const forged = await fetch(receiver.urlOf('acme'), {
  method: 'POST',
  headers: {
    'webhook-id': 'forged',
    'webhook-timestamp': String(Math.floor(Date.now() / 1_000)),
    'webhook-signature': 'v1,bm90IHNpZ25lZCB3aXRoIHRoZSBzZWNyZXQ=',
  },
  body: '{"item":"yacht"}',
})
console.log(`A forged request was refused with ${forged.status}`)

await register('gone', receiver.urlOf('gone'))
await placeOrder('gone', 'sofa')
await placeOrder('gone', 'desk')
console.log(`gone was asked ${receiver.asked('gone')} time`)

await outbox.close()
receiver.close()
await pool.end()
