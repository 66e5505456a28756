/** The stores that `npm run test:stores` can run the conformance suite on. */
import type { StoreHarness } from '../../src/testing/suites/index.ts'
import { createMemoryHarness } from './memory-harness.ts'
import { createHarness as createMysqlHarness } from './mysql-harness.ts'
import { createHarness as createPgliteHarness } from './pglite-harness.ts'
import { createHarness as createPostgresHarness } from './postgres-harness.ts'
import { type ServerName, serverUrl } from './servers.ts'
import { createHarness as createSqliteHarness } from './sqlite-harness.ts'

export interface StoreTarget {
  /** What the report says under the name. */
  readonly says: string
  /** The server it needs, by its name in `npm run services`. */
  readonly service: ServerName | null
  /** Databases differ in their transactions, which the suite does not look into. */
  create(): Promise<StoreHarness<never, never>>
}

const target = <Tx, E>(
  says: string,
  service: ServerName | null,
  create: () => Promise<StoreHarness<Tx, E>>,
): StoreTarget => ({ says, service, create: create as unknown as StoreTarget['create'] })

const postgres = (says: string, service: ServerName): StoreTarget =>
  target(says, service, () => createPostgresHarness(serverUrl(service)))

export const STORE_TARGETS: Readonly<Record<string, StoreTarget>> = {
  memory: target('in memory', null, createMemoryHarness),
  sqlite: target('libsql, in a file', null, () => createSqliteHarness('libsql')),
  postgres: postgres('the oldest PostgreSQL', 'postgres'),
  'postgres-new': postgres('the newest PostgreSQL', 'postgres-new'),
  pglite: target('PGlite, in memory', null, createPgliteHarness),
  pgbouncer: postgres('PostgreSQL behind PgBouncer', 'pgbouncer'),
  mariadb: target('MariaDB', 'mariadb', () => createMysqlHarness('mariadb')),
  mysql: target('MySQL', 'mysql', () => createMysqlHarness('mysql')),
}
