/** Delayed rows whose time has come take their place at the end of the line. */
import type { ActivateRequest } from '../../../core/spi/index.ts'
import type { Tables } from '../../sql/identifiers.ts'
import type { SqliteConnection } from '../connection.ts'
import { isWorkerAlive } from './lanes.ts'
import { DUE_SCHEDULED, laneMask } from './read.ts'
import { asBigInt, asNumber, sqlText } from './sql-text.ts'

const COUNT = sqlText(
  (t) => `SELECT count(*) FROM (SELECT 1 FROM ${t.deliveries} WHERE ${DUE_SCHEDULED} LIMIT ?)`,
)

/** The numbers come from the same sequence as those of events, so that they are new. */
const DRAW = 'UPDATE sqlite_sequence SET seq = seq + ? WHERE name = ? RETURNING seq'

const ACTIVATE = sqlText(
  (t) => `UPDATE ${t.deliveries} AS d SET status = 0, seq = ? + n.number
FROM (
  SELECT id, row_number() OVER (ORDER BY available_at, seq) AS number
  FROM (SELECT id, available_at, seq FROM ${t.deliveries} WHERE ${DUE_SCHEDULED} ORDER BY available_at LIMIT ?)
) AS n
WHERE d.id = n.id`,
)

export const activate = (c: SqliteConnection, t: Tables, request: ActivateRequest): number => {
  const { workerId, destination, lanes, limit } = request
  if (!isWorkerAlive(c, t, workerId)) return 0
  const mask = laneMask(lanes)
  const count = asNumber(c.rows(COUNT(t), [destination, mask, limit])[0]?.[0])
  if (count === 0) return 0
  const last = c.rows(DRAW, [count, `${t.prefix}events`])[0]?.[0]
  // The clock moved on since they were counted, so the count bounds them here.
  c.rows(ACTIVATE(t), [asBigInt(last) - BigInt(count), destination, mask, count])
  return count
}
