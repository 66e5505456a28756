/** A process of its own for the tests with several of them: `boot FILE` or `publish FILE COUNT KEY`. */
import { sqliteStore } from '../../src/stores/sqlite/index.ts'
import { testContext } from './sqlite-files.ts'
import { doneSettlements, event, insertRequest, read, settle, worker } from './sqlite-words.ts'

const [, , command, file = '', count = '0', key = ''] = process.argv
const store = sqliteStore({ file, driver: 'libsql', busyTimeoutMs: 30_000 })

/** Everybody begins at the same moment, when the parent says so. */
const begin = new Promise<void>((resolve) => process.once('message', () => resolve()))

const publishAll = async (): Promise<void> => {
  const right = await worker(store)
  for (let n = 0; n < Number(count); n++) {
    const body = event({ key, data: JSON.stringify({ n }) })
    await store.transactions.run((tx) => store.insert(store.transactions.executor(tx), insertRequest(body)))
    // Settling some at once makes every process a writer of both kinds.
    if (n % 10 === 9) {
      const { fresh } = await read(store)
      await settle(store, doneSettlements(fresh.filter((row) => row.key === key).slice(0, 5), right))
    }
  }
}

process.send?.('ready')
await begin
await store.open(testContext())
await store.schema.migrate()
if (command === 'publish') await publishAll()
await store.close()
process.disconnect?.()
