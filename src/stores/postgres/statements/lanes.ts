/** Workers and their lanes. A worker that was fenced changes nothing here either. */
import { LANES } from '../../../core/model/index.ts'
import type {
  LaneSurvey,
  OpenBreaker,
  OwnedLane,
  SilentWorker,
  TakenLane,
  WorkerRegistration,
} from '../../../core/spi/index.ts'
import { type LiveWorker, laneSurvey, type SurveyedLane } from '../../sql/lane-survey.ts'
import { breakersText } from '../../sql/open-breakers.ts'
import type { SqlStatement } from '../../sql/sql-executor.ts'
import type { PostgresDatabase, Row } from '../database.ts'
import type { PostgresTables } from '../tables.ts'
import { aliveWorker, asNumber, asText, isTrue, MS, NOW, sqlText, textList } from './sql-text.ts'

/** A repeated registration extends the lease, unless the worker was fenced in between. */
const REGISTER = sqlText(
  (t) => `INSERT INTO ${t.workers} AS w (id, name, started_at, expires_at, destinations, lease_ms)
VALUES ($1, $2, ${NOW}, ${NOW} + $3::float8 * ${MS}, $4::text[], $3::float8)
ON CONFLICT (id) DO UPDATE SET expires_at = excluded.expires_at WHERE NOT w.fenced`,
)

const RENEW = sqlText(
  (t) =>
    `UPDATE ${t.workers} SET expires_at = ${NOW} + $1::float8 * ${MS}, breakers = $3 WHERE id = $2 AND NOT fenced RETURNING 1`,
)

/** In microseconds, so that every renewal leaves another. */
const STAMP = '(extract(epoch FROM w.expires_at) * 1000000)::bigint'

/**
 * FOR UPDATE waits for everything that the worker has under way, because that holds the row FOR KEY SHARE; an
 * UPDATE alone would not. Rows that others fence at the same time are waited for too, never skipped. Whoever has
 * renewed while we waited is left alone: the row is judged again under its lock.
 */
const FENCE = sqlText(
  (t) => `WITH expired AS MATERIALIZED (
  SELECT w.id FROM ${t.workers} AS w JOIN unnest($1::text[], $2::bigint[]) AS s(id, stamp) ON s.id = w.id
  WHERE NOT w.fenced AND w.expires_at <= ${NOW} AND ${STAMP} = s.stamp ORDER BY w.id FOR UPDATE OF w
)
UPDATE ${t.workers} AS w SET fenced = true FROM expired WHERE w.id = expired.id`,
)

/** A lane is free without an owner, and when its owner was fenced or its row is gone. */
const isFree = (t: PostgresTables): string =>
  `(l.worker_id IS NULL OR NOT EXISTS (SELECT 1 FROM ${t.workers} AS o WHERE o.id = l.worker_id AND NOT o.fenced))`

const WORKERS = sqlText(
  (
    t,
  ) => `SELECT w.id, ${STAMP}, w.lease_ms, extract(epoch FROM w.expires_at - ${NOW}) * 1000, to_json(w.destinations)::text
FROM ${t.workers} AS w WHERE NOT w.fenced`,
)

const LANES_OF = sqlText(
  (t) => `SELECT l.destination, l.lane, l.epoch, l.worker_id = $1, ${isFree(t)} FROM ${t.lanes} AS l
WHERE l.destination = ANY($2::text[]) AND l.lane >= 0 ORDER BY l.lane`,
)

/**
 * What looks free in our snapshot may have been taken since, even by a worker that our snapshot does not know.
 * Every take makes the epoch grow, so a lane of another epoch than we saw is left alone.
 */
const TAKE = sqlText(
  (t) => `WITH me AS MATERIALIZED (${aliveWorker(t, '$1')}), seen AS MATERIALIZED (
  SELECT l.lane, l.epoch, l.worker_id IS NULL AS clean FROM ${t.lanes} AS l
  WHERE l.destination = $2 AND l.lane >= 0 AND ${isFree(t)}
), free AS MATERIALIZED (
  SELECT l.lane, s.clean FROM seen AS s JOIN ${t.lanes} AS l ON l.destination = $2 AND l.lane = s.lane AND l.epoch = s.epoch
  WHERE EXISTS (SELECT 1 FROM me) ORDER BY l.lane LIMIT $3::int FOR UPDATE OF l SKIP LOCKED
)
UPDATE ${t.lanes} AS l SET worker_id = $1, epoch = l.epoch + 1
FROM free WHERE l.destination = $2 AND l.lane = free.lane
RETURNING l.lane, l.epoch, free.clean`,
)

