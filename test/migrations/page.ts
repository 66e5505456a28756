/** The files that docs/migrations.md shows, for the database that they were written for and for the others. */
import { readFileSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { migrations as mysql } from '../../src/stores/mysql/migrations/migrations.generated.ts'
import { migrations as postgres } from '../../src/stores/postgres/migrations/migrations.generated.ts'
import { migrations as sqlite } from '../../src/stores/sqlite/migrations/migrations.generated.ts'
import { writePage } from '../docs/code-blocks.ts'
import type { EmptyDatabase } from './databases.ts'

export const PAGE = 'docs/migrations.md'

/** What the tables have today, by the subpath. */
export const LATEST = { postgres: postgres.length, mysql: mysql.length, sqlite: sqlite.length } as const

/** The functions of another database in the place of PostgreSQL's, as the page says. */
const translate = (code: string, store: 'mysql' | 'sqlite'): string =>
  code
    .replaceAll(
      `postgresMigration({ to: ${LATEST.postgres} })`,
      `${store}Migration({ to: ${LATEST[store]} })`,
    )
    .replaceAll('postgresMigration', `${store}Migration`)
    .replaceAll('postgresRemoval', `${store}Removal`)
    .replaceAll('/stores/postgres/', `/stores/${store}/`)

/** Where the file of this name is, as it would be written for this database. */
export const fileOfPage = async (folder: string, name: string, database: EmptyDatabase): Promise<string> => {
  const found = (await writePage(PAGE, folder)).find(({ file }) => basename(file) === name)
  if (found === undefined) throw new Error(`${PAGE} has no ${name}`)
  const { storeName } = database
  if (storeName === 'postgres') return found.file
  const path = join(dirname(found.file), `${storeName}-${name}`)
  writeFileSync(path, translate(readFileSync(found.file, 'utf8'), storeName))
  return path
}

export const importOfPage = async <Module>(
  folder: string,
  name: string,
  database: EmptyDatabase,
): Promise<Module> => (await import(pathToFileURL(await fileOfPage(folder, name, database)).href)) as Module
