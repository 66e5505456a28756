/** The schema role: BEGIN IMMEDIATE is the lock, so any number of processes may migrate at once. */
import type { Schema, SchemaStatus } from '../../core/spi/index.ts'
import type { Tables } from '../sql/identifiers.ts'
import {
  type AppliedMigration,
  type Migration,
  missingMigrations,
  printMigrations,
  renderMigration,
  schemaStatus,
} from '../sql/migrator.ts'
import type { SqliteConnection } from './connection.ts'
import type { SqliteDatabase } from './database.ts'
import { migrations } from './migrations/migrations.generated.ts'
import { asNumber, asText, NOW } from './statements/sql-text.ts'

export const ALL: readonly Migration[] = migrations

const appliedMigrations = (c: SqliteConnection, t: Tables): readonly AppliedMigration[] => {
  const exists = c.rows("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", [
    `${t.prefix}migrations`,
  ])
  if (exists.length === 0) return []
  return c
    .rows(`SELECT version, name, applied_at FROM ${t.migrations} ORDER BY version`)
    .map(([version, name, at]) => ({
      version: asNumber(version),
      name: asText(name),
      appliedAtMs: asNumber(at),
    }))
}

export const recordOf = (t: Tables, { version, name }: Migration): string =>
  `INSERT INTO ${t.migrations} (version, name, applied_at) VALUES (${version}, '${name}', ${NOW})`

export const schemaRole = (database: SqliteDatabase, t: Tables): Schema => ({
  status: () => database.read((c) => schemaStatus(ALL, appliedMigrations(c, t))),
  async migrate(): Promise<SchemaStatus> {
    // Most starts find nothing to do, and then nobody has to wait for the write lock.
    const before = await database.read((c) => appliedMigrations(c, t))
    if (missingMigrations(ALL, before).length === 0) return schemaStatus(ALL, before)
    return database.write((c) => {
      for (const migration of missingMigrations(ALL, appliedMigrations(c, t))) {
        c.exec(renderMigration(migration, t.prefix))
        c.exec(recordOf(t, migration))
      }
      return schemaStatus(ALL, appliedMigrations(c, t))
    })
  },
  sql: () => printMigrations(ALL, t.prefix, (migration) => recordOf(t, migration)),
})
