/**
 * Numbered, additive migrations. Everything here is pure: a store runs the statements under its own lock and
 * asks this file what is missing, whether the database is ahead, and how the whole looks in print.
 */
import { ERROR_CODES, StoreError } from '../../core/errors.ts'
import type { SchemaStatus } from '../../core/spi/index.ts'

export interface Migration {
  readonly version: number
  readonly name: string
  /** SQL with `{prefix}` where the prefix of the tables belongs, and what else a store fills in likewise. */
  readonly sql: string
}

export type AppliedMigration = SchemaStatus['applied'][number]

const latestOf = (migrations: readonly Migration[]): number =>
  migrations.reduce((latest, { version }) => Math.max(latest, version), 0)

export const schemaStatus = (
  migrations: readonly Migration[],
  applied: readonly AppliedMigration[],
): SchemaStatus => ({
  current: applied.reduce((current, { version }) => Math.max(current, version), 0),
  latest: latestOf(migrations),
  applied: [...applied].sort((a, b) => a.version - b.version),
})

/** In order. Throws when the database knows migrations that this version of the library does not. */
export const missingMigrations = (
  migrations: readonly Migration[],
  applied: readonly AppliedMigration[],
): readonly Migration[] => {
  const { current, latest } = schemaStatus(migrations, applied)
  if (current > latest) {
    throw new StoreError(
      ERROR_CODES.schemaAhead,
      `The outbox tables are at version ${current}, but this version of posthaste knows only ${latest}. ` +
        'A newer posthaste has migrated them: update this process, let it run without `migrate`, or point it at another database.',
      { current, latest },
    )
  }
  const done = new Set(applied.map(({ version }) => version))
  return migrations.filter(({ version }) => !done.has(version)).sort((a, b) => a.version - b.version)
}

/** What stands in place of `{name}` in a migration. */
export type Fillings = Readonly<Record<string, string>> & { readonly prefix: string }

export const renderMigration = (migration: Migration, fillings: string | Fillings): string =>
  Object.entries(typeof fillings === 'string' ? { prefix: fillings } : fillings).reduce(
    (sql, [name, text]) => sql.replaceAll(`{${name}}`, text),
    migration.sql,
  )

/** What an administrator reads and runs by hand; `record` notes a version as applied. */
export const printMigrations = (
  migrations: readonly Migration[],
  fillings: string | Fillings,
  record: (migration: Migration) => string,
  begin = 'BEGIN IMMEDIATE',
): string =>
  migrations
    .map((migration) => {
      const number = String(migration.version).padStart(4, '0')
      const body = renderMigration(migration, fillings).trim()
      return `-- ${number}_${migration.name}\n${begin};\n\n${body}\n\n${record(migration)};\n\nCOMMIT;\n`
    })
    .join('\n')
