/** Libraries on a file of SQLite, and what ends a transaction of theirs behind their back. */
import Database from 'libsql'
import { onTestFinished } from 'vitest'
import { type Draft, defineEvent } from '../../src/index.ts'
import { openDatabase, type TestDatabase } from './databases.ts'
import { openKnex } from './libraries/knex.ts'
import { openKysely } from './libraries/kysely.ts'
import { openMikroOrm } from './libraries/mikro-orm.ts'
import { openTypeorm } from './libraries/typeorm.ts'
import type { OpenLibrary } from './library.ts'
import { openOutbox } from './outbox-on.ts'

export const event: Draft = { type: 'a', payload: 1 }
export const ENDED = { code: 'POSTHASTE_TRANSACTION_ENDED' }
export const ROLLED_BACK = { code: 'POSTHASTE_COMMIT_ROLLED_BACK' }
export const UNKNOWN = { code: 'POSTHASTE_COMMIT_UNKNOWN' }

/** What undoes the transaction that these statements are sent in. */
const LOSSES = {
  'INSERT OR ROLLBACK': [
    'INSERT INTO client_parents VALUES (1)',
    'INSERT OR ROLLBACK INTO client_parents VALUES (1)',
  ],
  'a trigger with RAISE(ROLLBACK)': ['INSERT INTO client_rows VALUES (-1)'],
  'ROLLBACK sent by hand': ['ROLLBACK'],
} as const

export type Loss = keyof typeof LOSSES
export const losses = Object.keys(LOSSES) as Loss[]

export type Open = (database: TestDatabase) => Promise<OpenLibrary<never>>

export const libraries = Object.entries({
  openKysely,
  openKnex,
  openMikroOrm,
  openTypeorm,
}) as unknown as readonly [string, Open][]

export const open = async (openLibrary: Open) => {
  const database = await openDatabase('sqlite')
  const hand = new Database(database.url)
  hand.exec(
    `CREATE TRIGGER no_negatives BEFORE INSERT ON client_rows WHEN NEW.n < 0 BEGIN SELECT RAISE(ROLLBACK, 'negative'); END`,
  )
  const library = await openLibrary(database)
  const { outbox, stored } = await openOutbox(database, library.transactions)
  onTestFinished(async () => {
    await outbox.close()
    // MikroORM never gives a connection back whose ROLLBACK failed.
    await library.close(true)
    hand.close()
    await database.dispose()
  })
  const lose = async (tx: never, how: Loss): Promise<void> => {
    for (const text of LOSSES[how]) await library.exec(tx, text).catch(() => undefined)
  }
  const left = (): number => {
    const [row] = hand.prepare('SELECT count(*) AS n FROM outbox_dedup').all() as { n: number }[]
    return Number(row?.n)
  }
  return { database, library, outbox, stored, lose, left, hand }
}

export const lateEvent = (after: Promise<void>): Draft => {
  const validate = async (value: unknown) => {
    await after
    return { value }
  }
  return defineEvent('late', { schema: { '~standard': { version: 1, vendor: 'test', validate } } })(1)
}
