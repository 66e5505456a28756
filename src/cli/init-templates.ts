/** What `posthaste init` writes: files that work as they are, and say where yours goes. */

export const DATABASES = ['sqlite', 'postgres', 'mysql', 'mariadb'] as const
export const BROKERS = ['none', 'kafka', 'rabbitmq', 'redis', 'nats', 'mqtt', 'webhook'] as const

interface Library {
  readonly title: string
  readonly call: string
  readonly from: string
  /** The value of the user's that it wraps. */
  readonly handle: string
}

export const LIBRARIES: Readonly<Record<string, Library>> = {
  prisma: { title: 'Prisma', call: 'prismaTransactions', from: 'prisma', handle: 'prisma' },
  drizzle: { title: 'Drizzle', call: 'drizzleTransactions', from: 'drizzle', handle: 'db' },
  kysely: { title: 'Kysely', call: 'kyselyTransactions', from: 'kysely', handle: 'db' },
  knex: { title: 'Knex', call: 'knexTransactions', from: 'knex', handle: 'knex' },
  typeorm: { title: 'TypeORM', call: 'typeormTransactions', from: 'typeorm', handle: 'dataSource' },
  'mikro-orm': { title: 'MikroORM', call: 'mikroOrmTransactions', from: 'mikro-orm', handle: 'orm' },
  sequelize: { title: 'Sequelize', call: 'sequelizeTransactions', from: 'sequelize', handle: 'sequelize' },
}

export const ORMS: readonly string[] = ['none', ...Object.keys(LIBRARIES)]

export interface Plan {
  readonly database: (typeof DATABASES)[number]
  readonly orm: string
  readonly broker: (typeof BROKERS)[number]
  /** `ts`, or `mjs` where TypeScript cannot be loaded. */
  readonly extension: 'ts' | 'mjs'
  readonly needsLibsql: boolean
}

const STORES: Readonly<Record<Plan['database'], { readonly imports: string; readonly make: string }>> = {
  sqlite: {
    imports: "import { sqliteStore } from 'posthaste/sqlite'",
    make: "sqliteStore({ file: process.env.OUTBOX_FILE ?? 'app.db' })",
  },
  postgres: {
    imports: "import { postgresStore } from 'posthaste/postgres'",
    make: "postgresStore({ connectionString: process.env.DATABASE_URL ?? 'postgres://localhost/app' })",
  },
  mysql: {
    imports: "import { mysqlStore } from 'posthaste/mysql'",
    make: "mysqlStore({ connectionString: process.env.DATABASE_URL ?? 'mysql://root@localhost/app' })",
  },
  mariadb: {
    imports: "import { mysqlStore } from 'posthaste/mysql'",
    make: "mysqlStore({ connectionString: process.env.DATABASE_URL ?? 'mariadb://root@localhost/app' })",
  },
}

const PUBLISHERS: Readonly<
  Record<string, { readonly call: string; readonly options: string; readonly packages: readonly string[] }>
> = {
  kafka: {
    call: 'kafkaPublisher',
    options: "{ brokers: (process.env.KAFKA_BROKERS ?? 'localhost:9092').split(',') }",
    packages: ['@platformatic/kafka'],
  },
  rabbitmq: {
    call: 'rabbitmqPublisher',
    options: "{ url: process.env.RABBITMQ_URL ?? 'amqp://localhost', exchange: 'events' }",
    packages: ['amqplib'],
  },
  redis: {
    call: 'redisPublisher',
    options: "{ url: process.env.REDIS_URL ?? 'redis://localhost:6379' }",
    packages: ['redis'],
  },
  nats: {
    call: 'natsPublisher',
    options: "{ servers: process.env.NATS_URL ?? 'nats://localhost:4222' }",
    packages: ['@nats-io/transport-node', '@nats-io/jetstream'],
  },
  mqtt: {
    call: 'mqttPublisher',
    options: "{ url: process.env.MQTT_URL ?? 'mqtt://localhost:1883' }",
    packages: ['mqtt'],
  },
  webhook: {
    call: 'webhookPublisher',
    options:
      "{ endpoint: { url: process.env.WEBHOOK_URL ?? 'https://webhook.invalid/hook', secret: process.env.WEBHOOK_SECRET ?? '{secret}' } }",
    packages: [],
  },
}

