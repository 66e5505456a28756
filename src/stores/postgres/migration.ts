/** Our migrations as statements, for the migration files of other tools. Nothing is connected to. */
import { refuseUnknown } from '../../core/model/index.ts'
import { TABLE_NAMES } from '../sql/identifiers.ts'
import { type MigrationRange, migrationsWithin, statementsOf } from '../sql/migration-statements.ts'
import { renderMigration } from '../sql/migrator.ts'
import { checkLayout } from '../sql/options.ts'
import { type PostgresUrlOptions, resolveNames } from './options.ts'
import { ALL, fillingsOf, recordOf } from './schema.ts'
import { postgresTables } from './tables.ts'

/** As the store has them. */
export type PostgresRemovalOptions = Pick<PostgresUrlOptions, 'schema' | 'prefix'>

export interface PostgresMigrationOptions
  extends MigrationRange,
    Pick<PostgresUrlOptions, 'schema' | 'prefix' | 'layout'> {}

const NAMES: ReadonlySet<string> = new Set<keyof PostgresMigrationOptions>([
  'to',
  'from',
  'view',
  'schema',
  'prefix',
  'layout',
])

const REMOVAL_NAMES: ReadonlySet<string> = new Set<keyof PostgresRemovalOptions>(['schema', 'prefix'])

/** A tool may run more in the same transaction, and a migration of ours sets how long that waits for locks. */
const KEEP = "SELECT set_config('posthaste.lock_timeout', current_setting('lock_timeout'), true);"
const GIVE_BACK =
  "SELECT set_config('lock_timeout', nullif(current_setting('posthaste.lock_timeout', true), ''), true);"

/** The statements that lead from one version of the tables to another; each ends with its semicolon. */
export const postgresMigration = (options: PostgresMigrationOptions): readonly string[] => {
  refuseUnknown('postgresMigration', options, NAMES)
  const { schema, prefix } = resolveNames(options)
  const t = postgresTables(schema, prefix)
  const fillings = fillingsOf(t, checkLayout(options.layout))
  const scripts = migrationsWithin(ALL, options).map(
    (migration) => `${renderMigration(migration, fillings)}\n${recordOf(t, migration)};`,
  )
  const isFirst = (options.from ?? 0) === 0
  return [
    KEEP,
    ...(isFirst ? [`CREATE SCHEMA IF NOT EXISTS ${t.schema};`] : []),
    ...statementsOf(scripts, options),
    GIVE_BACK,
  ]
}

/** The statements that remove everything again, with all events; the schema stays, because others may use it. */
export const postgresRemoval = (options: PostgresRemovalOptions = {}): readonly string[] => {
  refuseUnknown('postgresRemoval', options, REMOVAL_NAMES)
  const { schema, prefix } = resolveNames(options)
  const t = postgresTables(schema, prefix)
  const named = (name: string): string => `${t.schema}."${prefix}${name}"`
  return [
    `DROP VIEW IF EXISTS ${named('all')};`,
    `DROP FUNCTION IF EXISTS ${named('publish_event')}, ${named('insert_one')};`,
    `DROP TABLE IF EXISTS ${TABLE_NAMES.map((name) => t[name]).join(', ')};`,
    `DROP SEQUENCE IF EXISTS ${named('events_seq')};`,
    `DROP DOMAIN IF EXISTS ${named('delivery_lane')}, ${named('delivery_status')};`,
  ]
}
