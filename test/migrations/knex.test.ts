import { createRequire } from 'node:module'
import knex, { type Knex } from 'knex'
import type { EmptyDatabase } from './databases.ts'
import { importOfPage } from './page.ts'
import { describeTool } from './tool.ts'

const FILE = '20261115120000_outbox.ts'
const require = createRequire(import.meta.url)

/** Knex's dialect for better-sqlite3 with libsql in its place: the same interface, and nothing to compile. */
const libsqlDialect = (): typeof Knex.Client => {
  const Dialect = require('knex/lib/dialects/better-sqlite3/index.js') as typeof Knex.Client
  return class extends Dialect {
    _driver(): unknown {
      return require('libsql')
    }
  }
}

const settingsOf = ({ name, url }: EmptyDatabase): Knex.Config =>
  name === 'sqlite'
    ? { client: libsqlDialect(), connection: { filename: url }, useNullAsDefault: true }
    : { client: name === 'postgres' ? 'pg' : 'mysql2', connection: url }

describeTool('Knex', ['postgres', 'mariadb', 'sqlite'], async (database, folder) => {
  const migration = await importOfPage<Knex.Migration>(folder, FILE, database)
  const db = knex(settingsOf(database))
  const migrationSource: Knex.MigrationSource<string> = {
    getMigrations: async () => [FILE],
    getMigrationName: (name) => name,
    getMigration: async () => migration,
  }
  return {
    migrate: async () => {
      const [, names] = (await db.migrate.latest({ migrationSource })) as [number, string[]]
      return names
    },
    rollBack: () => db.migrate.rollback({ migrationSource }),
    close: () => db.destroy(),
  }
})
