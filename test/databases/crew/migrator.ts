/** A process that migrates when it is told to, and says how it went. */
import { createOutbox } from '../../../src/index.ts'
import { type Place, storeAt } from './stores.ts'

const place = JSON.parse(process.argv[2] ?? '{}') as Place
const outbox = createOutbox({ store: storeAt(place), migrate: true })

const boot = async (): Promise<void> => {
  await outbox.start()
  await outbox.transaction((tx) => outbox.publish(tx, { type: 'booted', payload: { pid: process.pid } }))
  const { current, latest } = await outbox.schema.status()
  await outbox.close()
  process.send?.({ current, latest }, () => process.disconnect())
}

// A rejection ends the process, which the test notices.
process.once('message', () => void boot())
process.send?.('ready')
