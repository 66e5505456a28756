import { execFile } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { expect } from 'vitest'
import { TYPESCRIPT } from '../../scripts/run.ts'
import { ROOT } from '../docs/code-blocks.ts'
import type { EmptyDatabase } from './databases.ts'
import { fileOfPage, importOfPage } from './page.ts'
import { withEngine } from './prisma-engine.ts'
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

describeTool('Prisma', ['postgres', 'sqlite'], async (database, folder) => {
  const script = await fileOfPage(folder, 'prisma-outbox.ts', database)
  const config = (await importOfPage<Page>(folder, 'prisma.config.ts', database)).default
  const file = join(dirname(script), MIGRATION, 'migration.sql')
  // What `migrate dev --create-only` leaves.
  mkdirSync(dirname(file))
  writeFileSync(file, '')
  const forgotten = promisify(execFile)(process.execPath, [...TYPESCRIPT, script], { cwd: ROOT })
  await expect(forgotten).rejects.toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/^Usage: npx tsx prisma-outbox\.ts prisma\/migrations\/\S+\n$/) as string,
  })
  await promisify(execFile)(process.execPath, [...TYPESCRIPT, script, file], { cwd: ROOT })

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
  const run = <T>(command: Parameters<typeof withEngine<T>>[2]): Promise<T> =>
    withEngine(database, content, command)
  /** What `db push` would do, and what `migrate dev` would write into a new file. */
  const compare = (ignoring: typeof filters): Promise<string> =>
    run(async (engine) => {
      const rest = {
        to: { tag: 'schemaDatamodel', ...schema },
        script: true,
        exitCode: null,
        filters: ignoring,
      } as const
      const push = await engine.diff({
        from: { tag: 'schemaDatasource', ...schema, configDir: folder },
        ...rest,
      })
      const next = await engine.diff({ from: { tag: 'migrations', ...migrationsList }, ...rest })
      expect(next.stdout).toContain('CREATE TABLE "orders"')
      return `${push.stdout}\n${next.stdout}`
    })
  return {
    migrate: () =>
      run(
        async (engine) => (await engine.applyMigrations({ migrationsList, filters })).appliedMigrationNames,
      ),
    synchronize: () => run((engine) => engine.schemaPush({ force: true, schema, filters })),
    async compare() {
      // The first question of `migrate dev`: is the database what the migrations make? Here it has a table more.
      const { action } = await run((engine) => engine.devDiagnostic({ migrationsList, filters }))
      return JSON.stringify(action).replaceAll(MIGRATION, '') + (await compare(filters))
    },
    ...(database.name === 'postgres' ? {} : { compareUnprotected: () => compare(NOTHING) }),
    close: async () => undefined,
  }
})
