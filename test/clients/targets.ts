/** The clients that `npm run test:clients` can run the conformance suite on, each on every database it supports. */
import type { ClientHarness, SuiteOptions } from '../../src/testing/suites/index.ts'
import { type DatabaseName, type OpenFile, openDatabase, type TestDatabase } from './databases.ts'
import {
  openBetterSqlite3,
  openBetterSqlite3File,
  openLibsql,
  openLibsqlFile,
  openNodeSqlite,
  openNodeSqliteFile,
} from './libraries/sqlite.ts'
import { harnessOn, type OpenLibrary } from './library.ts'

/** Each loads its library when a case needs it: all of them together take seconds. */
const openDrizzle = async (on: TestDatabase) => (await import('./libraries/drizzle.ts')).openDrizzle(on)
const openKnex = async (on: TestDatabase) => (await import('./libraries/knex.ts')).openKnex(on)
const openKysely = async (on: TestDatabase) => (await import('./libraries/kysely.ts')).openKysely(on)
const openMariadb = async (on: TestDatabase) => (await import('./libraries/mariadb.ts')).openMariadb(on)
const openMikroOrm = async (on: TestDatabase) => (await import('./libraries/mikro-orm.ts')).openMikroOrm(on)
const openMysql2 = async (on: TestDatabase) => (await import('./libraries/mysql2.ts')).openMysql2(on)
const openPg = async (on: TestDatabase) => (await import('./libraries/pg.ts')).openPg(on)
const openPglite = async () => (await import('./libraries/pglite.ts')).openPglite()
const openPostgresJs = async (on: TestDatabase) =>
  (await import('./libraries/postgres-js.ts')).openPostgresJs(on)
const openPrisma = async (on: TestDatabase) => (await import('./libraries/prisma.ts')).openPrisma(on)
const openSequelize = async (on: TestDatabase) => (await import('./libraries/sequelize.ts')).openSequelize(on)
const openTypeorm = async (on: TestDatabase) => (await import('./libraries/typeorm.ts')).openTypeorm(on)

export interface ClientTarget {
  /** The package whose version is tested. */
  readonly package: string
  readonly databases: readonly DatabaseName[]
  /** What docs/clients.md says. */
  readonly says: Says
  /** What cannot hold with this library, and why. */
  readonly skip: Skips
  /** Of the packaged Nodes the one to run on, for what does not run on the lowest. */
  readonly node: string | null
  create(database: DatabaseName): Promise<ClientHarness<never, never>>
}

interface Says {
  readonly function: string
  readonly commitHooks: boolean
  readonly nested: 'savepoints' | 'its own'
}

type Skips = Partial<Record<DatabaseName, NonNullable<SuiteOptions['skip']>>>

interface Particulars {
  readonly skip?: Skips
  readonly node?: string | null
  /** What opens the file of SQLite for everybody; libsql unless said. */
  readonly openFile?: OpenFile
}

const target = <Tx>(
  name: string,
  databases: readonly DatabaseName[],
  says: Says,
  open: (database: TestDatabase) => Promise<OpenLibrary<Tx>>,
  { skip = {}, node = null, openFile }: Particulars = {},
): ClientTarget => ({
  package: name,
  databases,
  says,
  skip,
  node,
  create: async (database) =>
    (await harnessOn(
      await openDatabase(database, { openFile, again: true }),
      open,
    )) as unknown as ClientHarness<never, never>,
})

const says = (name: string, more: Partial<Says> = {}): Says => ({
  function: name,
  commitHooks: false,
  nested: 'savepoints',
  ...more,
})

const EVERYWHERE: readonly DatabaseName[] = ['postgres', 'mariadb', 'mysql', 'sqlite']

export const LATE = {
  test: 'of a transaction that the application opened are refused after its end',
  reason: 'postgres.js does not say that a transaction is over',
}

export const UNAWAITED = {
  test: 'a statement that fails and that nobody waits for: all or nothing, as was said',
  reason: 'postgres.js tells nobody what COMMIT answered, nor that a statement is under way',
}

const LOCKED = [
  'keeps transactions that run at the same time apart',
  'several at the same time are kept apart',
].map((test) => ({
  test,
  reason:
    'the client of libsql begins each transaction on a connection of its own and does not wait for the lock',
}))

