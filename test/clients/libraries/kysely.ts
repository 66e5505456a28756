import {
  CamelCasePlugin,
  CompiledQuery,
  type Dialect,
  Kysely,
  MysqlDialect,
  PostgresDialect,
  SqliteDialect,
  type Transaction,
} from 'kysely'
import Database from 'libsql'
import { createPool } from 'mysql2'
import { kyselyTransactions } from '../../../src/clients/kysely.ts'
import type { TestDatabase } from '../databases.ts'
import type { OpenLibrary } from '../library.ts'
import { poolOn } from './pg.ts'

interface Tables {
  readonly rows: { readonly n: number }
}

const dialectOf = (database: TestDatabase): Dialect => {
  if (database.name === 'postgres') return new PostgresDialect({ pool: poolOn(database) })
  if (database.name === 'sqlite') {
    const handle = new Database(database.url)
    handle.exec('PRAGMA foreign_keys = ON')
    return new SqliteDialect({ database: handle as never })
  }
  return new MysqlDialect({ pool: createPool(database.url) })
}

/** The plugin renames what comes back, which must not reach what the store asks. */
export const kyselyOn = (database: TestDatabase): Kysely<Tables> =>
  new Kysely<Tables>({ dialect: dialectOf(database), plugins: [new CamelCasePlugin()] })

export const openKysely = async (database: TestDatabase): Promise<OpenLibrary<Transaction<Tables>>> => {
  const db = kyselyOn(database)
  return {
    transactions: kyselyTransactions(db),
    exec: (tx, sql) => tx.executeQuery(CompiledQuery.raw(sql)),
    own: (fn) => db.transaction().execute(fn),
    outside: [db],
    commitText: 'commit',
    close: () => db.destroy(),
  }
}
