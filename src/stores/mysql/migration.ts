/** Our migrations as statements, for the migration files of other tools. Nothing is connected to. */
import { refuseUnknown } from '../../core/model/index.ts'
import { TABLE_NAMES } from '../sql/identifiers.ts'
import { type MigrationRange, migrationsWithin, statementsOf } from '../sql/migration-statements.ts'
import { checkLayout } from '../sql/options.ts'
import { type MysqlUrlOptions, resolvePrefix } from './options.ts'
import { ALL, textOfMigration } from './schema.ts'
import { mysqlTables, quoteName } from './tables.ts'

/** As the store has it. */
export type MysqlRemovalOptions = Pick<MysqlUrlOptions, 'prefix'>

export interface MysqlMigrationOptions extends MigrationRange, Pick<MysqlUrlOptions, 'prefix' | 'layout'> {}

const NAMES: ReadonlySet<string> = new Set<keyof MysqlMigrationOptions>([
  'to',
  'from',
  'view',
  'prefix',
  'layout',
])
const REMOVAL_NAMES: ReadonlySet<string> = new Set<keyof MysqlRemovalOptions>(['prefix'])

/** The statements that lead from one version of the tables to another; each ends with its semicolon. */
export const mysqlMigration = (options: MysqlMigrationOptions): readonly string[] => {
  refuseUnknown('mysqlMigration', options, NAMES)
  const t = mysqlTables(resolvePrefix(options.prefix))
  // Only the tail: the maintainer makes the partitions, whatever they hold.
  const form = { layout: checkLayout(options.layout), period: 'day' } as const
  const scripts = migrationsWithin(ALL, options).map(
    (migration) => `${textOfMigration(form, t, migration, null)};`,
  )
  return statementsOf(scripts, options)
}

/** The statements that remove everything again, with all events. */
export const mysqlRemoval = (options: MysqlRemovalOptions = {}): readonly string[] => {
  refuseUnknown('mysqlRemoval', options, REMOVAL_NAMES)
  const t = mysqlTables(resolvePrefix(options.prefix))
  return [
    `DROP VIEW IF EXISTS ${quoteName(`${t.prefix}all`)};`,
    `DROP TABLE IF EXISTS ${TABLE_NAMES.map((name) => t[name]).join(', ')};`,
  ]
}
