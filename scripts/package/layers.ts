/** Every data layer as a user first meets it: what is installed beside the package, and a program that publishes. */

export interface Layer {
  /** Of the client: `posthaste/clients/<name>`. */
  readonly name: string
  /** What a user installs, with the driver of the store where the layer does not bring it. */
  readonly packages: readonly string[]
  /** Types that those packages do not have themselves. */
  readonly types?: readonly string[]
  readonly database: 'postgres' | 'mariadb' | 'none'
  /** The lowest Node it runs on, and why it is not the package's own. */
  readonly from?: { readonly major: number; readonly reason: string }
  /** TypeScript: what is imported, what is opened, what a transaction does, and what is closed. */
  readonly imports: readonly string[]
  readonly open: readonly string[]
  readonly use: string
  readonly close: string
}

const POSTGRES = "import { postgresStore } from 'posthaste/postgres'"
const MYSQL = "import { mysqlStore } from 'posthaste/mysql'"
const SQLITE = "import { sqliteStore } from 'posthaste/sqlite'"
const PG = "import pg from 'pg'"
const POOL = 'const pool = new pg.Pool({ connectionString: place.url })'
const ON_POOL = 'const store = postgresStore({ pool, schema: place.name })'
const ON_URL = 'const store = postgresStore({ connectionString: place.url, schema: place.name })'
const TYPES_OF_PG = ['@types/pg']

