import { defineConfig } from 'tsdown'

/**
 * The public entry points: the name of the built file, and its source. This is the one list; the exports map
 * in package.json repeats it, and test/architecture/exports.test.ts keeps the two equal.
 * A name is also its subpath (`sqlite` is `posthaste/sqlite`), except `index`, which is `posthaste` itself.
 */
export const entries: Record<string, string> = {
  index: 'src/index.ts',
  'clients/better-sqlite3': 'src/clients/better-sqlite3.ts',
  'clients/drizzle': 'src/clients/drizzle.ts',
  'clients/knex': 'src/clients/knex.ts',
  'clients/kysely': 'src/clients/kysely.ts',
  'clients/libsql': 'src/clients/libsql.ts',
  'clients/mariadb': 'src/clients/mariadb.ts',
  'clients/mikro-orm': 'src/clients/mikro-orm.ts',
  'clients/mysql2': 'src/clients/mysql2.ts',
  'clients/node-sqlite': 'src/clients/node-sqlite.ts',
  'clients/pg': 'src/clients/pg.ts',
  'clients/pglite': 'src/clients/pglite.ts',
  'clients/postgres-js': 'src/clients/postgres-js.ts',
  'clients/prisma': 'src/clients/prisma.ts',
  'clients/sequelize': 'src/clients/sequelize.ts',
  'clients/typeorm': 'src/clients/typeorm.ts',
  config: 'src/config/index.ts',
  mysql: 'src/stores/mysql/index.ts',
  nestjs: 'src/nestjs/index.ts',
  otel: 'src/otel/index.ts',
  postgres: 'src/stores/postgres/index.ts',
  prometheus: 'src/prometheus/index.ts',
  'publishers/file': 'src/publishers/file.ts',
  'publishers/forward': 'src/publishers/forward.ts',
  'publishers/kafka': 'src/publishers/kafka/index.ts',
  'publishers/mqtt': 'src/publishers/mqtt.ts',
  'publishers/nats': 'src/publishers/nats.ts',
  'publishers/rabbitmq': 'src/publishers/rabbitmq/index.ts',
  'publishers/redis': 'src/publishers/redis.ts',
  'publishers/webhook': 'src/publishers/webhook/index.ts',
  sqlite: 'src/stores/sqlite/index.ts',
  testing: 'src/testing/index.ts',
}

/** Programs: `bin` in package.json, and what it starts. Nobody imports them, so they have one form and no types. */
const programs: Record<string, string> = {
  main: 'src/cli/main.ts',
  demo: 'demo/main.ts',
  'shop-process': 'demo/shop-process.ts',
  'prove-member': 'src/cli/prove/member.ts',
}

const common = {
  platform: 'node',
  target: 'node20.19',
  sourcemap: true,
  // .mjs/.cjs always, so that neither form depends on the "type" of the package around it.
  fixedExtension: true,
} as const

export default defineConfig([
  {
    ...common,
    entry: entries,
    format: ['esm', 'cjs'],
    dts: true,
    clean: true,
    // We ship CommonJS on purpose: Jest and NestJS applications still load packages that way.
    checks: { legacyCjs: false },
  },
  { ...common, entry: programs, format: 'esm', dts: false, clean: false, outDir: 'dist/cli' },
])
