/** `posthaste/mysql`: the outbox in MySQL 8 or MariaDB 10.6 and later, with the package mysql2. */
import type { Store } from '../../core/spi/index.ts'
import type { SqlExecutor } from '../sql/sql-executor.ts'
import { MysqlStore } from './mysql-store.ts'
import { type MysqlPoolOptions, type MysqlUrlOptions, resolveMysqlOptions } from './options.ts'

export type { SqlExecutor, SqlRow, SqlValue } from '../sql/sql-executor.ts'
export type { MysqlPool } from './driver.ts'
export {
  type MysqlMigrationOptions,
  type MysqlRemovalOptions,
  mysqlMigration,
  mysqlRemoval,
} from './migration.ts'
export type { MysqlLayout, MysqlPoolOptions, MysqlUrlOptions, PartitionPeriod } from './options.ts'

/** What transactions get with `connectionString`: the two members of a connection of mysql2/promise that all use. */
export interface MysqlHandle {
  query(sql: string, values?: readonly unknown[]): Promise<[unknown, unknown]>
  execute(sql: string, values?: readonly unknown[]): Promise<[unknown, unknown]>
}

/** With `connectionString`, the store makes its own pools. No I/O before `open`. */
export function mysqlStore(options: MysqlUrlOptions): Store<MysqlHandle, SqlExecutor>
/** With `pool`, transactions get connections of your own pool. */
export function mysqlStore<Connection extends object>(
  options: MysqlPoolOptions<Connection>,
): Store<Connection, SqlExecutor>
export function mysqlStore(options: MysqlUrlOptions | MysqlPoolOptions<object>): Store<never, SqlExecutor> {
  return new MysqlStore(resolveMysqlOptions(options)) as unknown as Store<never, SqlExecutor>
}