const DRIVERS: Readonly<Record<Plan['database'], readonly string[]>> = {
  sqlite: [],
  postgres: ['pg'],
  mysql: ['mysql2'],
  mariadb: ['mysql2'],
}

export const packagesFor = ({ database, broker, needsLibsql }: Plan): readonly string[] => [
  ...DRIVERS[database],
  ...(database === 'sqlite' && needsLibsql ? ['libsql'] : []),
  ...(PUBLISHERS[broker]?.packages ?? []),
]

const eventsFile = (
  isTs: boolean,
): string => `// What can happen in your application. Events with the same key are delivered in the order in which they happened.
import { defineEvent${isTs ? ', typeOnly' : ''} } from 'posthaste'

export const orderPlaced = defineEvent('order.placed', {
${isTs ? '  schema: typeOnly<{ orderId: string; total: number }>(), // or a schema of zod, valibot … that is checked\n' : ''}  key: (order) => order.orderId,
})
`

const outboxFile = ({ database, orm, broker, extension }: Plan): string => {
  const { imports, make } = STORES[database]
  const library = LIBRARIES[orm]
  const publisher = PUBLISHERS[broker]
  const lines = [
    "import { createOutbox } from 'posthaste'",
    ...(library === undefined ? [] : [`import { ${library.call} } from 'posthaste/clients/${library.from}'`]),
    ...(publisher === undefined
      ? []
      : [`import { ${publisher.call} } from 'posthaste/publishers/${broker}'`]),
    imports,
    ...(library === undefined
      ? []
      : [`import { ${library.handle} } from '../db.${extension}' // your own ${library.title}`]),
    `import { orderPlaced } from './events.${extension}'`,
    '',
    'export const outbox = createOutbox({',
    `  store: ${make},`,
    ...(library === undefined ? [] : [`  transactions: ${library.call}(${library.handle}),`]),
    '  destinations: {',
    '    // Listeners in your own code, below.',
    '    mailer: { events: [orderPlaced] },',
    ...(publisher === undefined
      ? []
      : [`    ${broker}: { to: ${publisher.call}(${publisher.options}), events: ['*'] },`]),
    '  },',
    '})',
    '',
    '// Called at least once for each event: make it safe to run twice, by event.id. What it throws is tried again, and spends an',
    '// attempt; when what it needs is away, throw an OutageError (posthaste): then everything waits, and no attempt is spent.',
    "outbox.on('mailer', orderPlaced, async (event) => {",
    "  console.log('mail: thank you for order', event.payload.orderId)",
    '})',
    '',
  ]
  return lines.join('\n')
}

const configFile = ({ extension }: Plan): string => `import { defineConfig } from 'posthaste/config'
import * as events from './outbox/events.${extension}'
import { outbox } from './outbox/outbox.${extension}'

export default defineConfig({
  outboxes: { app: outbox },
  events,
  // Settings for all of them; posthaste config shows what holds.
  outbox: { retentionDone: '168h' },
})
`

export interface Ingredients {
  /** The store's own migration. */
  readonly sql: string
  /** For the signatures of webhooks, until the user has one. */
  readonly secret: string
}

/** Paths and texts. */
export const filesFor = (
  plan: Plan,
  { sql, secret }: Ingredients,
): readonly (readonly [string, string])[] => [
  [`posthaste.config.${plan.extension}`, configFile(plan)],
  [`outbox/events.${plan.extension}`, eventsFile(plan.extension === 'ts')],
  [`outbox/outbox.${plan.extension}`, outboxFile(plan).replace('{secret}', secret)],
  ['outbox/migration.sql', sql],
]
