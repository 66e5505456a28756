/** What `init` writes compiles for every database, library and broker, and some of it is run. */
import { mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { dirname, join } from 'node:path'
import ts from 'typescript'
import { describe, expect, it, onTestFinished } from 'vitest'
import { ROOT } from '../../scripts/run.ts'
import { BROKERS, DATABASES, filesFor, ORMS, type Plan } from '../../src/cli/init-templates.ts'
import { newFolder } from '../docs/code-blocks.ts'
import { createFolder, type Folder } from './cli.ts'

const DRIZZLE: Readonly<Record<Plan['database'], string>> = {
  sqlite: "import type { LibSQLDatabase as Database } from 'drizzle-orm/libsql'",
  postgres: "import type { NodePgDatabase as Database } from 'drizzle-orm/node-postgres'",
  mysql: "import type { MySql2Database as Database } from 'drizzle-orm/mysql2'",
  mariadb: "import type { MySql2Database as Database } from 'drizzle-orm/mysql2'",
}

/** The user's own file, with the types of the library. */
const dbFile = ({ orm, database }: Plan): string => {
  const files: Readonly<Record<string, string>> = {
    none: 'export {}',
    // What `prisma generate` writes, in short.
    prisma: `interface Tx { $executeRawUnsafe(query: string, ...values: unknown[]): Promise<number> }
export declare const prisma: Tx & { $transaction<R>(fn: (tx: Tx) => Promise<R>): Promise<R> }`,
    drizzle: `${DRIZZLE[database]}\nexport declare const db: Database`,
    kysely: `import type { Kysely } from 'kysely'
export declare const db: Kysely<{ orders: { id: string } }>`,
    knex: "import type { Knex } from 'knex'\nexport declare const knex: Knex",
    typeorm: "import type { DataSource } from 'typeorm'\nexport declare const dataSource: DataSource",
    'mikro-orm': "import type { MikroORM } from '@mikro-orm/core'\nexport declare const orm: MikroORM",
    sequelize: "import type { Sequelize } from 'sequelize'\nexport declare const sequelize: Sequelize",
  }
  return files[orm] ?? ''
}

/** Every library on every database, and every broker with each of them somewhere. */
const PLANS = ORMS.flatMap((orm, i) =>
  DATABASES.map((database, j): Plan => {
    const broker = BROKERS[(i * DATABASES.length + j) % BROKERS.length] as Plan['broker']
    return { database, orm, broker, extension: 'ts', needsLibsql: false }
  }),
)

const writeAll = (home: string, files: readonly (readonly [string, string])[]): readonly string[] =>
  files.map(([name, text]) => {
    const path = join(home, name)
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, text)
    return path
  })

it('compiles, with the types of the built package and of the libraries', { timeout: 180_000 }, () => {
  expect(new Set(PLANS.map(({ broker }) => broker)).size).toBe(BROKERS.length)
  const folder = newFolder()
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const files = PLANS.flatMap((plan) =>
    writeAll(join(folder, `${plan.database}-${plan.orm}-${plan.broker}`), [
      ...filesFor(plan, { sql: '', secret: 'whsec_' }),
      ['db.ts', dbFile(plan)],
    ]),
  ).filter((path) => path.endsWith('.ts'))
  const program = ts.createProgram(files, {
    target: ts.ScriptTarget.ES2022,
    module: ts.ModuleKind.NodeNext,
    moduleResolution: ts.ModuleResolutionKind.NodeNext,
    allowImportingTsExtensions: true,
    strict: true,
    exactOptionalPropertyTypes: true,
    noUnusedLocals: true,
    skipLibCheck: true,
    noEmit: true,
    types: ['node'],
    typeRoots: [join(ROOT, 'node_modules', '@types')],
  })
  const problems = ts
    .getPreEmitDiagnostics(program)
    .map(
      ({ file, messageText }) => `${file?.fileName}: ${ts.flattenDiagnosticMessageText(messageText, '\n')}`,
    )
  expect(problems).toEqual([])
})

const withPackages = (...names: readonly string[]): Folder => {
  const folder = createFolder()
  for (const name of names) {
    const link = join(folder.path, 'node_modules', name)
    mkdirSync(dirname(link), { recursive: true })
    symlinkSync(join(ROOT, 'node_modules', name), link)
  }
  return folder
}

const APP = `import { orderPlaced } from './outbox/events.ts'
import { outbox } from './outbox/outbox.ts'
await outbox.transaction((tx) => outbox.publish(tx, orderPlaced({ orderId: 'o-1', total: 5 })))
await outbox.close()
process.exit()
`

describe('runs', () => {
  it('with Kysely on SQLite, to a webhook', async () => {
    const heard: string[] = []
    const server = createServer((request, response) => {
      heard.push(String(request.headers['webhook-signature']))
      response.end()
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => void server.close())
    const folder = withPackages('kysely', 'libsql')
    const env = { WEBHOOK_URL: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook` }
    const init = ['init', '--yes', '--database', 'sqlite', '--orm', 'kysely', '--broker', 'webhook', '--json']
    expect((await folder.run(init)).json).toMatchObject({ ok: true, extension: 'ts' })
    folder.write(
      'db.ts',
      `import { Kysely, SqliteDialect } from 'kysely'
import Database from 'libsql'
export const db = new Kysely<object>({ dialect: new SqliteDialect({ database: new Database('app.db') as never }) })`,
    )
    // The server of this test is neither public nor behind TLS.
    const outbox = readFileSync(join(folder.path, 'outbox/outbox.ts'), 'utf8')
    const local = "allowHttp: true, allowNetworks: ['127.0.0.0/8'], endpoint:"
    folder.write('outbox/outbox.ts', outbox.replace('endpoint:', local))
    folder.write('app.mts', APP)
    expect(await folder.run(['migrate'], { env })).toMatchObject({ code: 0 })
    expect(await folder.node('--import', 'tsx', 'app.mts')).toMatchObject({ code: 0, stderr: '' })
    const work = await folder.run(['worker', '--once', '--log-level', 'warn', '--json'], { env })
    expect(work).toMatchObject({ code: 0, json: { done: 2, dead: 0 } })
    expect(work.stdout).toContain('mail: thank you for order o-1')
    expect(heard).toEqual([expect.stringMatching(/^v1,/)])
  })

  it('with Drizzle on SQLite', async () => {
    const folder = withPackages('drizzle-orm', '@libsql', 'libsql')
    const init = ['init', '--yes', '--database', 'sqlite', '--orm', 'drizzle', '--json']
    expect((await folder.run(init)).json).toMatchObject({ ok: true, broker: 'none' })
    folder.write(
      'db.ts',
      `import { createClient } from '@libsql/client'
import { drizzle } from 'drizzle-orm/libsql'
export const db = drizzle(createClient({ url: 'file:app.db' }))`,
    )
    folder.write('app.mts', APP)
    expect(await folder.run(['migrate'])).toMatchObject({ code: 0 })
    expect(await folder.node('--import', 'tsx', 'app.mts')).toMatchObject({ code: 0, stderr: '' })
    const work = await folder.run(['worker', '--once', '--log-level', 'warn', '--json'])
    expect(work).toMatchObject({ code: 0, json: { done: 1, dead: 0 } })
  })
})
