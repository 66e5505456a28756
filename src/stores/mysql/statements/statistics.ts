/** Per-minute figures for charts, and the duties that one worker at a time does. */
import type { MinuteStatistics } from '../../../core/spi/index.ts'
import type { Tables } from '../../sql/identifiers.ts'
import type { SqlStatement } from '../../sql/sql-executor.ts'
import type { MysqlDatabase } from '../database.ts'
import { asNumber, asText, lockWorkers, NOW, one } from './sql-text.ts'

const MINUTE = `TIMESTAMPDIFF(MINUTE, '1970-01-01', ${NOW})`

/** Minutes that nobody recorded are made up for, as long as they are not longer ago than this. */
const MOST_MINUTES = 60

const AT = (minute: string): string => `TIMESTAMPADD(MINUTE, ${minute}, '1970-01-01')`

/**
 * What finished is counted from the last recorded minute on, because that one went on after it was recorded. It never
 * becomes less: what was counted may be cleaned up by now.
 */
const recordFinished = (t: Tables): SqlStatement => {
  const last = `(SELECT MAX(s.minute) FROM ${t.stats} AS s WHERE s.minute > 0 AND s.minute < ${MINUTE})`
  const from = `GREATEST(COALESCE(${last}, ${MINUTE}), ${MINUTE} - ${MOST_MINUTES})`
  return one(`INSERT INTO ${t.stats} (minute, destination, done, discarded, failed, pending, dead)
SELECT n.* FROM (
  SELECT TIMESTAMPDIFF(MINUTE, '1970-01-01', f.finished_at) AS minute, f.destination, SUM(f.status = 1) AS done, SUM(f.status = 4) AS discarded, 0, 0 AS p, 0 AS d
  FROM ${t.finished} AS f FORCE INDEX (by_finish) WHERE f.finished_at >= ${AT(from)} GROUP BY 1, 2
) AS n
ON DUPLICATE KEY UPDATE done = GREATEST(${t.stats}.done, VALUES(done)), discarded = GREATEST(${t.stats}.discarded, VALUES(discarded))`)
}

/** What is unfinished cannot be known later, so it is that of the last call in a minute. */
const recordUnfinished = (t: Tables): SqlStatement => {
  const unfinished = (states: string): string =>
    `(SELECT COUNT(*) FROM ${t.deliveries} AS d WHERE d.destination = n.name AND d.state IN (${states}))`
  return one(`INSERT INTO ${t.stats} (minute, destination, done, discarded, failed, pending, dead)
SELECT ${MINUTE}, n.name, 0, 0, ${unfinished('2')}, ${unfinished('0')}, ${unfinished('3, 7, 8')} FROM ${t.destinations} AS n WHERE TRUE
ON DUPLICATE KEY UPDATE failed = VALUES(failed), pending = VALUES(pending), dead = VALUES(dead)`)
}

export const recordStatistics = async (db: MysqlDatabase, t: Tables, keepMinutes: number): Promise<void> => {
  await db.script([
    recordFinished(t),
    recordUnfinished(t),
    one(`DELETE FROM ${t.stats} WHERE minute > 0 AND minute < ${MINUTE} - ?`, [keepMinutes]),
  ])
}

export const readStatistics = async (
  db: MysqlDatabase,
  t: Tables,
  { destination, minutes }: { readonly destination?: string; readonly minutes: number },
): Promise<readonly MinuteStatistics[]> => {
  const only = destination === undefined ? '' : ' AND destination = ?'
  const rows = await db.rows(
    `SELECT minute, destination, done, discarded, pending, failed, dead FROM ${t.stats}
WHERE minute > 0 AND minute > ${MINUTE} - ?${only} ORDER BY minute, destination`,
    destination === undefined ? [minutes] : [minutes, destination],
  )
  return rows.map((row) => ({
    minuteMs: asNumber(row[0]) * 60_000,
    destination: asText(row[1]),
    done: asNumber(row[2]),
    discarded: asNumber(row[3]),
    pending: asNumber(row[4]),
    retry: asNumber(row[5]),
    dead: asNumber(row[6]),
  }))
}

/**
 * Unlike a lane, a duty is not worth waiting for a fence: its steps are safe to repeat, so it is free once the lease of its
 * worker is over by the database's clock.
 */
export const takeDuty = async (
  db: MysqlDatabase,
  t: Tables,
  name: string,
  workerId: string,
): Promise<boolean> => {
  const answers = await db.atomic([
    lockWorkers(t, [workerId]),
    // Whoever has it is seen by the next statement, which would otherwise look before it waits.
    one(`SELECT 1 FROM ${t.lanes} WHERE destination = ? AND lane = -1 FOR UPDATE`, [name]),
    one(
      `INSERT INTO ${t.lanes} (destination, lane, worker_id) SELECT ?, -1, w.id FROM ${t.workers} AS w WHERE w.id = ? AND w.fenced = 0
ON DUPLICATE KEY UPDATE worker_id = IF(${t.lanes}.worker_id IS NULL
  OR NOT EXISTS (SELECT 1 FROM ${t.workers} AS o WHERE o.id = ${t.lanes}.worker_id AND o.fenced = 0 AND o.expires_at > ${NOW}), ?, ${t.lanes}.worker_id)`,
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
