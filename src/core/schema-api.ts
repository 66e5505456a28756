import { ERROR_CODES, StoreError } from './errors.ts'
import { placeOf } from './model/store-place.ts'
import type { Schema, Store } from './spi/index.ts'

/** The schema must be reachable when it is behind, so it needs a connection and nothing more. */
export const createSchemaApi = (schema: Schema, connect: () => Promise<void>): Schema => ({
  status: () => connect().then(() => schema.status()),
  migrate: () => connect().then(() => schema.migrate()),
  sql: () => schema.sql(),
})

/** Which ones are looked for, and where: the wrong database, schema or prefix looks the same as a missing migration. */
const tablesOf = (store: Pick<Store, 'name' | 'schema'>): string => {
  const [, table] = /CREATE TABLE (?:IF NOT EXISTS )?(\S*migrations["`])/.exec(store.schema.sql()) ?? []
  const place = placeOf(store)
  const where = [table === undefined ? '' : `such as ${table}`, place === null ? '' : `in ${place}`]
    .filter((text) => text !== '')
    .join(' ')
  return where === '' ? store.name : `${store.name} (${where})`
}

/** Makes the tables what this release needs, or refuses to work with what they are. */
export const requireSchema = async (
  { migrate }: { readonly migrate: boolean },
  store: Pick<Store, 'name' | 'schema'>,
): Promise<void> => {
  if (migrate) {
    await store.schema.migrate()
    return
  }
  const { current, latest } = await store.schema.status()
  if (current < latest) throw schemaBehind(store, current, latest)
}

/** The tables are missing or old; what is most likely to help comes first. */
const schemaBehind = (store: Pick<Store, 'name' | 'schema'>, current: number, latest: number): StoreError => {
  const state = current === 0 ? 'do not exist yet' : `are at version ${current}, this release needs ${latest}`
  const own = `let your own tool migrate from version ${current} to ${latest} (docs/migrations.md)`
  return new StoreError(
    ERROR_CODES.schemaBehind,
    `the outbox tables of ${tablesOf(store)} ${state}: run posthaste migrate, or outbox.schema.migrate() once, or pass ` +
      `migrate: true to createOutbox; or apply the statements of posthaste migrate --sql yourself, or ${own}`,
    { current, latest },
  )
}
