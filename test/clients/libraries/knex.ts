import { createRequire } from 'node:module'
import knex, { type Knex } from 'knex'
import { knexTransactions } from '../../../src/clients/knex.ts'
import type { TestDatabase } from '../databases.ts'
import type { OpenLibrary } from '../library.ts'

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

const settingsOf = ({ name, url }: TestDatabase): Knex.Config => {
  if (name === 'postgres') return { client: 'pg', connection: url }
  if (name !== 'sqlite') return { client: 'mysql2', connection: url }
  return {
    client: libsqlDialect(),
    connection: { filename: url },
    useNullAsDefault: true,
    pool: {
      min: 1,
      max: 1,
      afterCreate: (handle: { exec(sql: string): void }, done: () => void) => {
        handle.exec('PRAGMA foreign_keys = ON')
        done()
      },
    },
  }
}

export const openKnex = async (database: TestDatabase): Promise<OpenLibrary<Knex.Transaction>> => {
  const db = knex(settingsOf(database))
  return {
    transactions: knexTransactions(db),
    exec: async (tx, sql) => await tx.raw(sql),
    own: (fn) => db.transaction(fn),
    ownNested: (tx, fn) => tx.transaction(fn),
    outside: [db],
    close: () => db.destroy(),
  }
}
