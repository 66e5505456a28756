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

/** What the harness needs of any handle; all three libraries have it. */
interface Executable {
  exec(sql: string): unknown
}

interface OpenedStore<Handle extends Executable> {
  readonly store: Store<Handle, SqlExecutor>
  close(): Promise<void>
}

const harnessOn = async <Handle extends Executable>(
  openStore: (file: string) => Promise<OpenedStore<Handle>>,
  memory: boolean,
): Promise<StoreHarness<Handle, SqlExecutor>> => {
  const folder = testFolder()
  const file = memory ? ':memory:' : folder.file
  const first = await openStore(file)
  const opened = [first]
  const byHand = (sql: string): Promise<void> =>
    first.store.transactions.run(async (tx) => {
      tx.exec(sql)
    })
  const reopen = async (): Promise<Store<Handle, SqlExecutor>> => {
    const other = await openStore(file)
    opened.push(other)
    return other.store
  }
  return {
    store: first.store,
    ...(memory ? {} : { reopen }),
    setNextSeq: (seq) =>
      byHand(`INSERT INTO sqlite_sequence (name, seq) VALUES ('outbox_events', ${seq - 1n})`),
    setBack: (ms) =>
      byHand(`UPDATE outbox_deliveries SET available_at = available_at + ${ms}, created_at = created_at + ${ms}, settled_at = settled_at + ${ms};
UPDATE outbox_workers SET expires_at = expires_at + ${ms}`),
    corruptEvent: (id) =>
      byHand(`UPDATE outbox_events SET headers = '{broken' WHERE id = x'${id.replaceAll('-', '')}'`),
    dispose: async () => {
      for (const one of opened) await one.close()
      folder.remove()
    },
  }
}

/** The store opens the file itself. */
export const createHarness = (
  driver: SqliteDriver,
  { memory = false }: { readonly memory?: boolean } = {},
): Promise<StoreHarness<SqliteHandle, SqlExecutor>> =>
  harnessOn(async (file) => {
    const store = sqliteStore({ file, driver })
    await store.open(testContext())
    return { store, close: () => store.close() }
  }, memory)

/** The store works beside a handle that the application opened. */
export const createHandleHarness = <Handle extends Executable & { close(): unknown }>(
  open: (file: string) => Handle,
  { memory = false }: { readonly memory?: boolean } = {},
): Promise<StoreHarness<Handle, SqlExecutor>> =>
  harnessOn(async (file) => {
    const database = open(file)
    const store = sqliteStore({ database })
    await store.open(testContext())
    const close = async (): Promise<void> => {
      await store.close()
      database.close()
    }
    return { store, close }
  }, memory)
