/** Databases for the tests of two builds: where they are, what is done to them by hand, and how they are removed. */
import { randomBytes } from 'node:crypto'
import Database from 'libsql'
import type { Place } from '../../chaos/crew/messages.ts'
import { dropTables, runByHand as runOnMysql } from '../stores/mysql-harness.ts'
import { runByHand as runOnPostgres } from '../stores/postgres-harness.ts'
import { serverUrl } from '../stores/servers.ts'
import { testFolder } from '../stores/sqlite-files.ts'

export interface Ground {
  readonly place: Place
  readonly name: string
  /** The full name of a table. */
  table(name: string): string
  run(sql: string): Promise<unknown>
  [Symbol.asyncDispose](): Promise<void>
}

const newName = (): string => `compat_${randomBytes(6).toString('hex')}`

export const sqliteGround = (): Ground => {
  const folder = testFolder()
  const place: Place = { kind: 'sqlite', at: folder.file }
  const name = newName()
  return {
    place,
    name,
    table: (each) => `${name}_${each}`,
    // By hand, because an outbox of these sources would refuse the tables of the previous release.
    async run(sql) {
      const database = new Database(folder.file)
      // The crew is at work, in processes of its own.
      database.exec('PRAGMA busy_timeout = 60000')
      database.exec(sql)
      database.close()
    },
    [Symbol.asyncDispose]: async () => folder.remove(),
  }
}

export const postgresGround = (): Ground => {
  const at = serverUrl('postgres-new')
  const name = newName()
  return {
    place: { kind: 'postgres', at },
    name,
    table: (each) => `${name}.${each}`,
    run: (sql) => runOnPostgres(at, sql),
    [Symbol.asyncDispose]: async () => void (await runOnPostgres(at, `DROP SCHEMA ${name} CASCADE`)),
  }
}

export const mysqlGround = (server: 'mysql' | 'mariadb'): Ground => {
  const name = newName()
  return {
    place: { kind: server, at: serverUrl(server) },
    name,
    table: (each) => `${name}_${each}`,
    run: (sql) => runOnMysql(server, sql),
    [Symbol.asyncDispose]: () => dropTables(server, `${name}_`),
  }
}

/** Tables to which a later migration may add a column. */
const GROWING = ['events', 'deliveries', 'finished', 'lanes', 'workers', 'destinations']
const LATER = 900

/** What a later migration may do: it adds, and says so. It keeps both builds from relying on the number of columns. */
export const migrateFurther = async ({ table, run }: Ground): Promise<void> => {
  for (const name of GROWING) await run(`ALTER TABLE ${table(name)} ADD COLUMN test_only INTEGER NULL`)
  const applied = table('migrations')
  await run(
    `INSERT INTO ${applied} (version, name, applied_at) SELECT ${LATER}, 'test_only', applied_at FROM ${applied} WHERE version = 1`,
  )
}