const OVERLAPPING = [
  'several at the same time are kept apart',
  'that are another transaction in each asynchronous context are kept apart, or refused',
].map((test) => ({
  test,
  reason:
    'TypeORM has one query runner for SQLite, and makes transactions that overlap savepoints of each other',
}))

/** On SQLite; what becomes of the events is in sqlite-ended.test.ts. */
const stuckAfter = (reason: string) =>
  [
    'a deadlock that was swallowed: rolled back, and nothing is sent',
    'a publish after a deadlock that was swallowed is refused',
    'so is one after an earlier publish',
  ].map((test) => ({ test, reason }))

const UNCOUNTED = [
  'a publish is one round trip more, or none',
  'so is a publish of many, and one with an idempotency key',
  'a transaction without a publish costs what the library makes it cost',
].map((test) => ({ test, reason: 'the database is in the process, so there are no round trips' }))

/** What runs on it alone: better-sqlite3 and node:sqlite. */
const NEW_NODE = '24'

export const CLIENT_TARGETS: Readonly<Record<string, ClientTarget>> = {
  pg: target('pg', ['postgres'], says('pgTransactions'), openPg),
  'postgres-js': target(
    'postgres',
    ['postgres'],
    says('postgresJsTransactions', { nested: 'its own' }),
    openPostgresJs,
    { skip: { postgres: [LATE, UNAWAITED] } },
  ),
  pglite: target('@electric-sql/pglite', ['pglite'], says('pgliteTransactions'), openPglite, {
    skip: { pglite: UNCOUNTED },
  }),
  mysql2: target('mysql2', ['mariadb', 'mysql'], says('mysql2Transactions'), openMysql2),
  mariadb: target('mariadb', ['mariadb', 'mysql'], says('mariadbTransactions'), openMariadb),
  'better-sqlite3': target(
    'better-sqlite3',
    ['sqlite'],
    says('betterSqlite3Transactions'),
    openBetterSqlite3,
    {
      node: NEW_NODE,
      openFile: openBetterSqlite3File,
    },
  ),
  'node-sqlite': target('node:sqlite', ['sqlite'], says('nodeSqliteTransactions'), openNodeSqlite, {
    node: NEW_NODE,
    openFile: openNodeSqliteFile,
  }),
  libsql: target('libsql', ['sqlite'], says('libsqlTransactions'), openLibsql, { openFile: openLibsqlFile }),
  prisma: target(
    '@prisma/client',
    EVERYWHERE,
    says('prismaTransactions', { nested: 'its own' }),
    openPrisma,
    {
      skip: {
        sqlite: [
          {
            test: 'a COMMIT that the database refuses: rolled back, and nothing is sent',
            reason: 'the adapter for libsql leaves the transaction open on its connection',
          },
        ],
      },
    },
  ),
  drizzle: target(
    'drizzle-orm',
    EVERYWHERE,
    says('drizzleTransactions', { nested: 'its own' }),
    openDrizzle,
    { skip: { sqlite: LOCKED } },
  ),
  kysely: target('kysely', EVERYWHERE, says('kyselyTransactions'), openKysely),
  knex: target(
    'knex',
    EVERYWHERE,
    says('knexTransactions', { commitHooks: true, nested: 'its own' }),
    openKnex,
    {
      skip: {
        sqlite: [
          {
            test: 'a COMMIT that the database refuses: rolled back, and nothing is sent',
            reason: 'Knex gives the connection back with the transaction still open on it',
          },
        ],
      },
    },
  ),
  typeorm: target(
    'typeorm',
    EVERYWHERE,
    says('typeormTransactions', { commitHooks: true, nested: 'its own' }),
    openTypeorm,
    {
      skip: {
        sqlite: [
          ...OVERLAPPING,
          ...stuckAfter('TypeORM takes a transaction whose ROLLBACK failed for open from then on'),
        ],
      },
    },
  ),
  'mikro-orm': target(
    '@mikro-orm/core',
    EVERYWHERE,
    says('mikroOrmTransactions', { commitHooks: true, nested: 'its own' }),
    openMikroOrm,
    { skip: { sqlite: stuckAfter('MikroORM never gives the only connection back when ROLLBACK failed') } },
  ),
  sequelize: target(
    'sequelize',
    ['postgres', 'mariadb', 'mysql'],
    says('sequelizeTransactions', { commitHooks: true }),
    openSequelize,
  ),
}
