/** Per-minute figures for charts, and the duties that one worker at a time does. */
import type { MinuteStatistics } from '../../../core/spi/index.ts'
import type { Tables } from '../../sql/identifiers.ts'
import type { SqliteConnection } from '../connection.ts'
import { isWorkerAlive } from './lanes.ts'
import { asNumber, asText, NOW, sqlText } from './sql-text.ts'

const MINUTE_MS = 60_000

/** Minutes that nobody recorded are made up for, as long as they are not longer ago than this. */
const MOST_MINUTES = 60

const THIS_MINUTE = `${NOW} / ${MINUTE_MS} * ${MINUTE_MS}`

/**
 * What finished is counted from the last recorded minute on, because that one went on after it was recorded. It never
 * becomes less: what was counted may be cleaned up by now.
 */
const FINISHED = sqlText(
  (t) => `INSERT INTO ${t.stats} (minute, destination, done, discarded, failed, pending, dead)
SELECT finished_at / ${MINUTE_MS} * ${MINUTE_MS}, destination, sum(status = 1), sum(status = 4), 0, 0, 0 FROM ${t.finished}
WHERE finished_at >= max(${THIS_MINUTE} - ${MOST_MINUTES * MINUTE_MS},
  coalesce((SELECT max(minute) FROM ${t.stats} WHERE minute > 0 AND minute < ${THIS_MINUTE}), ${THIS_MINUTE}))
GROUP BY 1, 2
ON CONFLICT (minute, destination) DO UPDATE SET done = max(done, excluded.done), discarded = max(discarded, excluded.discarded)`,
)

/** What is unfinished cannot be known later, so it is that of the last call in a minute. */
const UNFINISHED = sqlText(
  (t) => `INSERT INTO ${t.stats} (minute, destination, done, discarded, failed, pending, dead)
SELECT ${THIS_MINUTE}, n.name, 0, 0,
  (SELECT count(*) FROM ${t.deliveries} WHERE destination = n.name AND status IN (2, 5) AND status = 2),
  (SELECT count(*) FROM ${t.deliveries} WHERE destination = n.name AND status = 0),
  (SELECT count(*) FROM ${t.deliveries} WHERE destination = n.name AND status = 3)
FROM ${t.destinations} AS n WHERE true
ON CONFLICT (minute, destination) DO UPDATE SET failed = excluded.failed, pending = excluded.pending, dead = excluded.dead`,
)

const FORGET = sqlText(
  (t) => `DELETE FROM ${t.stats} WHERE minute > 0 AND minute < (${NOW} / ${MINUTE_MS} - ?) * ${MINUTE_MS}`,
)

export const recordStatistics = (c: SqliteConnection, t: Tables, keepMinutes: number): void => {
  c.rows(FINISHED(t))
  c.rows(UNFINISHED(t))
  c.rows(FORGET(t), [keepMinutes])
}

const MINUTES = sqlText(
  (t) => `SELECT minute, destination, done, discarded, pending, failed, dead FROM ${t.stats}
WHERE minute > 0 AND minute > ${THIS_MINUTE} - ? * ${MINUTE_MS} AND (? IS NULL OR destination = ?) ORDER BY minute, destination`,
)

export const readStatistics = (
  c: SqliteConnection,
  t: Tables,
  { destination = null, minutes }: { readonly destination?: string | null; readonly minutes: number },
): readonly MinuteStatistics[] =>
  c.rows(MINUTES(t), [minutes, destination, destination]).map((row) => ({
    minuteMs: asNumber(row[0]),
    destination: asText(row[1]),
    done: asNumber(row[2]),
    discarded: asNumber(row[3]),
    pending: asNumber(row[4]),
    retry: asNumber(row[5]),
    dead: asNumber(row[6]),
  }))

/**
 * Unlike a lane, a duty is not worth waiting for a fence: its steps are safe to repeat, so it is free once the lease of its
 * worker is over by the database's clock.
 */
const DUTY = sqlText(
  (t) => `INSERT INTO ${t.lanes} (destination, lane, worker_id) VALUES (?, -1, ?)
ON CONFLICT (destination, lane) DO UPDATE SET worker_id = excluded.worker_id
WHERE worker_id IS NULL OR worker_id = excluded.worker_id OR NOT EXISTS (SELECT 1 FROM ${t.workers} AS w WHERE w.id = ${t.lanes}.worker_id AND w.fenced = 0 AND w.expires_at > ${NOW})
RETURNING 1`,
)

const FINISH = sqlText(
  (t) => `UPDATE ${t.lanes} SET worker_id = NULL WHERE destination = ? AND lane = -1 AND worker_id = ?`,
)

export const takeDuty = (c: SqliteConnection, t: Tables, name: string, workerId: string): boolean =>
  isWorkerAlive(c, t, workerId) && c.rows(DUTY(t), [name, workerId]).length === 1

export const finishDuty = (c: SqliteConnection, t: Tables, name: string, workerId: string): void => {
  c.rows(FINISH(t), [name, workerId])
}
