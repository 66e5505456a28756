/** A store in a schema of its own of one PGlite for every case of the suite: it takes a second to start. */
import { PGlite } from '@electric-sql/pglite'
import type { Store } from '../../src/core/spi/index.ts'
import {
  type PgliteClient,
  pglitePool,
  postgresStore,
  type SqlExecutor,
} from '../../src/stores/postgres/index.ts'
import type { StoreHarness } from '../../src/testing/suites/index.ts'
import { SchemaPool } from './postgres-harness.ts'
import { testContext } from './sqlite-files.ts'

let shared: Promise<PGlite> | null = null

const schemas = new SchemaPool(async (sql) => await (await shared)?.exec(sql))

export const createHarness = async (): Promise<StoreHarness<PgliteClient, SqlExecutor>> => {
  shared ??= PGlite.create()
  const db = await shared
  const schema = schemas.take()
  const opened: Store<PgliteClient, SqlExecutor>[] = []
  const open = async (): Promise<Store<PgliteClient, SqlExecutor>> => {
    const store = postgresStore({ pool: pglitePool(db), schema })
    await store.open(testContext())
    opened.push(store)
    return store
  }
  const byHand = async (sql: string): Promise<void> => void (await db.exec(sql))
  return {
    store: await open(),
    reopen: open,
    setNextSeq: (seq) => byHand(`SELECT setval('${schema}.events_seq', ${seq}, false)`),
    setBack: async (ms) => {
      const later = (column: string): string => `${column} = ${column} + interval '${ms} milliseconds'`
      await byHand(
        `UPDATE ${schema}.deliveries SET ${['available_at', 'created_at', 'settled_at'].map(later).join(', ')};
UPDATE ${schema}.workers SET ${later('expires_at')}`,
      )
    },
    corruptEvent: (id) => byHand(`UPDATE ${schema}.events SET headers = '["broken"]' WHERE id = '${id}'`),
    dispose: async () => {
      for (const store of opened) await store.close()
      await schemas.giveBack(schema)
    },
  }
}
