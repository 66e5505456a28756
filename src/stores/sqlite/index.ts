/** `posthaste/sqlite`: the outbox in a SQLite file, with node:sqlite, better-sqlite3 or libsql. */
import type { Store } from '../../core/spi/index.ts'
import type { SqlExecutor } from '../sql/sql-executor.ts'
import { resolveSqliteOptions, type SqliteDatabaseOptions, type SqliteFileOptions } from './options.ts'
import type { SqliteHandle } from './sqlite-handle.ts'
import { SqliteStore } from './sqlite-store.ts'

export type { SqlExecutor, SqlRow, SqlValue } from '../sql/sql-executor.ts'
export type { SqliteDriver } from './drivers.ts'
export {
  type SqliteMigrationOptions,
  type SqliteRemovalOptions,
  sqliteMigration,
  sqliteRemoval,
} from './migration.ts'
export type { SqliteDatabaseOptions, SqliteFileOptions } from './options.ts'
export type { SqliteHandle, SqliteParameter, SqliteStatement } from './sqlite-handle.ts'

/** With `file`, transactions get a small handle that is the same for every driver. No I/O before `open`. */
export function sqliteStore(options: SqliteFileOptions): Store<SqliteHandle, SqlExecutor>
/** With `database`, transactions get your own handle's type. */
export function sqliteStore<Handle extends object>(
  options: SqliteDatabaseOptions<Handle>,
): Store<Handle, SqlExecutor>
export function sqliteStore(
  options: SqliteFileOptions | SqliteDatabaseOptions<object>,
): Store<never, SqlExecutor> {
  return new SqliteStore(resolveSqliteOptions(options)) as unknown as Store<never, SqlExecutor>
}
