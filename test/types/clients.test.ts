/** What the outbox's functions take and give is the library's own type, without anybody naming it. */
import type { Knex } from 'knex'
import type { Kysely, Transaction } from 'kysely'
import type pg from 'pg'
import { expectTypeOf, it } from 'vitest'
import { knexTransactions } from '../../src/clients/knex.ts'
import { kyselyTransactions } from '../../src/clients/kysely.ts'
import { pgTransactions } from '../../src/clients/pg.ts'
import { createOutbox, type Outbox } from '../../src/index.ts'
import { postgresStore, type SqlExecutor } from '../../src/stores/postgres/index.ts'

interface Tables {
  readonly orders: { readonly id: number }
}

/** Never called: these lines are about types. */
const store = () => postgresStore({ connectionString: 'postgres://nowhere/none' })

type TxOf<O> = O extends Outbox<infer Tx, SqlExecutor, string> ? Tx : never

const ofPg = (pool: pg.Pool) => createOutbox({ store: store(), transactions: pgTransactions(pool) })
const ofKysely = (db: Kysely<Tables>) =>
  createOutbox({ store: store(), transactions: kyselyTransactions(db) })
const ofKnex = (knex: Knex) => createOutbox({ store: store(), transactions: knexTransactions(knex) })

it('infers the transaction of each library', () => {
  expectTypeOf<TxOf<ReturnType<typeof ofPg>>>().toEqualTypeOf<pg.PoolClient>()
  expectTypeOf<TxOf<ReturnType<typeof ofKysely>>>().toEqualTypeOf<Transaction<Tables>>()
  expectTypeOf<TxOf<ReturnType<typeof ofKnex>>>().toEqualTypeOf<Knex.Transaction>()
})

it('keeps the names of destinations', () => {
  const make = (db: Kysely<Tables>) =>
    createOutbox({
      store: store(),
      transactions: kyselyTransactions(db),
      destinations: { mail: { events: ['*'] } },
    })
  expectTypeOf<ReturnType<typeof make>>().toEqualTypeOf<
    Outbox<Transaction<Tables>, SqlExecutor, 'mail' | 'local'>
  >()
})

it('refuses what is not a transaction', () => {
  const wrong = (outbox: ReturnType<typeof ofKysely>, db: Kysely<Tables>) => {
    // @ts-expect-error a Kysely instance is in no transaction
    void outbox.publish(db, { type: 'a', payload: 1 })
  }
  expectTypeOf(wrong).returns.toEqualTypeOf<void>()
})
