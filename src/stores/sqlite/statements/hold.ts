/** Rows behind the holder of their key wait in the database, and go on when it is out of the way. */
import type { Tables } from '../../sql/identifiers.ts'
import type { SqliteConnection } from '../connection.ts'
import { isWorkerAlive } from './lanes.ts'
import { heldBack } from './read.ts'
import { asId, asText, IDS, idList, NOW, sqlText, UNCLAIMED } from './sql-text.ts'

/** The holder is looked for in the statement that holds: afterwards its settle finds every row that waits for it. */
const HOLD = sqlText(
  (t) => `UPDATE ${t.deliveries} AS d SET status = 6, holds_key = 1, token = NULL
WHERE d.id IN ${IDS} AND d.destination = ? AND ((d.status = 0 AND ${UNCLAIMED}) OR (d.status = 2 AND d.available_at <= ${NOW})) AND d.key IS NOT NULL
  AND ${heldBack(t)}`,
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
 * The first held rows of each key before which nothing that is not held keeps them waiting: no retry, no dead
 * head that blocks, no row of an earlier batch. Whoever ends as the last of those asks again, so nothing is held
 * for ever.
 */
const PROMOTE = sqlText(
  (t) => `UPDATE ${t.deliveries} SET status = 0
WHERE id IN (
  SELECT h.id FROM json_each(?) AS j CROSS JOIN ${t.deliveries} AS h ON h.id IN (
    SELECT x.id FROM ${t.deliveries} AS x WHERE ${sameKey('x')} AND x.holds_key = 1 AND x.status = 6 ORDER BY x.seq LIMIT ?)
  WHERE NOT EXISTS (SELECT 1 FROM ${t.deliveries} AS b WHERE ${sameKey('b')} AND b.holds_key = 1 AND b.status IN (0, 2, 3)
    AND b.seq < h.seq))
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
