/** The order in which the pages are read: topics, and the pages of each. Every page of docs/ is in it exactly once. */

export interface Topic {
  readonly title: string
  /** Paths from the root of the repository. */
  readonly pages: readonly string[]
}

const docs = (...names: readonly string[]): readonly string[] => names.map((name) => `docs/${name}.md`)

const inside = (folder: string, ...names: readonly string[]): readonly string[] =>
  docs(...names.map((name) => `${folder}/${name}`))

export const HOME = 'README.md'

export const CONTENTS: readonly Topic[] = [
  { title: 'Start', pages: [HOME, ...docs('getting-started', 'choosing', 'glossary')] },
  { title: 'Write and test', pages: docs('publishing', 'delivery', 'nestjs', 'testing') },
  { title: 'Databases', pages: docs('postgres', 'mysql', 'sqlite', 'migrations') },
  {
    title: 'Data layers',
    pages: [
      ...docs('clients'),
      ...inside('clients', 'pg', 'postgres-js', 'pglite', 'mysql2', 'mariadb'),
      ...inside('clients', 'node-sqlite', 'better-sqlite3', 'libsql'),
      ...inside('clients', 'prisma', 'drizzle', 'kysely', 'knex', 'typeorm', 'mikro-orm', 'sequelize'),
    ],
  },
  {
    title: 'Destinations',
    pages: [
      ...docs('destinations'),
      ...inside('destinations', 'listeners', 'kafka', 'rabbitmq', 'redis', 'nats', 'mqtt'),
      ...inside('destinations', 'webhooks', 'files', 'forward'),
    ],
  },
  {
    title: 'Operate',
    pages: docs('operating', 'dead-letters', 'observability', 'tuning', 'upgrading', 'cli', 'configuration'),
  },
  {
    title: 'Coming from',
    pages: [
      ...docs('coming-from'),
      ...inside('coming-from', 'home-made-table', 'pg-boss', 'protean', 'java-framework', 'go-library'),
      ...inside('coming-from', 'kafka-module', 'python-queue'),
    ],
  },
  {
    title: 'Rely on it',
    pages: docs('reliability', 'proof', 'simulation', 'model', 'soak', 'mutants', 'performance'),
  },
  {
    title: 'Look up',
    pages: [
      ...docs('options', 'states', 'errors', 'specification'),
      'ARCHITECTURE.md',
      'CONTRIBUTING.md',
      'CHANGELOG.md',
    ],
  },
]

export const PAGES: readonly string[] = CONTENTS.flatMap(({ pages }) => pages)

/** Where a page lies in the site: docs/clients/pg.md is clients/pg.html. */
export const addressOf = (page: string): string =>
  page === HOME
    ? 'index.html'
    : page
        .replace(/^docs\//, '')
        .replace(/\.md$/, '.html')
        .toLowerCase()
