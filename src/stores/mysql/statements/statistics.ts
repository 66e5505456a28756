/** Per-minute figures for charts, and the duties that one worker at a time does. */
import type { Tables } from '../../sql/identifiers.ts'
import type { MysqlDatabase } from '../database.ts'
import { fenceExpired } from './lanes.ts'
import { lockWorkers, NOW, one } from './sql-text.ts'

const MINUTE = `TIMESTAMPDIFF(MINUTE, '1970-01-01', ${NOW})`

/** The running minute is written over and over until it has passed, so any rhythm of calls will do. */
export const recordStatistics = async (db: MysqlDatabase, t: Tables, keepMinutes: number): Promise<void> => {
  const finished = (status: number): string =>
    `(SELECT COUNT(*) FROM ${t.finished} AS f WHERE f.finished_at >= m.starts AND f.destination = n.name AND f.status = ${status})`
  const unfinished = (states: string): string =>
    `(SELECT COUNT(*) FROM ${t.deliveries} AS d WHERE d.destination = n.name AND d.state IN (${states}))`
  await db.script([
    one(`INSERT INTO ${t.stats} (minute, destination, done, discarded, failed, pending, dead)
SELECT m.minute, n.name, ${finished(1)}, ${finished(4)}, ${unfinished('2')}, ${unfinished('0')}, ${unfinished('3, 7, 8')}
FROM (SELECT ${MINUTE} AS minute, TIMESTAMPADD(MINUTE, ${MINUTE}, '1970-01-01') AS starts) AS m CROSS JOIN ${t.destinations} AS n WHERE TRUE
ON DUPLICATE KEY UPDATE done = VALUES(done), discarded = VALUES(discarded), failed = VALUES(failed), pending = VALUES(pending), dead = VALUES(dead)`),
    one(`DELETE FROM ${t.stats} WHERE minute > 0 AND minute < ${MINUTE} - ?`, [keepMinutes]),
  ])
}

export const takeDuty = async (
  db: MysqlDatabase,
  t: Tables,
  name: string,
  workerId: string,
): Promise<boolean> => {
  await db.script([fenceExpired(t)])
  const answers = await db.atomic([
    lockWorkers(t, [workerId]),
    // Whoever has it is seen by the next statement, which would otherwise look before it waits.
    one(`SELECT 1 FROM ${t.lanes} WHERE destination = ? AND lane = -1 FOR UPDATE`, [name]),
    one(
      `INSERT INTO ${t.lanes} (destination, lane, worker_id) SELECT ?, -1, w.id FROM ${t.workers} AS w WHERE w.id = ? AND w.fenced = 0
ON DUPLICATE KEY UPDATE worker_id = IF(${t.lanes}.worker_id IS NULL
  OR NOT EXISTS (SELECT 1 FROM ${t.workers} AS o WHERE o.id = ${t.lanes}.worker_id AND o.fenced = 0), ?, ${t.lanes}.worker_id)`,
      [name, workerId, workerId],
    ),
    one(
      `SELECT l.worker_id FROM ${t.lanes} AS l JOIN ${t.workers} AS w ON w.id = l.worker_id AND w.fenced = 0 WHERE l.destination = ? AND l.lane = -1`,
      [name],
    ),
  ])
  return answers[3]?.rows[0]?.[0] === workerId
}

export const finishDuty = async (
  db: MysqlDatabase,
  t: Tables,
  name: string,
  workerId: string,
): Promise<void> => {
  await db.rows(
    `UPDATE ${t.lanes} SET worker_id = NULL WHERE destination = ? AND lane = -1 AND worker_id = ?`,
    [name, workerId],
  )
}
