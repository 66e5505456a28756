/** Per-minute figures for charts, and the duties that one worker at a time does. */
import type { MinuteStatistics } from '../../../core/spi/index.ts'
import type { PostgresDatabase } from '../database.ts'
import type { PostgresTables } from '../tables.ts'
import { aliveWorker, asMs, asNumber, asText, NOW, sqlText } from './sql-text.ts'
import { sumUpStatement } from './totals.ts'

/** What finished in a minute is there already; this adds what cannot be known later. */
const RECORD = sqlText(
  (t) => `INSERT INTO ${t.stats} (minute, destination, done, discarded, failed, pending, dead)
SELECT date_trunc('minute', ${NOW}), n.name, 0, 0,
  (SELECT count(*) FROM ${t.deliveries} WHERE destination = n.name AND status = 2),
  (SELECT count(*) FROM ${t.deliveries} WHERE destination = n.name AND status = 0),
  (SELECT count(*) FROM ${t.deliveries} WHERE destination = n.name AND status = 3)
FROM ${t.destinations} AS n
ON CONFLICT (minute, destination, part) DO UPDATE SET failed = excluded.failed, pending = excluded.pending, dead = excluded.dead`,
)

const FORGET = sqlText(
  (t) =>
    `DELETE FROM ${t.stats} WHERE minute > timestamptz 'epoch' AND minute < date_trunc('minute', ${NOW}) - $1::int * interval '1 minute'`,
)

export const recordStatistics = async (
  db: PostgresDatabase,
  t: PostgresTables,
  keepMinutes: number,
): Promise<void> => {
  await db.script([
    { sql: RECORD(t), params: [] },
    { sql: FORGET(t), params: [keepMinutes] },
    sumUpStatement(t),
  ])
}

/** What was not summed up yet is in several parts. */
const MINUTES = sqlText(
  (
    t,
  ) => `SELECT ${asMs('minute')}, destination, sum(done), sum(discarded), sum(pending), sum(failed), sum(dead) FROM ${t.stats}
WHERE minute > timestamptz 'epoch' AND minute > date_trunc('minute', ${NOW}) - $1::int * interval '1 minute' AND ($2::text IS NULL OR destination = $2)
GROUP BY minute, destination ORDER BY minute, destination`,
)

export const readStatistics = async (
  db: PostgresDatabase,
  t: PostgresTables,
  { destination, minutes }: { readonly destination?: string; readonly minutes: number },
): Promise<readonly MinuteStatistics[]> =>
  (await db.rows(MINUTES(t), [minutes, destination ?? null])).map((row) => ({
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
 * worker is over by the database's clock. One whose epoch is not the one of our snapshot was taken by somebody whom the snapshot may not know. */
const DUTY = sqlText(
  (t) => `WITH me AS MATERIALIZED (${aliveWorker(t, '$2')})
INSERT INTO ${t.lanes} AS l (destination, lane, worker_id, epoch) SELECT $1, -1, id, 1 FROM me
ON CONFLICT (destination, lane) DO UPDATE SET worker_id = excluded.worker_id, epoch = l.epoch + 1
WHERE l.worker_id IS NULL OR l.worker_id = excluded.worker_id
  OR l.epoch = (SELECT s.epoch FROM ${t.lanes} AS s WHERE s.destination = $1 AND s.lane = -1)
    AND NOT EXISTS (SELECT 1 FROM ${t.workers} AS w WHERE w.id = l.worker_id AND NOT w.fenced AND w.expires_at > ${NOW})
RETURNING 1`,
)

const FINISH = sqlText(
  (t) => `UPDATE ${t.lanes} SET worker_id = NULL WHERE destination = $1 AND lane = -1 AND worker_id = $2`,
)

export const takeDuty = async (
  db: PostgresDatabase,
  t: PostgresTables,
  name: string,
  workerId: string,
): Promise<boolean> => {
  return (await db.rows(DUTY(t), [name, workerId])).length === 1
}

export const finishDuty = async (
  db: PostgresDatabase,
  t: PostgresTables,
  name: string,
  workerId: string,
): Promise<void> => {
  await db.rows(FINISH(t), [name, workerId])
}
