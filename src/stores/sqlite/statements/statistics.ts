/** Per-minute figures for charts, and the duties that one worker at a time does. */
import type { Tables } from '../../sql/identifiers.ts'
import type { SqliteConnection } from '../connection.ts'
import { fenceExpired, isWorkerAlive } from './lanes.ts'
import { NOW, sqlText } from './sql-text.ts'

const MINUTE_MS = 60_000

/** The running minute is written over and over until it has passed, so any rhythm of calls will do. */
const RECORD = sqlText(
  (t) => `INSERT INTO ${t.stats} (minute, destination, done, discarded, failed, pending, dead)
SELECT m.at, n.name,
  (SELECT count(*) FROM ${t.finished} WHERE finished_at >= m.at AND destination = n.name AND status = 1),
  (SELECT count(*) FROM ${t.finished} WHERE finished_at >= m.at AND destination = n.name AND status = 4),
  (SELECT count(*) FROM ${t.deliveries} WHERE destination = n.name AND status IN (2, 5) AND status = 2),
  (SELECT count(*) FROM ${t.deliveries} WHERE destination = n.name AND status = 0),
  (SELECT count(*) FROM ${t.deliveries} WHERE destination = n.name AND status = 3)
FROM (SELECT ${NOW} / ${MINUTE_MS} * ${MINUTE_MS} AS at) AS m CROSS JOIN ${t.destinations} AS n WHERE true
ON CONFLICT (minute, destination) DO UPDATE SET done = excluded.done, discarded = excluded.discarded,
  failed = excluded.failed, pending = excluded.pending, dead = excluded.dead`,
)

const FORGET = sqlText(
  (t) => `DELETE FROM ${t.stats} WHERE minute > 0 AND minute < (${NOW} / ${MINUTE_MS} - ?) * ${MINUTE_MS}`,
)

export const recordStatistics = (c: SqliteConnection, t: Tables, keepMinutes: number): void => {
  c.rows(RECORD(t))
  c.rows(FORGET(t), [keepMinutes])
}

const DUTY = sqlText(
  (t) => `INSERT INTO ${t.lanes} (destination, lane, worker_id) VALUES (?, -1, ?)
ON CONFLICT (destination, lane) DO UPDATE SET worker_id = excluded.worker_id
WHERE worker_id IS NULL OR worker_id = excluded.worker_id OR NOT EXISTS (SELECT 1 FROM ${t.workers} AS w WHERE w.id = ${t.lanes}.worker_id AND w.fenced = 0)
RETURNING 1`,
)

const FINISH = sqlText(
  (t) => `UPDATE ${t.lanes} SET worker_id = NULL WHERE destination = ? AND lane = -1 AND worker_id = ?`,
)

export const takeDuty = (c: SqliteConnection, t: Tables, name: string, workerId: string): boolean => {
  fenceExpired(c, t)
  return isWorkerAlive(c, t, workerId) && c.rows(DUTY(t), [name, workerId]).length === 1
}

export const finishDuty = (c: SqliteConnection, t: Tables, name: string, workerId: string): void => {
  c.rows(FINISH(t), [name, workerId])
}