const GIVE_UP = sqlText(
  (t) => `WITH me AS MATERIALIZED (${aliveWorker(t, '$1')})
UPDATE ${t.lanes} SET worker_id = NULL
WHERE destination = $2 AND worker_id = $1 AND lane >= 0 AND EXISTS (SELECT 1 FROM me)
  AND (lane, epoch) IN (SELECT r.lane, r.epoch FROM json_to_recordset($3::json) AS r(lane int, epoch bigint))`,
)

/** A fenced worker's row stays: its lanes must be taken over as unclean. Cleaning removes it later. */
const RETIRE = sqlText(
  (
    t,
  ) => `WITH me AS MATERIALIZED (SELECT id FROM ${t.workers} WHERE id = $1 AND NOT fenced FOR UPDATE), freed AS (
  UPDATE ${t.lanes} SET worker_id = NULL WHERE worker_id IN (SELECT id FROM me)
)
DELETE FROM ${t.workers} WHERE id IN (SELECT id FROM me)`,
)

export const register = async (
  db: PostgresDatabase,
  t: PostgresTables,
  { workerId, name, leaseMs, destinations }: WorkerRegistration,
): Promise<void> => {
  await db.rows(REGISTER(t), [workerId, name, leaseMs, textList(destinations)])
}

export const renew = async (
  db: PostgresDatabase,
  t: PostgresTables,
  workerId: string,
  leaseMs: number,
  open: readonly OpenBreaker[] = [],
): Promise<boolean> =>
  (await db.rows(RENEW(t), [leaseMs, workerId, breakersText(open, leaseMs)])).length === 1

const fence = (t: PostgresTables, silent: readonly SilentWorker[]): SqlStatement => ({
  sql: FENCE(t),
  params: [textList(silent.map(({ workerId }) => workerId)), textList(silent.map(({ stamp }) => stamp))],
})

export const survey = async (
  db: PostgresDatabase,
  t: PostgresTables,
  workerId: string,
  destinations: readonly string[],
  silent: readonly SilentWorker[] = [],
): Promise<LaneSurvey> => {
  const answers = await db.script([
    ...(silent.length === 0 ? [] : [fence(t, silent)]),
    { sql: WORKERS(t), params: [] },
    { sql: LANES_OF(t), params: [workerId, textList(destinations)] },
  ])
  const [workers = [], lanes = []] = answers.slice(-2)
  return laneSurvey(workerId, destinations, workers.map(liveWorker), lanes.map(surveyedLane))
}

const liveWorker = ([id, stamp, leaseMs, expiresInMs, destinations]: Row): LiveWorker => ({
  workerId: asText(id),
  stamp: asText(stamp),
  leaseMs: leaseMs === null ? null : asNumber(leaseMs),
  expiresInMs: asNumber(expiresInMs),
  destinations: JSON.parse(asText(destinations)) as string[],
})

/** Lanes of a fenced worker are nobody's, even if that worker is the one who asks. */
const surveyedLane = ([destination, lane, epoch, mine, free]: Row): SurveyedLane => ({
  destination: asText(destination),
  lane: asNumber(lane),
  epoch: asNumber(epoch),
  owner: isTrue(free) ? 'nobody' : isTrue(mine) ? 'me' : 'other',
})

export const take = async (
  db: PostgresDatabase,
  t: PostgresTables,
  workerId: string,
  destination: string,
  atMost: number,
): Promise<readonly TakenLane[]> => {
  const rows = await db.rows(TAKE(t), [workerId, destination, Math.min(atMost, LANES)])
  return rows
    .map(([lane, epoch, clean]) => ({ lane: asNumber(lane), epoch: asNumber(epoch), clean: isTrue(clean) }))
    .sort((a, b) => a.lane - b.lane)
}

export const giveUp = async (
  db: PostgresDatabase,
  t: PostgresTables,
  workerId: string,
  destination: string,
  lanes: readonly OwnedLane[],
): Promise<void> => {
  await db.rows(GIVE_UP(t), [
    workerId,
    destination,
    JSON.stringify(lanes.map(({ lane, epoch }) => ({ lane, epoch }))),
  ])
}

export const retire = async (db: PostgresDatabase, t: PostgresTables, workerId: string): Promise<void> => {
  await db.rows(RETIRE(t), [workerId])
}
