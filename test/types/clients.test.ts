/** What the outbox's functions take and give is the library's own type, without anybody naming it. */
import type { PGlite, Transaction as PgliteTransaction } from '@electric-sql/pglite'
import type { MikroORM as MysqlOrm, EntityManager as MysqlOrmManager } from '@mikro-orm/mysql'
import type { MikroORM, EntityManager as MikroOrmManager } from '@mikro-orm/postgresql'
import type BetterSqlite3 from 'better-sqlite3'
import type { NodePgDatabase } from 'drizzle-orm/node-postgres'
import type { Knex } from 'knex'
import type { Kysely, Transaction } from 'kysely'
import type Libsql from 'libsql'
import type * as mariadb from 'mariadb'
import type mysql from 'mysql2/promise'
import type pg from 'pg'
import type postgres from 'postgres'
import type { Sequelize, Transaction as SequelizeTransaction } from 'sequelize'
import type { DataSource, EntityManager, QueryRunner } from 'typeorm'
import { expectTypeOf, it } from 'vitest'
import { betterSqlite3Transactions } from '../../src/clients/better-sqlite3.ts'
import { drizzleTransactions } from '../../src/clients/drizzle.ts'
import { knexTransactions } from '../../src/clients/knex.ts'
import { kyselyTransactions } from '../../src/clients/kysely.ts'
import { libsqlTransactions } from '../../src/clients/libsql.ts'
import { mariadbTransactions } from '../../src/clients/mariadb.ts'
import { mikroOrmTransactions } from '../../src/clients/mikro-orm.ts'
import { mysql2Transactions } from '../../src/clients/mysql2.ts'
import { nodeSqliteTransactions } from '../../src/clients/node-sqlite.ts'
import { pgTransactions } from '../../src/clients/pg.ts'
import { pgliteTransactions } from '../../src/clients/pglite.ts'
import { postgresJsTransactions } from '../../src/clients/postgres-js.ts'
import { prismaTransactions } from '../../src/clients/prisma.ts'
import { sequelizeTransactions } from '../../src/clients/sequelize.ts'
import { typeormTransactions } from '../../src/clients/typeorm.ts'
import { createOutbox, type Outbox } from '../../src/index.ts'
import {
  type PgliteClient,
  pglitePool,
  postgresStore,
  type SqlExecutor,
} from '../../src/stores/postgres/index.ts'

interface Tables {
  readonly orders: { readonly id: number }
}

/** What `prisma generate` writes, in short: two forms of `$transaction`, of which the second has a handle. */
interface PrismaTx {
  readonly order: { create(args: object): Promise<{ readonly id: number }> }
  // biome-ignore lint/suspicious/noExplicitAny: as it is generated
  $executeRawUnsafe(query: string, ...values: any[]): Promise<number>
}
interface PrismaClient extends PrismaTx {
  $transaction<P extends Promise<unknown>[]>(arg: [...P], options?: { timeout?: number }): Promise<unknown>
  $transaction<R>(
    fn: (prisma: PrismaTx) => Promise<R>,
    options?: { maxWait?: number; timeout?: number; isolationLevel?: 'Serializable' },
  ): Promise<R>
}

/** Never called: these lines are about types. */
const store = () => postgresStore({ connectionString: 'postgres://nowhere/none' })

const event = { type: 'a', payload: 1 }

type TxOf<O> = O extends Outbox<infer Tx, SqlExecutor, string> ? Tx : never

const ofPg = (pool: pg.Pool) => createOutbox({ store: store(), transactions: pgTransactions(pool) })
const ofKysely = (db: Kysely<Tables>) =>
  createOutbox({ store: store(), transactions: kyselyTransactions(db) })
const ofKnex = (knex: Knex) => createOutbox({ store: store(), transactions: knexTransactions(knex) })

const ofPostgresJs = (sql: postgres.Sql) =>
  createOutbox({ store: store(), transactions: postgresJsTransactions(sql) })
const ofPglite = (db: PGlite) => createOutbox({ store: store(), transactions: pgliteTransactions(db) })
const onPglite = (db: PGlite) => createOutbox({ store: postgresStore({ pool: pglitePool(db) }) })
const ofBetterSqlite3 = (db: BetterSqlite3.Database) =>
  createOutbox({ store: store(), transactions: betterSqlite3Transactions(db) })
const ofNodeSqlite = (db: import('node:sqlite').DatabaseSync) =>
  createOutbox({ store: store(), transactions: nodeSqliteTransactions(db) })
const ofLibsql = (db: Libsql.Database) =>
  createOutbox({ store: store(), transactions: libsqlTransactions(db) })
const ofMysql2 = (pool: mysql.Pool) =>
  createOutbox({ store: store(), transactions: mysql2Transactions(pool) })
