import { execFile } from 'node:child_process'
import { mkdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { expect } from 'vitest'
import { ROOT } from '../docs/code-blocks.ts'
import type { EmptyDatabase } from './databases.ts'
import { fileOfPage, importOfPage } from './page.ts'
import { openEngine } from './prisma-engine.ts'
import { describeTool } from './tool.ts'

const PROVIDERS = { postgres: 'postgresql', mariadb: 'mysql', sqlite: 'sqlite' } as const
const MIGRATION = '20261115120000_outbox'

const schemaFor = ({ name }: EmptyDatabase): string => `datasource db {
  provider = "${PROVIDERS[name]}"
}

model Order {
  id Int @id

  @@map("orders")
}
`

interface Page {
  readonly default: { readonly tables?: { readonly external?: string[] } }
}

const NOTHING = { externalTables: [], externalEnums: [] }

describeTool('Prisma', ['postgres', 'mariadb', 'sqlite'], async (database, folder) => {
  const script = fileOfPage(folder, 'prisma-outbox.ts', database)
  const config = (await importOfPage<Page>(folder, 'prisma.config.ts', database)).default
  const file = join(dirname(script), MIGRATION, 'migration.sql')
  mkdirSync(dirname(file))
  await promisify(execFile)(process.execPath, ['--import', 'tsx', script, file], { cwd: ROOT })

  const content = schemaFor(database)
  const schema = { files: [{ path: 'schema.prisma', content }] }
  // On PostgreSQL the page sets nothing.
  const external = database.name === 'postgres' ? [] : (config.tables?.external ?? [])
  const filters = { externalTables: external, externalEnums: [] }
  const migrationsList = {
    baseDir: dirname(script),
    lockfile: { path: 'migration_lock.toml', content: `provider = "${PROVIDERS[database.name]}"\n` },
    shadowDbInitScript: '',
    migrationDirectories: [
      {
        path: MIGRATION,
        migrationFile: {
          path: 'migration.sql',
          content: { tag: 'ok' as const, value: readFileSync(file, 'utf8') },
        },
      },
    ],
  }
  const engine = await openEngine(database, content)
  /** What `db push` would do, and `migrate dev` after it has run all migrations. */
  const compare = async (ignoring: typeof filters): Promise<string> => {
    const { stdout } = await engine.diff({
      from: { tag: 'url', url: database.url },
      to: { tag: 'schemaDatamodel', ...schema },
      script: true,
      shadowDatabaseUrl: null,
      exitCode: null,
      filters: ignoring,
    })
    return stdout ?? ''
  }
  return {
    migrate: async () => (await engine.applyMigrations({ migrationsList, filters })).appliedMigrationNames,
    synchronize: () => engine.schemaPush({ force: true, schema, filters }),
    async compare() {
      // The first question of `migrate dev`: is the database what the migrations make? Here it has a table more.
      if (database.name === 'postgres') {
        const { action } = await engine.devDiagnostic({ migrationsList, filters })
        expect(JSON.stringify(action)).not.toMatch(/outbox\.|deliver/)
      }
      return await compare(filters)
    },
    ...(database.name === 'postgres' ? {} : { compareUnprotected: () => compare(NOTHING) }),
    close: async () => engine.free(),
  }
})
