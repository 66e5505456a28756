/** The stores that `npm run test:stores` can run the conformance suite on. */
import type { StoreHarness } from '../../src/testing/suites/index.ts'
import { createMemoryHarness } from './memory-harness.ts'
import { createHarness as createMysqlHarness } from './mysql-harness.ts'
import { createHarness as createPostgresHarness } from './postgres-harness.ts'
import { newPostgresUrl, pgbouncerUrl, postgresUrl } from './servers.ts'
import { createHarness as createSqliteHarness } from './sqlite-harness.ts'

export interface StoreTarget {
  /** What the report says under the name. */
  readonly says: string
  /** Databases differ in their transactions, which the suite does not look into. */
  create(): Promise<StoreHarness<never, never>>
}

const target = <Tx, E>(says: string, create: () => Promise<StoreHarness<Tx, E>>): StoreTarget => ({
  says,
  create: create as unknown as StoreTarget['create'],
})

export const STORE_TARGETS: Readonly<Record<string, StoreTarget>> = {
  memory: target('in memory', createMemoryHarness),
  mariadb: target('MariaDB', () => createMysqlHarness('mariadb')),
  mysql: target('MySQL', () => createMysqlHarness('mysql')),
  postgres: target('PostgreSQL, oldest', () => createPostgresHarness(postgresUrl())),
  'postgres-new': target('PostgreSQL, newest', () => createPostgresHarness(newPostgresUrl())),
  pgbouncer: target('PostgreSQL behind PgBouncer', () => createPostgresHarness(pgbouncerUrl())),
  sqlite: target('libsql, in a file', () => createSqliteHarness('libsql')),
}
