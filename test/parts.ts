/**
 * `npm test` is to end within a quarter of an hour on two processors. So it leaves to `npm run test:rest` what asks the
 * same again, on one more version of a server, on one more driver or library or for longer, what the command line says
 * beyond its everyday use, and what our own tools say. Continuous integration runs both; whatever does not say which part
 * it wants, such as `npx vitest run FILE`, runs all.
 */
export type Part = 'most' | 'rest'

export const isIn = (part: Part): boolean => (process.env.POSTHASTE_TEST_PART ?? part) === part

/** Libraries on drivers that most tests meet by themselves, under Drizzle and under Prisma. */
export const REST_CLIENTS: readonly string[] = ['knex', 'kysely', 'mikro-orm', 'sequelize', 'typeorm']

/** All of these files belongs to the rest. */
export const REST_FILES = [
  ...REST_CLIENTS.map((name) => `test/clients/${name}.test.ts`),
  'test/cli/config-retry.test.ts',
  'test/cli/config.test.ts',
  'test/cli/destinations.test.ts',
  'test/cli/disposable-servers.test.ts',
  'test/cli/disposable.test.ts',
  'test/cli/doctor-servers.test.ts',
  'test/cli/import-servers.test.ts',
  'test/cli/import.test.ts',
  'test/cli/init.test.ts',
  'test/cli/interrupted.test.ts',
  'test/cli/layout-servers.test.ts',
  'test/cli/meant.test.ts',
  'test/cli/operate.test.ts',
  'test/cli/postgres.test.ts',
  'test/cli/secrets.test.ts',
  'test/cli/supervisor.test.ts',
  'test/cli/terminal.test.ts',
  'test/clients/drizzle-postgres-js.test.ts',
  'test/clients/pglite.test.ts',
  'test/clients/prisma-levels.test.ts',
  'test/compat/servers.test.ts',
  'test/compat/sqlite.test.ts',
  'test/databases/client-pages.test.ts',
  'test/docs/client-pages.test.ts',
  'test/docs/commands.test.ts',
  'test/migrations/drizzle.test.ts',
  'test/migrations/knex.test.ts',
  'test/migrations/mikro-orm.test.ts',
  'test/migrations/prisma.test.ts',
  'test/migrations/sequelize.test.ts',
  'test/migrations/typeorm.test.ts',
  'test/model/model.test.ts',
  'test/publishers/brokers/others.test.ts',
  'test/simulator/defects.test.ts',
  'test/simulator/story.test.ts',
  'test/soak/soak.test.ts',
  'test/stores/mysql-partitioned.test.ts',
  'test/stores/pglite.test.ts',
  'test/stores/postgres-oldest.test.ts',
  'test/stores/postgres-partitioned.test.ts',
  'test/stores/postgres-pgbouncer.test.ts',
  'test/stores/sqlite-libsql-memory.test.ts',
]

/** These have something of both. */
export const SPLIT_FILES = [
  'test/clients/drizzle.test.ts',
  'test/clients/mariadb.test.ts',
  'test/clients/mysql2.test.ts',
  'test/clients/prisma.test.ts',
  'test/databases/chaos.test.ts',
  'test/databases/killed-workers.test.ts',
  'test/databases/mysql-connections.test.ts',
  'test/stores/mysql-changed-tables.test.ts',
  'test/stores/mysql-concurrency.test.ts',
  'test/stores/mysql-history.test.ts',
  'test/stores/mysql-journey.test.ts',
  'test/stores/mysql-partitions.test.ts',
  'test/stores/mysql-plans.test.ts',
  'test/stores/mysql-roles.test.ts',
  'test/stores/mysql-schema.test.ts',
  'test/stores/mysql-settings.test.ts',
  'test/stores/mysql-settle.test.ts',
  'test/stores/mysql-statements.test.ts',
  'test/stores/mysql-transactions.test.ts',
  'test/stores/mysql-uncommitted.test.ts',
]
