/**
 * How many rows `finished` holds, per destination. Counting them would take longer the longer the history is, so
 * whoever writes there adds to running totals in `stats`. Each connection has a row of its own among sixteen, so
 * that settles at once do not wait for each other's commit.
 */
import type { Tables } from '../../sql/identifiers.ts'
import type { SqlStatement } from '../../sql/sql-executor.ts'
import type { MysqlDatabase } from '../database.ts'
import { literal } from '../script.ts'
import { asNumber, asText, one } from './sql-text.ts'

export interface Total {
  readonly destination: string
  readonly done: number
  readonly discarded: number
}

const SHARD = '-(CONNECTION_ID() MOD 16)'

/** `done` and `discarded` are numbers, or SQL for them. */
export const addTotal = (
  t: Tables,
  destination: string,
  done: number | string,
  discarded: number | string,
): SqlStatement =>
  one(`INSERT INTO ${t.stats} (minute, destination, done, discarded, failed, pending, dead)
VALUES (${SHARD}, ${literal(destination)}, ${done}, ${discarded}, 0, 0, 0)
ON DUPLICATE KEY UPDATE done = done + VALUES(done), discarded = discarded + VALUES(discarded)`)

export const readTotals = async (db: MysqlDatabase, t: Tables): Promise<readonly Total[]> => {
  const rows = await db.rows(
    `SELECT destination, SUM(done), SUM(discarded) FROM ${t.stats} WHERE minute <= 0 GROUP BY destination`,
  )
  return rows.map(([destination, done, discarded]) => ({
    destination: asText(destination),
    done: asNumber(done),
    discarded: asNumber(discarded),
  }))
}
