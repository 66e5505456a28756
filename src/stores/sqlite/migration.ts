/** Our migrations as statements, for the migration files of other tools. Nothing is opened. */
import { refuseUnknown } from '../../core/model/index.ts'
import { quoteIdentifier, TABLE_NAMES, tablesOf } from '../sql/identifiers.ts'
import { type MigrationRange, migrationsWithin, statementsOf } from '../sql/migration-statements.ts'
import { renderMigration } from '../sql/migrator.ts'
import { resolvePrefix, type SqliteFileOptions } from './options.ts'
import { ALL, recordOf } from './schema.ts'

/** As the store has it. */
export type SqliteRemovalOptions = Pick<SqliteFileOptions, 'prefix'>

export interface SqliteMigrationOptions extends MigrationRange, Pick<SqliteFileOptions, 'prefix'> {}

const NAMES: ReadonlySet<string> = new Set<keyof SqliteMigrationOptions>(['to', 'from', 'view', 'prefix'])
const REMOVAL_NAMES: ReadonlySet<string> = new Set<keyof SqliteRemovalOptions>(['prefix'])

/** The statements that lead from one version of the tables to another; each ends with its semicolon. */
export const sqliteMigration = (options: SqliteMigrationOptions): readonly string[] => {
  refuseUnknown('sqliteMigration', options, NAMES)
  const t = tablesOf(resolvePrefix(options.prefix))
  const scripts = migrationsWithin(ALL, options).map(
    (migration) => `${renderMigration(migration, t.prefix)}\n${recordOf(t, migration)};`,
  )
  return statementsOf(scripts, options)
}

/** The statements that remove everything again, with all events. */
export const sqliteRemoval = (options: SqliteRemovalOptions = {}): readonly string[] => {
  refuseUnknown('sqliteRemoval', options, REMOVAL_NAMES)
  const t = tablesOf(resolvePrefix(options.prefix))
  return [
    `DROP VIEW IF EXISTS ${quoteIdentifier(`${t.prefix}all`)};`,
    ...TABLE_NAMES.map((name) => `DROP TABLE IF EXISTS ${t[name]};`),
  ]
}
