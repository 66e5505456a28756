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
import type { Tables } from '../../sql/identifiers.ts'
import { type LiveWorker, laneSurvey, type SurveyedLane } from '../../sql/lane-survey.ts'
import { breakersText } from '../../sql/open-breakers.ts'
import type { SqliteConnection } from '../connection.ts'
import { asNumber, asText, NOW, sqlText, workerIsAlive } from './sql-text.ts'

/** A repeated registration extends the lease, unless the worker was fenced in between. */
const REGISTER = sqlText(
  (
    t,
  ) => `INSERT INTO ${t.workers} (id, name, started_at, expires_at, destinations, lease_ms) VALUES (?, ?, ${NOW}, ${NOW} + ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET expires_at = excluded.expires_at WHERE fenced = 0`,
)

const RENEW = sqlText(
  (t) =>
    `UPDATE ${t.workers} SET expires_at = ${NOW} + ?, breakers = ? WHERE id = ? AND fenced = 0 RETURNING 1`,
)

/** By ids and the end of the lease, which every renewal moves. */
const FENCE = sqlText(
  (t) => `UPDATE ${t.workers} SET fenced = 1 WHERE fenced = 0 AND expires_at <= ${NOW}
AND (id, CAST(expires_at AS TEXT)) IN (SELECT value->>0, value->>1 FROM json_each(?))`,
)

/** A lane is free without an owner, and when its owner was fenced or its row is gone. */
const isFree = (t: Tables): string =>
  `(l.worker_id IS NULL OR NOT EXISTS (SELECT 1 FROM ${t.workers} AS w WHERE w.id = l.worker_id AND w.fenced = 0))`

const ALIVE = sqlText((t) => `SELECT ${workerIsAlive(t)}`)

const WORKERS = sqlText(
  (t) =>
    `SELECT id, CAST(expires_at AS TEXT), lease_ms, expires_at - ${NOW}, destinations FROM ${t.workers} WHERE fenced = 0`,
)

const LANES_OF = sqlText(
  (t) => `SELECT l.destination, l.lane, l.worker_id = ?, ${isFree(t)}, l.epoch FROM ${t.lanes} AS l
WHERE l.destination IN (SELECT value FROM json_each(?)) AND l.lane >= 0 ORDER BY l.lane`,
)

const FREE = sqlText(
  (t) => `SELECT l.lane, l.worker_id IS NULL, l.epoch + 1 FROM ${t.lanes} AS l
WHERE l.destination = ? AND l.lane >= 0 AND ${isFree(t)} ORDER BY l.lane LIMIT ?`,
)

const TAKE = sqlText(
  (t) =>
    `UPDATE ${t.lanes} SET worker_id = ?, epoch = epoch + 1 WHERE destination = ? AND lane IN (SELECT value FROM json_each(?))`,
)

const GIVE_UP = sqlText(
  (t) => `UPDATE ${t.lanes} SET worker_id = NULL
WHERE destination = ? AND worker_id = ? AND lane >= 0
  AND (lane, epoch) IN (SELECT value->>0, value->>1 FROM json_each(?)) AND ${workerIsAlive(t)}`,
)

const FREE_ALL = sqlText(
  (t) => `UPDATE ${t.lanes} SET worker_id = NULL WHERE worker_id = ? AND ${workerIsAlive(t)}`,
)

/** A fenced worker's row stays: its lanes must be taken over as unclean. Cleaning removes it later. */
const REMOVE = sqlText((t) => `DELETE FROM ${t.workers} WHERE id = ? AND fenced = 0`)

export const isWorkerAlive = (c: SqliteConnection, t: Tables, workerId: string): boolean =>
  asNumber(c.rows(ALIVE(t), [workerId])[0]?.[0]) === 1

export const register = (c: SqliteConnection, t: Tables, worker: WorkerRegistration): void => {
  const destinations = JSON.stringify(worker.destinations)
  c.rows(REGISTER(t), [worker.workerId, worker.name, worker.leaseMs, destinations, worker.leaseMs])
}

export const renew = (
  c: SqliteConnection,
  t: Tables,
  workerId: string,
  leaseMs: number,
  open: readonly OpenBreaker[] = [],
): boolean => c.rows(RENEW(t), [leaseMs, breakersText(open, leaseMs), workerId]).length === 1

/** Writers exclude each other, so no settle is in progress while this one runs. */
export const fence = (c: SqliteConnection, t: Tables, silent: readonly SilentWorker[]): void => {
  c.rows(FENCE(t), [JSON.stringify(silent.map(({ workerId, stamp }) => [workerId, stamp]))])
}

export const survey = (
  c: SqliteConnection,
  t: Tables,
  workerId: string,
  destinations: readonly string[],
): LaneSurvey => {
  const workers = c.rows(WORKERS(t)).map(
    ([id, stamp, leaseMs, expiresInMs, served]): LiveWorker => ({
      workerId: asText(id),
      stamp: asText(stamp),
      leaseMs: leaseMs === null ? null : asNumber(leaseMs),
      expiresInMs: asNumber(expiresInMs),
      destinations: JSON.parse(asText(served)) as string[],
    }),
  )
  const lanes = c.rows(LANES_OF(t), [workerId, JSON.stringify(destinations)]).map(
    ([destination, lane, isMine, free, epoch]): SurveyedLane => ({
      destination: asText(destination),
      lane: asNumber(lane),
      epoch: asNumber(epoch),
      // Lanes of a fenced worker are nobody's, even if that worker is the one who asks.
      owner: asNumber(free) === 1 ? 'nobody' : asNumber(isMine) === 1 ? 'me' : 'other',
    }),
  )
  return laneSurvey(workerId, destinations, workers, lanes)
}

export const take = (
  c: SqliteConnection,
  t: Tables,
  workerId: string,
  destination: string,
  atMost: number,
): readonly TakenLane[] => {
  if (!isWorkerAlive(c, t, workerId)) return []
  const taken = c.rows(FREE(t), [destination, Math.min(atMost, LANES)]).map(([lane, clean, epoch]) => ({
    lane: asNumber(lane),
    epoch: asNumber(epoch),
    clean: asNumber(clean) === 1,
  }))
  if (taken.length > 0)
    c.rows(TAKE(t), [workerId, destination, JSON.stringify(taken.map(({ lane }) => lane))])
  return taken
}

export const giveUp = (
  c: SqliteConnection,
  t: Tables,
  workerId: string,
  destination: string,
  lanes: readonly OwnedLane[],
): void => {
  c.rows(GIVE_UP(t), [
    destination,
    workerId,
    JSON.stringify(lanes.map(({ lane, epoch }) => [lane, epoch])),
    workerId,
  ])
}

export const retire = (c: SqliteConnection, t: Tables, workerId: string): void => {
  c.rows(FREE_ALL(t), [workerId, workerId])
  c.rows(REMOVE(t), [workerId])
}
