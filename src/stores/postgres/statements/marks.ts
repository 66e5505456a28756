/**
 * How a publish that is sent later than it was called knows that its place in the transaction still stands. In between
 * the application may have rolled back, and the statement would be stored on its own, or outside of the savepoint that
 * was undone.
 *
 * Marks are settings, which end with their transaction and which a savepoint takes back. So a mark tells two things that
 * nothing else does: that there is a transaction, and that nothing was rolled back since.
 */
import type { StatementInLine } from '../../sql/sql-executor.ts'
import type { PostgresTables } from '../tables.ts'
import { sqlText } from './sql-text.ts'

const MARKS = "current_setting('posthaste.marks', true)"

const leaveMark = (mark: string): string =>
  `set_config('posthaste.marks', concat(${MARKS}, ' ', ${mark}::text), true)`

/** For who comes right behind alone, so that many of them make no long list. */
export const leaveLast = (mark: string): string => `set_config('posthaste.last', ${mark}::text, true)`

/** Whether a mark still stands, or an event that was written where a mark would have been left. */
export const stands = (t: PostgresTables, proof: string): string =>
  `(current_setting('posthaste.last', true) = ${proof}::text OR strpos(${MARKS}, ${proof}::text) > 0
    OR EXISTS (SELECT 1 FROM ${t.events} WHERE id = ${proof}::text::uuid))`

/** Leaves `$1`, unless there is a `$2` that does not stand. */
const markBehind = (t: PostgresTables): string =>
  `CASE WHEN $2::text IS NULL OR ${stands(t, '$2')} THEN ${leaveMark('$1')} END AS mark`

const MARK = sqlText((t) => `SELECT ${markBehind(t)}`)

/** One lock per key until the transaction ends, in one order for everybody. */
const LOCK_KEYS = sqlText(
  (t) => `SELECT count(pg_advisory_xact_lock(k.hash)) AS locked, ${markBehind(t)} FROM (
  SELECT DISTINCT hashtextextended(ke, hashtextextended('${t.names.schema}.${t.names.prefix}', 0)) AS hash
  FROM json_array_elements_text($3::text::json) AS ke ORDER BY hash
) AS k`,
)

export const markStatement = (
  tables: PostgresTables,
  mark: string,
  behind: string | null,
): StatementInLine => ({ sql: MARK(tables), params: [mark, behind], leaves: mark })

export const lockStatement = (
  tables: PostgresTables,
  keys: readonly string[],
  mark: string,
  behind: string | null,
): StatementInLine => ({
  sql: LOCK_KEYS(tables),
  params: [mark, behind, JSON.stringify(keys)],
  leaves: mark,
})
