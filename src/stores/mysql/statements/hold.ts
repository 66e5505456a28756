/** Rows behind the holder of their key wait in the database, and go on when it is out of the way. */
import type { Tables } from '../../sql/identifiers.ts'
import type { SqlStatement } from '../../sql/sql-executor.ts'
import type { MysqlDatabase } from '../database.ts'
import { literal } from '../script.ts'
import { heldBack } from './read.ts'
import {
  asId,
  BY_KEY,
  idList,
  KEY,
  lockWorkers,
  NOW,
  one,
  rowsById,
  UNCLAIMED,
  workerIsAlive,
} from './sql-text.ts'

/**
 * The holder is locked until the rows are held: its settle waits for that and finds every row that waits for it,
 * or came first, and then it is no holder any more.
 */
export const hold = async (
  db: MysqlDatabase,
  t: Tables,
  workerId: string,
  destination: string,
  ids: readonly string[],
): Promise<readonly string[]> => {
  if (ids.length === 0) return []
  const list = idList(ids)
  const rows = rowsById(t.deliveries, ids)
  const alive = workerIsAlive(t, workerId)
  const [, , , held] = await db.atomic([
    lockWorkers(t, [workerId]),
    one(`SELECT d.id FROM ${rows} FOR UPDATE`),
    one(
      `UPDATE (
  SELECT d.id FROM ${rows}
  WHERE d.destination = ? AND ((d.status = 0 AND ${UNCLAIMED}) OR (d.status = 2 AND d.available_at <= ${NOW})) AND d.key IS NOT NULL
    AND ${heldBack(t, ' LOCK IN SHARE MODE')} LIMIT ${ids.length}
) AS b STRAIGHT_JOIN ${t.deliveries} AS r ON r.id = b.id SET r.status = 6, r.holds_key = 1, r.token = NULL
WHERE r.status IN (0, 2) AND ${alive}`,
      [destination],
    ),
    one(
      `SELECT id FROM ${t.deliveries} WHERE id IN (${list}) AND destination = ? AND status = 6 AND ${alive}`,
      [destination],
    ),
  ])
  return (held?.rows ?? []).map(([id]) => asId(id))
}

export interface KeyOf {
  readonly destination: string
  readonly key: string
}

export const distinctKeys = (keys: readonly KeyOf[]): readonly KeyOf[] =>
  [...new Map(keys.map((key) => [JSON.stringify([key.destination, key.key]), key])).entries()]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([, key]) => key)

/**
 * The first held rows of a key before which nothing that is not held keeps them waiting: no retry, no dead head
 * that blocks, no row of an earlier batch. Those are locked, or two settles at once would each leave it to the
 * other. Whoever ends as the last of them asks again, so nothing is held for ever.
 */
export const promotion = (
  t: Tables,
  { destination, key }: KeyOf,
  limit: number,
  condition = '',
): SqlStatement => {
  const sameKey = `destination = ${literal(destination)} AND ${KEY} = ${literal(key)} AND holds_key = 1`
  // One status at a time: where several are asked for, the row behind the last is locked too, whoever's it is.
  const firsts = [0, 2, 3].map(
    (status) =>
      `(SELECT seq FROM ${t.deliveries} ${BY_KEY} WHERE ${sameKey} AND status = ${status} ORDER BY seq LIMIT 1 LOCK IN SHARE MODE)`,
  )
  return one(`UPDATE (
  SELECT p.id FROM (SELECT id, seq FROM ${t.deliveries} ${BY_KEY} WHERE ${sameKey} AND status = 6${condition} ORDER BY seq LIMIT ${limit}) AS p
  WHERE p.seq < COALESCE((SELECT MIN(b.seq) FROM (${firsts.join(' UNION ALL ')}) AS b), ${2n ** 63n - 1n}) LIMIT ${limit}
) AS h STRAIGHT_JOIN ${t.deliveries} AS d ON d.id = h.id SET d.status = 0 WHERE d.status = 6`)
}
