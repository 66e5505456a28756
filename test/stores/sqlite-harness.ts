/** A store on a new file for every case of the suite; what the suite cannot do through the SPI goes by hand. */
import type { Store } from '../../src/core/spi/index.ts'
import {
  type SqlExecutor,
  type SqliteDriver,
  type SqliteHandle,
  sqliteStore,
} from '../../src/stores/sqlite/index.ts'
import type { StoreHarness } from '../../src/testing/suites/index.ts'
import { testContext, testFolder } from './sqlite-files.ts'

type FileStore = Store<SqliteHandle, SqlExecutor>

const openStore = async (driver: SqliteDriver, file: string): Promise<FileStore> => {
  const store = sqliteStore({ file, driver })
  await store.open(testContext())
  return store
}

/** Runs one statement in a transaction of its own. */
const byHand = (store: FileStore, sql: string): Promise<void> =>
  store.transactions.run(async (tx) => {
    tx.exec(sql)
  })

export const createHarness = async (
  driver: SqliteDriver,
  options: { readonly memory?: boolean } = {},
): Promise<StoreHarness<SqliteHandle, SqlExecutor>> => {
  const folder = testFolder()
  const file = options.memory === true ? ':memory:' : folder.file
  const store = await openStore(driver, file)
  const others: FileStore[] = []
  const reopen = async (): Promise<FileStore> => {
    const other = await openStore(driver, file)
    others.push(other)
    return other
  }
  return {
    store,
    ...(options.memory === true ? {} : { reopen }),
    setNextSeq: (seq) =>
      byHand(store, `INSERT INTO sqlite_sequence (name, seq) VALUES ('outbox_events', ${seq - 1n})`),
    corruptEvent: (id) =>
      byHand(store, `UPDATE outbox_events SET headers = '{broken' WHERE id = x'${id.replaceAll('-', '')}'`),
    dispose: async () => {
      for (const one of [store, ...others]) await one.close()
      folder.remove()
    },
  }
}
