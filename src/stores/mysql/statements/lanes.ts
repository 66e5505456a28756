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
import type { SqlStatement } from '../../sql/sql-executor.ts'
import type { MysqlDatabase } from '../database.ts'
import { literal } from '../script.ts'
import { asNumber, asText, later, lockWorkers, NOW, one, textList, workerIsAlive } from './sql-text.ts'

/** A repeated registration extends the lease, unless the worker was fenced in between. */
export const register = async (db: MysqlDatabase, t: Tables, worker: WorkerRegistration): Promise<void> => {
  await db.rows(
    `INSERT INTO ${t.workers} (id, name, started_at, expires_at, destinations, lease_ms) VALUES (?, ?, ${NOW}, ${later(NOW, '?')}, ?, ?)
ON DUPLICATE KEY UPDATE expires_at = IF(fenced = 0, ${later(NOW, '?')}, expires_at)`,
    [
      worker.workerId,
      worker.name,
      worker.leaseMs,
      JSON.stringify(worker.destinations),
      worker.leaseMs,
      worker.leaseMs,
    ],
  )
}

export const renew = async (
  db: MysqlDatabase,
  t: Tables,
  workerId: string,
  leaseMs: number,
  open: readonly OpenBreaker[] = [],
): Promise<boolean> => {
  const [answer] = await db.script([
    one(`UPDATE ${t.workers} SET expires_at = ${later(NOW, '?')}, breakers = ? WHERE id = ? AND fenced = 0`, [
      leaseMs,
      breakersText(open, leaseMs),
      workerId,
    ]),
  ])
  return answer?.affected === 1
}

/** With its microseconds, so that every renewal leaves another. */
const STAMP = 'CAST(expires_at AS CHAR)'

/** Waits for settles in progress, because they keep their worker's row locked; afterwards it changes nothing. */
const fence = (t: Tables, silent: readonly SilentWorker[]): SqlStatement => {
  const pairs = silent.map(({ workerId, stamp }) => `(${literal(workerId)}, ${literal(stamp)})`)
  const ids = textList(silent.map(({ workerId }) => workerId))
  return one(
    `UPDATE ${t.workers} SET fenced = 1 WHERE id IN (${ids}) AND (id, ${STAMP}) IN (${pairs.join(', ')})
AND fenced = 0 AND expires_at <= ${NOW}`,
  )
}

export const survey = async (
  db: MysqlDatabase,
  t: Tables,
  workerId: string,
  destinations: readonly string[],
  silent: readonly SilentWorker[] = [],
): Promise<LaneSurvey> => {
  const answers = await db.script([
    ...(silent.length === 0 ? [] : [fence(t, silent)]),
    one(
      `SELECT id, ${STAMP}, lease_ms, TIMESTAMPDIFF(MICROSECOND, ${NOW}, expires_at) / 1000, destinations FROM ${t.workers} WHERE fenced = 0`,
    ),
    one(`SELECT l.destination, l.lane, l.epoch, w.id FROM ${t.lanes} AS l
LEFT JOIN ${t.workers} AS w ON w.id = l.worker_id AND w.fenced = 0
WHERE l.destination IN (${textList(destinations)}) AND l.lane >= 0 ORDER BY l.destination, l.lane`),
  ])
  const [workers, lanes] = answers.slice(-2)
  return laneSurvey(
    workerId,
    destinations,
    (workers?.rows ?? []).map(
      ([id, stamp, leaseMs, expiresInMs, served]): LiveWorker => ({
        workerId: asText(id),
        stamp: asText(stamp),
        leaseMs: leaseMs === null ? null : asNumber(leaseMs),
        expiresInMs: asNumber(expiresInMs),
        destinations: JSON.parse(asText(served)) as string[],
      }),
    ),
    (lanes?.rows ?? []).map(
      ([destination, lane, epoch, owner]): SurveyedLane => ({
        destination: asText(destination),
        lane: asNumber(lane),
        epoch: asNumber(epoch),
        // Lanes of a fenced worker are nobody's, even if that worker is the one who asks.
        owner: owner === null ? 'nobody' : owner === workerId ? 'me' : 'other',
      }),
    ),
  )
}

/** A lane is free without an owner, and when its owner was fenced or its row is gone. */
const isFree = (t: Tables): string =>
  `(l.worker_id IS NULL OR NOT EXISTS (SELECT 1 FROM ${t.workers} AS o WHERE o.id = l.worker_id AND o.fenced = 0))`

/**
 * Lanes that another worker is just taking are passed over, not waited for. Whether they are free is asked again under
 * their locks: one that looked free may have been taken meanwhile, by a worker whom the first statement cannot see.
 */
export const take = async (
  db: MysqlDatabase,
  t: Tables,
  workerId: string,
  destination: string,
  atMost: number,
): Promise<readonly TakenLane[]> => {
  const chosen = 'destination = ? AND FIND_IN_SET(lane, @posthaste_lanes)'
  const [, , , taken] = await db.atomic([
    lockWorkers(t, [workerId]),
    one(
      `SELECT GROUP_CONCAT(f.lane) INTO @posthaste_lanes FROM (
  SELECT l.lane FROM ${t.lanes} AS l WHERE l.destination = ? AND l.lane >= 0 AND ${isFree(t)} AND ${workerIsAlive(t, workerId)}
  ORDER BY l.lane LIMIT ${Math.min(atMost, LANES)} FOR UPDATE SKIP LOCKED
) AS f`,
      [destination],
    ),
    one(
      `SELECT GROUP_CONCAT(l.lane) INTO @posthaste_lanes FROM ${t.lanes} AS l WHERE l.${chosen} AND ${isFree(t)}`,
      [destination],
    ),
    one(`SELECT lane, worker_id IS NULL, epoch + 1 FROM ${t.lanes} WHERE ${chosen} ORDER BY lane`, [
      destination,
    ]),
    one(`UPDATE ${t.lanes} SET worker_id = ?, epoch = epoch + 1 WHERE ${chosen}`, [workerId, destination]),
  ])
  return (taken?.rows ?? []).map(([lane, clean, epoch]) => ({
    lane: asNumber(lane),
    epoch: asNumber(epoch),
    clean: asNumber(clean) === 1,
  }))
}

export const giveUp = async (
  db: MysqlDatabase,
  t: Tables,
  workerId: string,
  destination: string,
  lanes: readonly OwnedLane[],
): Promise<void> => {
  if (lanes.length === 0) return
  const pairs = lanes.map(({ lane, epoch }) => `(${Number(lane)}, ${Number(epoch)})`).join(', ')
  await db.atomic([
    lockWorkers(t, [workerId]),
    one(
      `UPDATE ${t.lanes} SET worker_id = NULL
WHERE destination = ? AND worker_id = ? AND lane >= 0 AND (lane, epoch) IN (${pairs}) AND ${workerIsAlive(t, workerId)}`,
      [destination, workerId],
    ),
  ])
}

/** A fenced worker's row stays: its lanes must be taken over as unclean. Cleaning removes it later. */
export const retire = async (db: MysqlDatabase, t: Tables, workerId: string): Promise<void> => {
  await db.atomic([
    one(`SELECT id FROM ${t.workers} WHERE id = ? AND fenced = 0 FOR UPDATE`, [workerId]),
    one(`UPDATE ${t.lanes} SET worker_id = NULL WHERE worker_id = ? AND ${workerIsAlive(t, workerId)}`, [
      workerId,
    ]),
    one(`DELETE FROM ${t.workers} WHERE id = ? AND fenced = 0`, [workerId]),
  ])
}
