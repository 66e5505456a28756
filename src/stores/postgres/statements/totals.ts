/**
 * How many rows `finished` holds, per destination. Counting them would take longer the longer the history is, so
 * whoever writes there adds a part of its own to `stats`; the parts are summed up now and then.
 */
import type { SqlStatement } from '../../sql/sql-executor.ts'
import type { PostgresTables } from '../tables.ts'
import { sqlText } from './sql-text.ts'

const ADDED = 'done = s.done + excluded.done, discarded = s.discarded + excluded.discarded'

const COLUMNS = 'minute, destination, part, done, discarded, failed, pending, dead'

/** `from` selects destination, done and discarded. The part is the transaction's, so nobody waits for it. */
export const addTotals = (
  t: PostgresTables,
  from: string,
): string => `INSERT INTO ${t.stats} AS s (${COLUMNS})
  SELECT timestamptz 'epoch', destination, pg_current_xact_id()::text::bigint, done, discarded, 0, 0, 0 FROM (${from}) AS added
  ON CONFLICT (minute, destination, part) DO UPDATE SET ${ADDED}`

const SUM_UP = sqlText(
  (t) => `WITH parts AS (
  DELETE FROM ${t.stats} WHERE minute = timestamptz 'epoch' AND part > 0 RETURNING destination, done, discarded
)
INSERT INTO ${t.stats} AS s (${COLUMNS})
SELECT timestamptz 'epoch', destination, 0, sum(done), sum(discarded), 0, 0, 0 FROM parts GROUP BY destination ORDER BY destination
ON CONFLICT (minute, destination, part) DO UPDATE SET ${ADDED}`,
)

export const sumUpStatement = (t: PostgresTables): SqlStatement => ({ sql: SUM_UP(t), params: [] })

/** Destination, done, discarded. */
export const TOTALS = sqlText(
  (t) =>
    `SELECT destination, sum(done), sum(discarded) FROM ${t.stats} WHERE minute = timestamptz 'epoch' GROUP BY destination`,
)
