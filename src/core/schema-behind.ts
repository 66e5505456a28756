import { ERROR_CODES, StoreError } from './errors.ts'

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