export const LAYERS: readonly Layer[] = [
  {
    name: 'pg',
    packages: ['pg'],
    types: TYPES_OF_PG,
    database: 'postgres',
    imports: [PG, "import { pgTransactions } from 'posthaste/clients/pg'", POSTGRES],
    open: [POOL, ON_POOL, 'const transactions = pgTransactions(pool)'],
    use: "await tx.query('SELECT 1')",
    close: 'await pool.end()',
  },
  {
    // The store has connections of its own, of the package pg.
    name: 'postgres-js',
    packages: ['postgres', 'pg'],
    database: 'postgres',
    imports: [
      "import postgres from 'postgres'",
      "import { postgresJsTransactions } from 'posthaste/clients/postgres-js'",
      POSTGRES,
    ],
    open: [
      'const sql = postgres(place.url, { onnotice: () => undefined })',
      ON_URL,
      'const transactions = postgresJsTransactions(sql)',
    ],
    use: "await tx.unsafe('SELECT 1')",
    close: 'await sql.end()',
  },
  {
    name: 'pglite',
    packages: ['@electric-sql/pglite'],
    database: 'none',
    imports: [
      "import { PGlite } from '@electric-sql/pglite'",
      "import { pgliteTransactions } from 'posthaste/clients/pglite'",
      "import { pglitePool, postgresStore } from 'posthaste/postgres'",
    ],
    open: [
      'const db = await PGlite.create()',
      'const store = postgresStore({ pool: pglitePool(db) })',
      'const transactions = pgliteTransactions(db)',
    ],
    use: "await tx.query('SELECT 1')",
    close: 'await db.close()',
  },
  {
    name: 'mysql2',
    packages: ['mysql2'],
    database: 'mariadb',
    imports: [
      "import mysql from 'mysql2/promise'",
      "import { mysql2Transactions } from 'posthaste/clients/mysql2'",
      MYSQL,
    ],
    open: [
      'const pool = mysql.createPool(place.url)',
      "const store = mysqlStore({ pool, prefix: place.name + '_' })",
      'const transactions = mysql2Transactions(pool)',
    ],
    use: "await tx.query('SELECT 1')",
    close: 'await pool.end()',
  },
  {
    // The store has connections of its own, of the package mysql2.
    name: 'mariadb',
    packages: ['mariadb', 'mysql2'],
    database: 'mariadb',
    imports: [
      "import mariadb from 'mariadb'",
      "import { mariadbTransactions } from 'posthaste/clients/mariadb'",
      MYSQL,
    ],
    open: [
      "const pool = mariadb.createPool(place.url.replace('mysql:', 'mariadb:'))",
      "const store = mysqlStore({ connectionString: place.url, prefix: place.name + '_' })",
      'const transactions = mariadbTransactions(pool)',
    ],
    use: "await tx.query('SELECT 1')",
    close: 'await pool.end()',
  },
  {
    name: 'better-sqlite3',
    packages: ['better-sqlite3'],
    types: ['@types/better-sqlite3'],
    database: 'none',
    from: {
      major: 22,
      reason: 'the release that has binaries for these Nodes, 13, needs Node 22; 12 has to be compiled',
    },
    imports: [
      "import Database from 'better-sqlite3'",
      "import { betterSqlite3Transactions } from 'posthaste/clients/better-sqlite3'",
      SQLITE,
    ],
    open: [
      "const database = new Database(place.name + '.db')",
      'const store = sqliteStore({ database })',
      'const transactions = betterSqlite3Transactions(database)',
    ],
    use: "tx.prepare('SELECT 1').get()",
    close: 'database.close()',
  },
  {
    name: 'node-sqlite',
    packages: [],
    database: 'none',
    from: { major: 22, reason: 'Node 20 has no node:sqlite' },
    imports: [
      "import { DatabaseSync } from 'node:sqlite'",
      "import { nodeSqliteTransactions } from 'posthaste/clients/node-sqlite'",
      SQLITE,
    ],
    open: [
      "const database = new DatabaseSync(place.name + '.db')",
      'const store = sqliteStore({ database })',
      'const transactions = nodeSqliteTransactions(database)',
    ],
    use: "tx.prepare('SELECT 1').get()",
    close: 'database.close()',
  },
  {
    name: 'libsql',
    packages: ['libsql'],
    types: ['@types/better-sqlite3'],
    database: 'none',
    imports: [
      "import Database from 'libsql'",
      "import { libsqlTransactions } from 'posthaste/clients/libsql'",
      SQLITE,
    ],
    open: [
      "const database = new Database(place.name + '.db')",
      'const store = sqliteStore({ database })',
      'const transactions = libsqlTransactions(database)',
    ],
    use: "tx.prepare('SELECT 1').get()",
    close: 'database.close()',
  },
  {
    name: 'prisma',
    packages: ['@prisma/client', '@prisma/adapter-pg'],
    types: TYPES_OF_PG,
    database: 'postgres',
    imports: [
      "import { PrismaPg } from '@prisma/adapter-pg'",
      "import { prismaTransactions } from 'posthaste/clients/prisma'",
      POSTGRES,
      "import { PrismaClient } from './generated/index.js'",
    ],
    open: [
      'const prisma = new PrismaClient({ adapter: new PrismaPg({ connectionString: place.url }) })',
      ON_URL,
      'const transactions = prismaTransactions(prisma)',
    ],
    use: "await tx.$executeRawUnsafe('SELECT 1')",
    close: 'await prisma.$disconnect()',
  },
  {
    name: 'drizzle',
    packages: ['drizzle-orm', 'pg'],
    types: TYPES_OF_PG,
    database: 'postgres',
    imports: [
      "import { sql } from 'drizzle-orm'",
      "import { drizzle } from 'drizzle-orm/node-postgres'",
      PG,
      "import { drizzleTransactions } from 'posthaste/clients/drizzle'",
      POSTGRES,
    ],
    open: [POOL, 'const db = drizzle(pool)', ON_POOL, 'const transactions = drizzleTransactions(db)'],
    use: "await tx.execute(sql.raw('SELECT 1'))",
    close: 'await pool.end()',
  },
  {
    name: 'kysely',
    packages: ['kysely', 'pg'],
    types: TYPES_OF_PG,
    database: 'postgres',
    imports: [
      "import { Kysely, PostgresDialect, sql } from 'kysely'",
      PG,
      "import { kyselyTransactions } from 'posthaste/clients/kysely'",
      POSTGRES,
    ],
    open: [
      POOL,
      'const db = new Kysely<{ orders: { id: string } }>({ dialect: new PostgresDialect({ pool }) })',
      ON_POOL,
      'const transactions = kyselyTransactions(db)',
    ],
    use: "await sql.raw('SELECT 1').execute(tx)",
    close: 'await db.destroy()',
  },
  {
    name: 'knex',
    packages: ['knex', 'pg'],
    database: 'postgres',
    imports: [
      "import knex from 'knex'",
      "import { knexTransactions } from 'posthaste/clients/knex'",
      POSTGRES,
    ],
    open: [
      "const db = knex({ client: 'pg', connection: place.url })",
      ON_URL,
      'const transactions = knexTransactions(db)',
    ],
    use: "await tx.raw('SELECT 1')",
    close: 'await db.destroy()',
  },
  {
    name: 'typeorm',
    packages: ['typeorm', 'pg'],
    database: 'postgres',
    imports: [
      "import { DataSource } from 'typeorm'",
      "import { typeormTransactions } from 'posthaste/clients/typeorm'",
      POSTGRES,
    ],
    open: [
      "const dataSource = new DataSource({ type: 'postgres', url: place.url })",
      'await dataSource.initialize()',
      ON_URL,
      'const transactions = typeormTransactions(dataSource)',
    ],
    use: "await tx.query('SELECT 1')",
    close: 'await dataSource.destroy()',
  },
  {
    name: 'mikro-orm',
    packages: ['@mikro-orm/core', '@mikro-orm/postgresql'],
    database: 'postgres',
    imports: [
      "import { EntitySchema, MikroORM } from '@mikro-orm/postgresql'",
      "import { mikroOrmTransactions } from 'posthaste/clients/mikro-orm'",
      POSTGRES,
    ],
    open: [
      "const Order = new EntitySchema({ name: 'Order', properties: { id: { type: 'number', primary: true } } })",
      'const orm = await MikroORM.init({ clientUrl: place.url, entities: [Order] })',
      ON_URL,
      'const transactions = mikroOrmTransactions(orm)',
    ],
    use: "await tx.execute('SELECT 1')",
    close: 'await orm.close()',
  },
  {
    name: 'sequelize',
    packages: ['sequelize', 'pg'],
    database: 'postgres',
    imports: [
      "import { Sequelize } from 'sequelize'",
      "import { sequelizeTransactions } from 'posthaste/clients/sequelize'",
      POSTGRES,
    ],
    open: [
      'const sequelize = new Sequelize(place.url, { logging: false })',
      ON_URL,
      'const transactions = sequelizeTransactions(sequelize)',
    ],
    use: "await sequelize.query('SELECT 1', { transaction: tx })",
    close: 'await sequelize.close()',
  },
]

/** The same text is compiled as an ES module and as CommonJS. */
export const programOf = ({
  imports,
  open,
  use,
  close,
}: Layer): string => `import { createOutbox } from 'posthaste'
${imports.join('\n')}

export const run = async (place: { url: string; name: string }): Promise<string> => {
  ${open.join('\n  ')}
  const outbox = createOutbox({ store, transactions, migrate: true })
  const heard = new Promise<string>((resolve) => {
    outbox.on('order.placed', (event) => resolve(String(event.payload)))
  })
  await outbox.start()
  await outbox.transaction(async (tx) => {
    ${use}
    await outbox.publish(tx, { type: 'order.placed', payload: place.name })
  })
  const payload = await heard
  await outbox.close()
  ${close}
  return payload
}
`
