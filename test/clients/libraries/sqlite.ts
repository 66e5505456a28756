/** The libraries of the SQLite store: one connection, on which an application runs one transaction after another. */
import { createRequire } from 'node:module'
import { join } from 'node:path'
import type BetterSqlite3 from 'better-sqlite3'
import Libsql from 'libsql'
import { betterSqlite3Transactions } from '../../../src/clients/better-sqlite3.ts'
import { libsqlTransactions } from '../../../src/clients/libsql.ts'
import { nodeSqliteTransactions } from '../../../src/clients/node-sqlite.ts'
import type { Transactions } from '../../../src/core/spi/index.ts'
import type { SqlExecutor } from '../../../src/stores/sqlite/index.ts'
import type { SqliteFile, TestDatabase } from '../databases.ts'
import type { OpenLibrary } from '../library.ts'

/** Test packages that Node 20 cannot load are installed beside test/nodes. */
const requireNew = createRequire(join(import.meta.dirname, '..', '..', 'nodes', 'package.json'))

export const openLibsqlFile = (path: string): Libsql.Database => new Libsql(path)

export const openBetterSqlite3File = (path: string): BetterSqlite3.Database =>
  new (requireNew('better-sqlite3') as typeof BetterSqlite3)(path)

export const openNodeSqliteFile = (path: string): import('node:sqlite').DatabaseSync =>
  new (requireNew('node:sqlite') as typeof import('node:sqlite')).DatabaseSync(path)

const library = <Handle extends SqliteFile>(
  database: Handle,
  outside: readonly Handle[],
  transactions: Transactions<Handle, SqlExecutor>,
): OpenLibrary<Handle> => {
  database.exec('PRAGMA foreign_keys = ON')
  let last: Promise<unknown> = Promise.resolve()
  let depth = 0
  const byHand = async (fn: (tx: Handle) => Promise<void>): Promise<void> => {
    database.exec('BEGIN IMMEDIATE')
    try {
      await fn(database)
      database.exec('COMMIT')
    } catch (error) {
      database.exec('ROLLBACK')
      throw error
    }
  }
  return {
    transactions,
    exec: async (tx, sql) => tx.exec(sql),
    // There is one connection, so an application has its transactions wait for each other.
    own: (fn) => {
      const running = last.then(() => byHand(fn))
      last = running.catch(() => undefined)
      return running
    },
    async ownNested(tx, fn) {
      const name = `own_${++depth}`
      database.exec(`SAVEPOINT ${name}`)
      try {
        await fn(tx)
      } catch (error) {
        database.exec(`ROLLBACK TO ${name}`)
        throw error
      } finally {
        database.exec(`RELEASE ${name}`)
      }
    },
    outside: [database, ...outside],
    close: async () => {
      for (const one of [database, ...outside]) one.close()
    },
  }
}

export const openLibsql = async ({ url }: TestDatabase): Promise<OpenLibrary<Libsql.Database>> => {
  const database = openLibsqlFile(url)
  return library(database, [openLibsqlFile(url)], libsqlTransactions(database))
}

export const openBetterSqlite3 = async ({
  url,
}: TestDatabase): Promise<OpenLibrary<BetterSqlite3.Database>> => {
  const database = openBetterSqlite3File(url)
  return library(database, [openBetterSqlite3File(url)], betterSqlite3Transactions(database))
}

export const openNodeSqlite = async ({
  url,
}: TestDatabase): Promise<OpenLibrary<import('node:sqlite').DatabaseSync>> => {
  const database = openNodeSqliteFile(url)
  return library(database, [openNodeSqliteFile(url)], nodeSqliteTransactions(database))
}
