/** Rows behind the holder of their key wait in the database, and go on when it is out of the way. */
import type { SqlStatement } from '../../sql/sql-executor.ts'
import type { PostgresDatabase, Row } from '../database.ts'
import type { PostgresTables } from '../tables.ts'
import { aliveWorker, asText, existsBy, holders, idList, NOW, sqlText, unindexed } from './sql-text.ts'

const SENDABLE = `status IN (0, 2) AND (status = 0 AND (token IS NULL OR suspicions > 0) OR available_at <= ${NOW})`

/** The first row of the key in this state before row `g`. */
const ahead = (t: PostgresTables, status: number): string =>
  `(SELECT h.id FROM ${t.deliveries} AS h WHERE ${holders('h', 'g', status)} AND h.seq < g.seq ORDER BY h.seq LIMIT 1)`

/**
 * The holder is locked before its followers are held: a settle that is about to remove it waits, and then finds
 * every row that waits for it. One that was faster has removed it, and then nothing is held.
 */
const HOLD = sqlText(
  (t) => `WITH me AS MATERIALIZED (${aliveWorker(t, '$1')}), given AS MATERIALIZED (
  SELECT id, destination, key, seq FROM ${t.deliveries}
  WHERE id = ANY($3::uuid[]) AND ${unindexed('destination')} = $2 AND key IS NOT NULL AND ${SENDABLE}
    AND EXISTS (SELECT 1 FROM me)
), found AS MATERIALIZED (
  SELECT g.id, coalesce(${ahead(t, 2)}, ${ahead(t, 3)}, ${ahead(t, 6)}) AS holder
  FROM given AS g
), locked AS MATERIALIZED (
  SELECT id FROM ${t.deliveries} WHERE id = ANY(ARRAY(SELECT holder FROM found)) AND holds_key AND status IN (2, 3, 6) FOR SHARE
), behind AS MATERIALIZED (
  SELECT id FROM found WHERE holder IN (SELECT id FROM locked)
), held AS (
  UPDATE ${t.deliveries} SET status = 6, holds_key = true, token = NULL
  WHERE id = ANY(ARRAY(SELECT id FROM behind)) AND ${SENDABLE} RETURNING id
)
SELECT id FROM held
UNION ALL
SELECT id FROM ${t.deliveries} WHERE id = ANY($3::uuid[]) AND ${unindexed('destination')} = $2 AND status = 6 AND EXISTS (SELECT 1 FROM me)`,
)

export const hold = async (
  db: PostgresDatabase,
  t: PostgresTables,
  workerId: string,
  destination: string,
  ids: readonly string[],
): Promise<readonly string[]> =>
  (await db.rows(HOLD(t), [workerId, destination, idList(ids)])).map(([id]) => asText(id))

/** Two that end the last two holders of a key at once would each see the other's; so they go one after the other. */
const lockText = (
  t: PostgresTables,
  keys: string,
): string => `SELECT count(pg_advisory_xact_lock(k.hash)) FROM (
  SELECT DISTINCT hashtextextended(j::text, hashtextextended('promote ${t.names.schema}.${t.names.prefix}', 0)) AS hash
  FROM jsonb_array_elements(${keys}) AS j ORDER BY hash
) AS k`

/**
 * The first held rows of each key before which nothing that is not held keeps them waiting: no retry, no dead
 * head that blocks, no row of an earlier batch. Whoever ends as the last of those asks again, so nothing is held
 * for ever.
 */
const promoteText = (t: PostgresTables, keys: string, limit: string): string => `WITH k AS MATERIALIZED (
  SELECT DISTINCT j->>0 AS destination, j->>1 AS key FROM jsonb_array_elements(${keys}) AS j
), free AS MATERIALIZED (
  SELECT h.id FROM k CROSS JOIN LATERAL (
    SELECT x.id, x.seq FROM ${t.deliveries} AS x
    WHERE x.destination = k.destination AND x.key = k.key AND x.holds_key AND x.status = 6 ORDER BY x.seq LIMIT ${limit}
  ) AS h
  WHERE NOT (${[0, 2, 3]
    .map((status) =>
      existsBy('b.seq', `${t.deliveries} AS b WHERE ${holders('b', 'k', status)} AND b.seq < h.seq`),
    )
    .join(' OR ')})
)
UPDATE ${t.deliveries} SET status = 0 WHERE id = ANY(ARRAY(SELECT id FROM free)) AND status = 6 RETURNING destination`

/** What earlier statements of the same transaction have noted: a setting that ends with the transaction. */
const NOTED = "coalesce(nullif(current_setting('posthaste.keys', true), ''), '[]')::jsonb"

/** Notes keys from `from` that have an expression `destination` and `key`, for `promoteNoted`. */
export const noteKeys = (from: string): string =>
  `SELECT set_config('posthaste.keys', (${NOTED} || coalesce((SELECT jsonb_agg(jsonb_build_array(destination, key)) FROM ${from}), '[]'))::text, true)`

const LOCK_NOTED = sqlText((t) => lockText(t, NOTED))
const PROMOTE_NOTED = sqlText((t) => promoteText(t, NOTED, '$1::int'))

/** Two statements for the end of a script; the second one returns the destinations in which rows became pending. */
export const promoteNoted = (t: PostgresTables, limit: number): readonly [SqlStatement, SqlStatement] => [
  { sql: LOCK_NOTED(t), params: [] },
  { sql: PROMOTE_NOTED(t), params: [limit] },
]

export const promotedDestinations = (rows: readonly Row[]): readonly string[] => [
  ...new Set(rows.map(([destination]) => asText(destination))),
]
