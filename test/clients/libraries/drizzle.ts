/** Drizzle with each of its drivers; the suite runs on one per database, and on both of PostgreSQL. */
import { createClient } from '@libsql/client'
import { type SQL, sql } from 'drizzle-orm'
import { drizzle as onLibsql } from 'drizzle-orm/libsql'
import { drizzle as onMysql2 } from 'drizzle-orm/mysql2'
import { drizzle as onPg } from 'drizzle-orm/node-postgres'
import { drizzle as onPostgresJs } from 'drizzle-orm/postgres-js'
import mysql from 'mysql2/promise'
import postgres from 'postgres'
import {
  type DrizzleDatabase,
  type DrizzleTransaction,
  drizzleTransactions,
} from '../../../src/clients/drizzle.ts'
import type { TestDatabase } from '../databases.ts'
import type { OpenLibrary } from '../library.ts'
import { poolOn } from './pg.ts'

/** What the transactions of all drivers have, as far as the tests use it. */
interface Tx extends DrizzleTransaction, DrizzleDatabase<Tx> {
  execute?(query: SQL): Promise<unknown>
  run?(query: SQL): Promise<unknown>
}

const library = (db: unknown, close: () => Promise<unknown>): OpenLibrary<Tx> => {
  const database = db as DrizzleDatabase<Tx>
  return {
    transactions: drizzleTransactions(database),
    exec: async (tx, text) => await (tx.execute ?? tx.run)?.call(tx, sql.raw(text)),
    own: (fn) => database.transaction(fn),
    ownNested: (tx, fn) => tx.transaction(fn),
    outside: [db],
    commitText: 'commit',
    close: async () => void (await close()),
  }
}

export const openDrizzle = async (database: TestDatabase): Promise<OpenLibrary<Tx>> => {
  const { name, url } = database
  if (name === 'postgres') {
    const pool = poolOn(database)
    return library(onPg(pool), () => pool.end())
  }
  if (name === 'sqlite') {
    const client = createClient({ url: `file:${url}` })
    return library(onLibsql(client), async () => client.close())
  }
  const pool = mysql.createPool({ uri: url, connectionLimit: 6 })
  return library(onMysql2(pool), () => pool.end())
}

export const openDrizzleOnPostgresJs = async ({ url }: TestDatabase): Promise<OpenLibrary<Tx>> => {
  const client = postgres(url, { max: 6, onnotice: () => undefined })
  return { ...library(onPostgresJs(client), () => client.end({ timeout: 0 })), keepsLateStatements: true }
}
