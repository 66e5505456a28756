/** A store of this package, of these sources or of another build, on the database of a run. */
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Store } from '../../src/index.ts'
import type { Place } from '../crew/messages.ts'

/** Names of what a run makes in a database that is its own anyway. */
export const SCHEMA = 'chaos'
export const PREFIX = `${SCHEMA}_`

const POOL_SIZE = 4
/** An answer that does not come is given up before a lease of a few seconds would be. */
const QUERY_TIMEOUT_MS = 4_000

export type Library = typeof import('../../src/index.ts')

const load = async <T>(build: string | null, built: string, source: string): Promise<T> =>
  (await import(
    build === null
      ? new URL(`../../src/${source}`, import.meta.url).href
      : pathToFileURL(join(build, 'dist', `${built}.mjs`)).href
  )) as T

export const loadLibrary = (build: string | null): Promise<Library> => load(build, 'index', 'index.ts')

/** `name` keeps its tables apart from those of others: their schema, or the beginning of their names. */
export const openStore = async (
  { kind, at }: Place,
  build: string | null,
  name: string = SCHEMA,
): Promise<Store> => {
  const prefix = `${name}_`
  if (kind === 'sqlite') {
    type Sqlite = typeof import('../../src/stores/sqlite/index.ts')
    const { sqliteStore } = await load<Sqlite>(build, 'sqlite', 'stores/sqlite/index.ts')
    return sqliteStore({ file: at, prefix }) as unknown as Store
  }
  const common = { connectionString: at, poolSize: POOL_SIZE, queryTimeoutMs: QUERY_TIMEOUT_MS }
  if (kind === 'postgres') {
    type Postgres = typeof import('../../src/stores/postgres/index.ts')
    const { postgresStore } = await load<Postgres>(build, 'postgres', 'stores/postgres/index.ts')
    return postgresStore({ ...common, schema: name }) as unknown as Store
  }
  type Mysql = typeof import('../../src/stores/mysql/index.ts')
  const { mysqlStore } = await load<Mysql>(build, 'mysql', 'stores/mysql/index.ts')
  return mysqlStore({ ...common, prefix }) as unknown as Store
}
