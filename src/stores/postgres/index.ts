/** `posthaste/postgres`: the outbox in PostgreSQL 13 or later, with the package `pg`, or in PGlite. */
import type { Store } from '../../core/spi/index.ts'
import type { SqlExecutor } from '../sql/sql-executor.ts'
import type { ClientOf, PostgresPool } from './driver.ts'
import { type PostgresPoolOptions, type PostgresUrlOptions, resolvePostgresOptions } from './options.ts'
import { PostgresStore } from './postgres-store.ts'

export type { SqlExecutor, SqlRow, SqlValue } from '../sql/sql-executor.ts'
export type { ClientOf, PostgresPool } from './driver.ts'
export {
  type PostgresMigrationOptions,
  type PostgresRemovalOptions,
  postgresMigration,
  postgresRemoval,
} from './migration.ts'
export type { PartitionPeriod, PostgresLayout, PostgresPoolOptions, PostgresUrlOptions } from './options.ts'
export type { PgliteClient, PgliteDatabase, PgliteTransaction } from './pglite.ts'
export { pglitePool } from './pglite.ts'

/** What a transaction of the store's own pool gives: the client of `pg`, as far as most people use it. */
export interface PostgresHandle {
  query<R = Record<string, unknown>>(
    text: string,
    values?: readonly unknown[],
  ): Promise<{ readonly rows: R[]; readonly rowCount: number | null }>
}

/** With `pool`, transactions get clients of your own pool's type. No I/O before `open`. */
export function postgresStore<Pool extends PostgresPool<object>>(
  options: PostgresPoolOptions<Pool>,
): Store<ClientOf<Pool>, SqlExecutor>
/** With `connectionString`, the store makes a pool of its own. */
export function postgresStore(options: PostgresUrlOptions): Store<PostgresHandle, SqlExecutor>
export function postgresStore(
  options: PostgresPoolOptions<PostgresPool<object>> | PostgresUrlOptions,
): Store<never, SqlExecutor> {
  return new PostgresStore(resolvePostgresOptions(options)) as unknown as Store<never, SqlExecutor>
}
