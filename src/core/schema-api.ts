import { ERROR_CODES, StoreError } from './errors.ts'
import type { Schema } from './spi/index.ts'

/** The schema must be reachable when it is behind, so it needs a connection and nothing more. */
export const createSchemaApi = (schema: Schema, connect: () => Promise<void>): Schema => ({
  status: () => connect().then(() => schema.status()),
  migrate: () => connect().then(() => schema.migrate()),
  sql: () => schema.sql(),
})

/** The tables are missing or old; what is most likely to help comes first. */
export const schemaBehind = (store: string, current: number, latest: number): StoreError => {
  const state = current === 0 ? 'do not exist yet' : `are at version ${current}, this release needs ${latest}`
  const own = `let your own tool migrate from version ${current} to ${latest} (docs/migrations.md)`
  return new StoreError(
    ERROR_CODES.schemaBehind,
    `the outbox tables of ${store} ${state}: run posthaste migrate, or outbox.schema.migrate() once, or pass ` +
      `migrate: true to createOutbox; or apply the statements of posthaste migrate --sql yourself, or ${own}`,
    { current, latest },
  )
}
