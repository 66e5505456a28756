/**
 * How many rows `finished` holds, and how many came in each minute, per destination. Counting them would take longer
 * the longer the history is, so whoever writes there adds parts of its own to `stats`, which are summed up now and then.
 */
import type { SqlStatement } from '../../sql/sql-executor.ts'
import type { PostgresTables } from '../tables.ts'
import { NOW, sqlText } from './sql-text.ts'

const ADDED = 'done = s.done + excluded.done, discarded = s.discarded + excluded.discarded'

const COLUMNS = 'minute, destination, part, done, discarded, failed, pending, dead'

const TOTAL = "timestamptz 'epoch'"

/** The part is the transaction's, so nobody waits for it. */
const addParts = (
  t: PostgresTables,
  from: string,
  minutes: string,
): string => `INSERT INTO ${t.stats} AS s (${COLUMNS})
  SELECT m.minute, destination, pg_current_xact_id()::text::bigint, done, discarded, 0, 0, 0
  FROM (${from}) AS added CROSS JOIN (VALUES ${minutes}) AS m(minute)
  ON CONFLICT (minute, destination, part) DO UPDATE SET ${ADDED}`

/** `from` selects destination, done and discarded of what has just finished. */
export const addFinished = (t: PostgresTables, from: string): string =>
  addParts(t, from, `(${TOTAL}), (date_trunc('minute', ${NOW}))`)

/** What was removed is no longer there, but the minute in which it finished stays as it was. */
export const addRemoved = (t: PostgresTables, from: string): string => addParts(t, from, `(${TOTAL})`)

const SUM_UP = sqlText(
  (t) => `WITH parts AS (
  DELETE FROM ${t.stats} WHERE part > 0 RETURNING minute, destination, done, discarded
)
INSERT INTO ${t.stats} AS s (${COLUMNS})
SELECT minute, destination, 0, sum(done), sum(discarded), 0, 0, 0 FROM parts GROUP BY minute, destination ORDER BY minute, destination
ON CONFLICT (minute, destination, part) DO UPDATE SET ${ADDED}`,
)

export const sumUpStatement = (t: PostgresTables): SqlStatement => ({ sql: SUM_UP(t), params: [] })

/** Destination, done, discarded. */
export const TOTALS = sqlText(
  (t) =>
    `SELECT destination, sum(done), sum(discarded) FROM ${t.stats} WHERE minute = ${TOTAL} GROUP BY destination`,
)
