/** Drizzle's own commands in a project of their own, as the page has it. */
import { execFile } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { createClient } from '@libsql/client'
import { pushSQLiteSchema } from 'drizzle-kit/api'
import { drizzle as onLibsql } from 'drizzle-orm/libsql'
import { migrate as migrateLibsql } from 'drizzle-orm/libsql/migrator'
import { drizzle as onMysql2 } from 'drizzle-orm/mysql2'
import { migrate as migrateMysql2 } from 'drizzle-orm/mysql2/migrator'
import { drizzle as onPg } from 'drizzle-orm/node-postgres'
import { migrate as migratePg } from 'drizzle-orm/node-postgres/migrator'
import mysql from 'mysql2/promise'
import pg from 'pg'
import { expect } from 'vitest'
import { TYPESCRIPT } from '../../scripts/run.ts'
import { ROOT } from '../docs/code-blocks.ts'
import { COMPLETE, type EmptyDatabase } from './databases.ts'
import { fileOfPage } from './page.ts'
import { describeTool } from './tool.ts'

const SCHEMAS = {
  postgres: `import { integer, pgTable } from 'drizzle-orm/pg-core'
export const orders = pgTable('orders', { id: integer().primaryKey() })
`,
  mysql: `import { int, mysqlTable } from 'drizzle-orm/mysql-core'
export const orders = mysqlTable('orders', { id: int().primaryKey() })
`,
  sqlite: `import { integer, sqliteTable } from 'drizzle-orm/sqlite-core'
export const orders = sqliteTable('orders', { id: integer().primaryKey() })
`,
} as const

const run = promisify(execFile)

interface Connection {
  migrate(migrationsFolder: string): Promise<void>
  close(): Promise<unknown>
}

const connect = async ({ name, url }: EmptyDatabase): Promise<Connection> => {
  if (name === 'postgres') {
    const pool = new pg.Pool({ connectionString: url })
    return {
      migrate: (migrationsFolder) => migratePg(onPg(pool), { migrationsFolder }),
      close: () => pool.end(),
    }
  }
  if (name === 'mariadb') {
    const pool = mysql.createPool(url)
    const db = onMysql2(pool)
    return { migrate: (migrationsFolder) => migrateMysql2(db, { migrationsFolder }), close: () => pool.end() }
  }
  const client = createClient({ url: `file:${url}` })
  return {
    migrate: (migrationsFolder) => migrateLibsql(onLibsql(client), { migrationsFolder }),
    close: async () => client.close(),
  }
}

/** What `push` would do without any filter, which only its function for programs can say without doing it. */
const compareUnfiltered = async ({ url }: EmptyDatabase): Promise<string> => {
  const client = createClient({ url: `file:${url}` })
  const { statementsToExecute } = await pushSQLiteSchema({}, onLibsql(client))
  client.close()
  return statementsToExecute.join('\n')
}

describeTool('Drizzle', ['postgres', 'mariadb', 'sqlite'], async (database, folder) => {
  const script = await fileOfPage(folder, 'drizzle-outbox.ts', database)
  const home = dirname(script)
  const hasView = database.name !== 'sqlite'
  if (!hasView) {
    const text = readFileSync(script, 'utf8')
    writeFileSync(script, text.replace(/\(\{ to: (\d+) \}\)/, '({ to: $1, view: false })'))
  }
  const config = readFileSync(await fileOfPage(folder, 'drizzle.config.ts', database), 'utf8')
  const dialect = database.storeName === 'postgres' ? 'postgresql' : database.storeName
  writeFileSync(join(home, 'project.config.ts'), config.replace("'postgresql'", `'${dialect}'`))
  writeFileSync(join(home, 'schema.ts'), SCHEMAS[database.storeName])
  const env = {
    ...process.env,
    DATABASE_URL: database.name === 'sqlite' ? `file:${database.url}` : database.url,
  }
  const command = join(dirname(createRequire(import.meta.url).resolve('drizzle-kit')), 'bin.cjs')
  const kit = async (...args: string[]): Promise<string> => {
    const all = [command, ...args, '--config=project.config.ts']
    const { stdout, stderr } = await run(process.execPath, all, { cwd: home, env }).catch(
      (error: Error & { stdout: string; stderr: string }) => {
        throw new Error(`drizzle-kit ${args.join(' ')}: ${error.stdout}\n${error.stderr}`)
      },
    )
    return stdout + stderr
  }

  await kit('generate', '--custom', '--name=outbox')
  const made = join(home, 'drizzle', '0000_outbox.sql')
  await run(process.execPath, [...TYPESCRIPT, script, made], { cwd: ROOT })

  const connection = await connect(database)
  // It reads the check constraints of all tables, and stops at those of tables that it has filtered out.
  const canPush = database.name !== 'mariadb'
  const table = `${database.name === 'postgres' ? 'drizzle.' : ''}__drizzle_migrations`
  const applied = async (): Promise<number> =>
    (await database.others()).includes('__drizzle_migrations') ? await database.count(table) : 0
  return {
    migrate: async () => {
      const before = await applied()
      await connection.migrate(join(home, 'drizzle'))
      return Array.from({ length: (await applied()) - before }, () => 'outbox')
    },
    async synchronize() {
      if (canPush) return await kit('push', '--force')
      await expect(kit('push', '--force')).rejects.toThrow('Pulling schema from database')
      await kit('generate', '--name=orders')
      return await connection.migrate(join(home, 'drizzle'))
    },
    compare: () => (canPush ? kit('push', '--force', '--verbose') : kit('generate')),
    makes: hasView ? COMPLETE : COMPLETE.filter((name) => name !== 'all'),
    ...(hasView ? {} : { compareUnprotected: () => compareUnfiltered(database) }),
    close: () => connection.close(),
  }
})
