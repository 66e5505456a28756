/** The schema role: a lock that ends with its transaction, so any number of processes may migrate at once. */
import type { Schema, SchemaStatus } from '../../core/spi/index.ts'
import {
  type AppliedMigration,
  type Fillings,
  type Migration,
  missingMigrations,
  printMigrations,
  renderMigration,
  schemaStatus,
} from '../sql/migrator.ts'
import type { PostgresDatabase, Row, Session } from './database.ts'
import { migrations } from './migrations/migrations.generated.ts'
import type { PostgresLayout } from './options.ts'
import { asMs, asNumber, asText, isTrue } from './statements/sql-text.ts'
import type { PostgresTables } from './tables.ts'

export const ALL: readonly Migration[] = migrations

/** Vacuuming does not shorten it, which would lock everybody out, and leave no pages for the planner to count on. */
export const KEEPS_PAGES = 'vacuum_truncate = false'

/** Inserts never fail: what no other partition takes goes to the tail. */
const tails = (t: PostgresTables): string =>
  (['events', 'finished'] as const)
    .map((name) => `CREATE TABLE ${tailOf(t, name)} PARTITION OF ${t[name]} DEFAULT;\n`)
    .join('')

export const tailOf = (t: PostgresTables, name: 'events' | 'finished'): string =>
  `${t.schema}."${t.prefix}${name}_tail"`

export const fillingsOf = (t: PostgresTables, layout: PostgresLayout): Fillings => ({
  schema: t.schema,
  prefix: t.prefix,
  by_id: layout === 'partitioned' ? ' PARTITION BY RANGE (id)' : '',
  // Tables with partitions have no pages of their own, and no settings about them.
  keep_pages: layout === 'partitioned' ? '' : ` WITH (${KEEPS_PAGES})`,
  // Whether a partition may go must be known quickly, because it is locked while that is asked.
  finished_at:
    layout === 'partitioned' ? `CREATE INDEX "${t.prefix}finished_at" ON ${t.finished} (finished_at);\n` : '',
  tails: layout === 'partitioned' ? `\n${tails(t)}` : '',
})

const decode = (rows: readonly Row[]): readonly AppliedMigration[] =>
  rows.map(([version, name, at]) => ({
    version: asNumber(version),
    name: asText(name),
    appliedAtMs: asNumber(at),
  }))

const appliedMigrations = async (
  rows: (sql: string) => Promise<readonly Row[]>,
  t: PostgresTables,
): Promise<readonly AppliedMigration[]> => {
  const [[exists] = []] = await rows(`SELECT to_regclass('${t.migrations}') IS NOT NULL`)
  if (!isTrue(exists)) return []
  return decode(
    await rows(`SELECT version, name, ${asMs('applied_at')} FROM ${t.migrations} ORDER BY version`),
  )
}

export const recordOf = (t: PostgresTables, { version, name }: Migration): string =>
  `INSERT INTO ${t.migrations} (version, name, applied_at) VALUES (${version}, '${name}', clock_timestamp())`

const lockText = ({ names }: PostgresTables): string =>
  `SELECT pg_advisory_xact_lock(hashtextextended('posthaste migrate ${names.schema}.${names.prefix}', 0))`

/** Asked for first: making a schema that exists already still needs the right to make schemas. */
const schemaExists = ({ names }: PostgresTables): string =>
  `SELECT 1 FROM pg_namespace WHERE nspname = '${names.schema}'`

export const schemaRole = (
  database: PostgresDatabase,
  t: PostgresTables,
  afterCreation: (session: Session) => Promise<void>,
): Schema => {
  const { layout } = database.options
  const fillings = fillingsOf(t, layout)
  const applied = (): Promise<readonly AppliedMigration[]> =>
    appliedMigrations((sql) => database.rows(sql), t)
  return {
    status: async () => schemaStatus(ALL, await applied()),
    async migrate(): Promise<SchemaStatus> {
      // Most starts find nothing to do, and then nobody has to wait for the lock.
      const before = await applied()
      if (missingMigrations(ALL, before).length === 0) return schemaStatus(ALL, before)
      return database.transaction(async (session) => {
        await session.rows(lockText(t))
        if ((await session.rows(schemaExists(t))).length === 0)
          await session.rows(`CREATE SCHEMA IF NOT EXISTS ${t.schema}`)
        const missing = missingMigrations(ALL, await appliedMigrations(session.rows, t))
        for (const migration of missing) {
          await session.rows(renderMigration(migration, fillings))
          await session.rows(recordOf(t, migration))
        }
        if (missing.some(({ version }) => version === 1)) await afterCreation(session)
        return schemaStatus(ALL, await appliedMigrations(session.rows, t))
      })
    },
    sql: () =>
      `CREATE SCHEMA IF NOT EXISTS ${t.schema};\n\n${printMigrations(ALL, fillings, (migration) => recordOf(t, migration), 'BEGIN')}`,
  }
}