const ofMariadb = (pool: mariadb.Pool) =>
  createOutbox({ store: store(), transactions: mariadbTransactions(pool) })
const ofDrizzle = (db: NodePgDatabase) =>
  createOutbox({ store: store(), transactions: drizzleTransactions(db) })
const ofTypeorm = (source: DataSource) =>
  createOutbox({ store: store(), transactions: typeormTransactions(source) })
const ofPrisma = (prisma: PrismaClient) =>
  createOutbox({ store: store(), transactions: prismaTransactions(prisma) })
const ofMikroOrm = (orm: MikroORM) =>
  createOutbox({ store: store(), transactions: mikroOrmTransactions(orm) })
const ofSequelize = (db: Sequelize) =>
  createOutbox({ store: store(), transactions: sequelizeTransactions(db) })

it('infers the transaction of each library', () => {
  expectTypeOf<TxOf<ReturnType<typeof ofPg>>>().toEqualTypeOf<pg.PoolClient>()
  expectTypeOf<TxOf<ReturnType<typeof ofKysely>>>().toEqualTypeOf<Transaction<Tables>>()
  expectTypeOf<TxOf<ReturnType<typeof ofKnex>>>().toEqualTypeOf<Knex.Transaction>()
  expectTypeOf<TxOf<ReturnType<typeof ofPostgresJs>>>().toEqualTypeOf<postgres.TransactionSql>()
  expectTypeOf<TxOf<ReturnType<typeof ofPglite>>>().toEqualTypeOf<PgliteTransaction>()
  expectTypeOf<TxOf<ReturnType<typeof onPglite>>>().toEqualTypeOf<PgliteClient>()
  expectTypeOf<TxOf<ReturnType<typeof ofBetterSqlite3>>>().toEqualTypeOf<BetterSqlite3.Database>()
  expectTypeOf<TxOf<ReturnType<typeof ofNodeSqlite>>>().toEqualTypeOf<import('node:sqlite').DatabaseSync>()
  expectTypeOf<TxOf<ReturnType<typeof ofLibsql>>>().toEqualTypeOf<Libsql.Database>()
  expectTypeOf<TxOf<ReturnType<typeof ofMysql2>>>().toEqualTypeOf<mysql.PoolConnection>()
  expectTypeOf<TxOf<ReturnType<typeof ofMariadb>>>().toEqualTypeOf<mariadb.PoolConnection>()
  expectTypeOf<TxOf<ReturnType<typeof ofDrizzle>>>().toEqualTypeOf<
    Parameters<Parameters<NodePgDatabase['transaction']>[0]>[0]
  >()
  expectTypeOf<TxOf<ReturnType<typeof ofPrisma>>>().toEqualTypeOf<PrismaTx>()
  expectTypeOf<TxOf<ReturnType<typeof ofMikroOrm>>>().toEqualTypeOf<MikroOrmManager>()
  expectTypeOf<TxOf<ReturnType<typeof ofTypeorm>>>().toEqualTypeOf<EntityManager>()
  expectTypeOf<TxOf<ReturnType<typeof ofSequelize>>>().toEqualTypeOf<SequelizeTransaction>()
})

it('takes the entity managers of MikroORM that people write down, and those of init() and of transactional', () => {
  const init = (orm: Awaited<ReturnType<typeof MikroORM.init>>) =>
    createOutbox({ store: store(), transactions: mikroOrmTransactions(orm) })
  const onMysql = (orm: MysqlOrm) => createOutbox({ store: store(), transactions: mikroOrmTransactions(orm) })
  const right = (
    outbox: ReturnType<typeof ofMikroOrm>,
    made: ReturnType<typeof init>,
    mysql: ReturnType<typeof onMysql>,
    em: MikroOrmManager,
    mysqlEm: MysqlOrmManager,
    orm: MikroORM,
  ) => {
    void outbox.publish(em, event)
    void outbox.publish(orm.em, event)
    void made.publish(em, event)
    void mysql.publish(mysqlEm, event)
    void em.transactional((inner) => outbox.publish(inner, event))
    void outbox.transaction((tx) => tx.transactional((inner) => outbox.publish(inner, event)))
    const named: Outbox<MikroOrmManager> = outbox
    return named
  }
  expectTypeOf(right).returns.toEqualTypeOf<Outbox<MikroOrmManager>>()
})

it('takes the entity manager of a query runner of TypeORM', () => {
  const right = (outbox: ReturnType<typeof ofTypeorm>, runner: QueryRunner) =>
    outbox.publish(runner.manager, event)
  expectTypeOf(right).returns.toEqualTypeOf<Promise<string>>()
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
    void outbox.publish(db, event)
  }
  expectTypeOf(wrong).returns.toEqualTypeOf<void>()
})
