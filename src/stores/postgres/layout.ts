/**
 * The option layout says how the tables were made. Where it says it wrongly, the server only finds that a tail is missing,
 * as it does where nothing was migrated.
 */
import { StoreError } from '../../core/errors.ts'
import { NO_PARTITIONS } from '../sql/errors.ts'
import type { PostgresDatabase } from './database.ts'
import { isTrue } from './statements/sql-text.ts'
import type { PostgresTables } from './tables.ts'

const NO_TABLE = '42P01'

const hasPlainText = ({ names, prefix }: PostgresTables): string =>
  `SELECT count(*) > 0 FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = '${names.schema}' AND c.relname IN ('${prefix}events', '${prefix}finished') AND c.relkind = 'r'`

/** For what uses tails where there are some: rejects with what is really wrong. */
export const forLayout = async <T>(
  db: PostgresDatabase,
  t: PostgresTables,
  work: () => Promise<T>,
): Promise<T> => {
  try {
    return await work()
  } catch (error) {
    const isMissing = error instanceof StoreError && error.detail.sqlState === NO_TABLE
    if (!isMissing || db.options.layout === 'plain') throw error
    const [[hasPlain] = []] = await db.rows(hasPlainText(t))
    if (!isTrue(hasPlain)) throw error
    const { code, text, transient } = NO_PARTITIONS
    throw new StoreError(code, `${db.place} ${text}`, { cause: error.cause, transient, sqlState: NO_TABLE })
  }
}
