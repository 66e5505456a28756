/** Rows behind the holder of their key wait in the database, and go on when it is out of the way. */
import type { Tables } from '../../sql/identifiers.ts'
import type { SqliteConnection } from '../connection.ts'
import { isWorkerAlive } from './lanes.ts'
import { holder } from './read.ts'
import { asId, asText, IDS, idList, NOW, sqlText } from './sql-text.ts'

/**
 * The holder is looked for in the statement that holds: afterwards its settle finds every row that waits for
 * it. A delayed row ranks when it is due, so it lines up behind everything that is stored by now.
 */
const HOLD = sqlText(
  (t) => `UPDATE ${t.deliveries} AS d SET status = 6, holds_key = 1,
  seq = CASE status WHEN 5 THEN coalesce((SELECT q.seq FROM sqlite_sequence AS q WHERE q.name = '${t.prefix}events'), d.seq) ELSE seq END
WHERE d.id IN ${IDS} AND d.destination = ? AND d.status IN (0, 5) AND d.available_at <= ${NOW} AND d.key IS NOT NULL
  AND CASE d.status WHEN 5 THEN ${holder(t, '2, 3, 6', '')} ELSE ${holder(t, '2, 3, 6', ' AND h.seq < d.seq')} END`,
)

const HELD = sqlText(
  (t) => `SELECT id FROM ${t.deliveries} WHERE id IN ${IDS} AND destination = ? AND status = 6`,
)

export const hold = (
  c: SqliteConnection,
  t: Tables,
  workerId: string,
  destination: string,
  ids: readonly string[],
): readonly string[] => {
  if (!isWorkerAlive(c, t, workerId)) return []
  const list = idList(ids)
  c.rows(HOLD(t), [list, destination])
  return c.rows(HELD(t), [list, destination]).map(([id]) => asId(id))
}

export interface KeyOf {
  readonly destination: string
  readonly key: string
}

const sameKey = (table: string): string => `${table}.destination = j.value->>0 AND ${table}.key = j.value->>1`

/**
 * The first held rows of each key, up to the next holder that is not held itself: a retry, a dead head that
 * blocks, or a row of an earlier batch that is still pending. Whoever settles that one asks again.
 */
const PROMOTE = sqlText(
  (t) => `UPDATE ${t.deliveries} SET status = 0
WHERE id IN (
  SELECT h.id FROM json_each(?) AS j CROSS JOIN ${t.deliveries} AS h ON h.id IN (
    SELECT x.id FROM ${t.deliveries} AS x WHERE ${sameKey('x')} AND x.holds_key = 1 AND x.status = 6
      AND x.seq < coalesce((SELECT min(b.seq) FROM ${t.deliveries} AS b
        WHERE ${sameKey('b')} AND b.holds_key = 1 AND b.status IN (0, 2, 3)), 9223372036854775807)
    ORDER BY x.seq LIMIT ?))
RETURNING destination`,
)

/** Returns the destinations in which rows became pending. */
export const promote = (
  c: SqliteConnection,
  t: Tables,
  keys: readonly KeyOf[],
  limit: number,
): readonly string[] => {
  if (keys.length === 0) return []
  const distinct = new Map(keys.map(({ destination, key }) => [JSON.stringify([destination, key]), null]))
  const rows = c.rows(PROMOTE(t), [`[${[...distinct.keys()].join(',')}]`, limit])
  return [...new Set(rows.map(([destination]) => asText(destination)))]
}
