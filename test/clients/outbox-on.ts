/** An outbox with a library on a database, for tests that ask more than the suite of all clients. */
import { onTestFinished } from 'vitest'
import type { Transactions } from '../../src/core/spi/index.ts'
import { createOutbox } from '../../src/index.ts'
import type { SqlExecutor } from '../../src/stores/postgres/index.ts'
import { type DatabaseName, openDatabase, type TestDatabase } from './databases.ts'
import type { OpenLibrary } from './library.ts'

export const openOutbox = async <Tx>(database: TestDatabase, transactions: Transactions<Tx, SqlExecutor>) => {
  const outbox = createOutbox({ store: database.store, transactions, migrate: true })
  outbox.onAny(() => undefined)
  await outbox.start()
  const stored = async (): Promise<number> => (await outbox.inspect.list({ limit: 100 })).deliveries.length
  return { outbox, stored }
}

export const open = async <Tx>(
  name: DatabaseName,
  openLibrary: (database: TestDatabase) => Promise<OpenLibrary<Tx>>,
) => {
  const database = await openDatabase(name)
  const library = await openLibrary(database)
  const { outbox, stored } = await openOutbox(database, library.transactions)
  onTestFinished(async () => {
    await outbox.close()
    await library.close(false)
    await database.dispose()
  })
  return { database, library, outbox, stored }
}
