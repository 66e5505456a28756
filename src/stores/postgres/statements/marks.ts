/**
 * How a publish that is sent later than it was called knows that its place in the transaction still stands. In between
 * the application may have rolled back, and the statement would be stored on its own, or outside of the savepoint that
 * was undone.
 *
 * Marks are a setting, which ends with its transaction and which a savepoint takes back. So a mark tells two things that
 * nothing else does: that there is a transaction, and that nothing was rolled back since.
 */
import type { SqlStatement } from '../../sql/sql-executor.ts'
import type { PostgresTables } from '../tables.ts'
import { sqlText } from './sql-text.ts'

const MARKS = "current_setting('posthaste.marks', true)"

/** What it is set to is not sent back. */
const set = (marks: string): string => `set_config('posthaste.marks', ${marks}, true) IS NOT NULL`

const leaveMark = (mark: string): string => set(`concat(${MARKS}, ' ', ${mark}::text)`)

export const markStands = (mark: string): string => `strpos(${MARKS}, ${mark}::text) > 0`

/** Its publish is done, and the list stays short. */
export const dropMark = (mark: string): string => set(`replace(${MARKS}, concat(' ', ${mark}::text), '')`)

const MARK = `SELECT ${leaveMark('$1')} AS marked`

/** One lock per key until the transaction ends, in one order for everybody. */
const lockText = (t: PostgresTables, keys: string): string => `FROM (
  SELECT DISTINCT hashtextextended(ke, hashtextextended('${t.names.schema}.${t.names.prefix}', 0)) AS hash
  FROM json_array_elements_text(${keys}::text::json) AS ke ORDER BY hash
) AS k`

const LOCK_KEYS = sqlText((t) => `SELECT count(pg_advisory_xact_lock(k.hash)) AS locked ${lockText(t, '$1')}`)

const LOCK_AND_MARK = sqlText(
  (t) =>
    `SELECT count(pg_advisory_xact_lock(k.hash)) AS locked, ${leaveMark('$2')} AS marked ${lockText(t, '$1')}`,
)

export const markStatement = (mark: string): SqlStatement => ({ sql: MARK, params: [mark] })

/** With a mark where somebody might roll back before the insert follows. */
export const lockStatement = (
  tables: PostgresTables,
  keys: readonly string[],
  mark: string | null,
): SqlStatement => {
  const list = JSON.stringify(keys)
  return mark === null
    ? { sql: LOCK_KEYS(tables), params: [list] }
    : { sql: LOCK_AND_MARK(tables), params: [list, mark] }
}
