import { LANES } from '../../../core/model/index.ts'
import type {
  DestinationSurvey,
  LaneSurvey,
  OpenBreaker,
  OwnedLane,
  SilentWorker,
  TakenLane,
  WorkerLease,
  WorkerRegistration,
} from '../../../core/spi/index.ts'
import type { MemoryDatabase } from '../database.ts'
import type { WorkerRow } from '../rows.ts'

export const register = (db: MemoryDatabase, registration: WorkerRegistration): void => {
  const { workerId, name, leaseMs, destinations } = registration
  const known = db.workers.get(workerId)
  // Repeated after a lost answer: a fence stays.
  if (known !== undefined) {
    renew(db, workerId, leaseMs)
    return
  }
  const now = db.now()
  const expiresAtMs = now + leaseMs
  db.workers.set(workerId, {
    id: workerId,
    name,
    startedAtMs: now,
    destinations: [...destinations],
    leaseMs,
    expiresAtMs,
    renewals: 0,
    fenced: false,
    openBreakers: [],
  })
}

export const renew = (
  db: MemoryDatabase,
  workerId: string,
  leaseMs: number,
  open: readonly OpenBreaker[] = [],
): boolean => {
  const worker = db.workers.get(workerId)
  if (worker === undefined || worker.fenced) return false
  const now = db.now()
  worker.expiresAtMs = now + leaseMs
  worker.renewals += 1
  worker.openBreakers = open.map(({ destination, openForMs }) => ({ destination, sinceMs: now - openForMs }))
  return true
}

export const survey = (
  db: MemoryDatabase,
  workerId: string,
  destinations: readonly string[],
  silent: readonly SilentWorker[] = [],
): LaneSurvey => {
  const now = db.now()
  for (const { workerId: id, stamp } of silent) {
    const worker = db.workers.get(id)
    if (worker !== undefined && stampOf(worker) === stamp && worker.expiresAtMs <= now) worker.fenced = true
  }
  const others = leasesOfOthers(db, workerId)
  const found = new Map<string, DestinationSurvey>()
  if (!db.isLive(workerId)) return { alive: false, destinations: found, others }
  for (const destination of destinations) found.set(destination, surveyOne(db, workerId, destination))
  return { alive: true, destinations: found, others }
}

const stampOf = ({ renewals }: WorkerRow): string => String(renewals)

const leasesOfOthers = (db: MemoryDatabase, workerId: string): WorkerLease[] =>
  [...db.workers.values()]
    .filter(({ id, fenced }) => id !== workerId && !fenced)
    .map((worker) => ({
      workerId: worker.id,
      stamp: stampOf(worker),
      leaseMs: worker.leaseMs,
      expiresInMs: worker.expiresAtMs - db.now(),
    }))

const surveyOne = (db: MemoryDatabase, workerId: string, destination: string): DestinationSurvey => {
  let workers = 0
  for (const worker of db.workers.values()) {
    // Whoever seems to be gone needs no share, even if nobody may have its lanes yet.
    const isThere = worker.id === workerId || worker.expiresAtMs > db.now()
    if (!worker.fenced && isThere && worker.destinations.includes(destination)) workers += 1
  }
  const rows = db.lanes.get(destination) ?? []
  const mine = rows.flatMap(({ owner, epoch }, lane) => (owner === workerId ? [{ lane, epoch }] : []))
  return { workers, mine, free: rows.filter(({ owner }) => isFree(db, owner)).length }
}

/** Nobody's, or of a worker that was fenced or is gone. */
const isFree = (db: MemoryDatabase, owner: string | null): boolean => owner === null || !db.isLive(owner)

export const take = (
  db: MemoryDatabase,
  workerId: string,
  destination: string,
  atMost: number,
): TakenLane[] => {
  const rows = db.lanes.get(destination)
  if (rows === undefined || !db.isLive(workerId)) return []
  const taken: TakenLane[] = []
  for (const [lane, row] of rows.entries()) {
    if (taken.length >= atMost) break
    if (!isFree(db, row.owner)) continue
    const clean = row.owner === null
    row.owner = workerId
    row.epoch += 1
    taken.push({ lane, epoch: row.epoch, clean })
  }
  return taken
}

export const giveUp = (
  db: MemoryDatabase,
  workerId: string,
  destination: string,
  lanes: readonly OwnedLane[],
): void => {
  const rows = db.lanes.get(destination)
  if (rows === undefined || !db.isLive(workerId)) return
  for (const { lane, epoch } of lanes) {
    const row = rows[lane]
    if (row?.owner === workerId && row.epoch === epoch) row.owner = null
  }
}

export const retire = (db: MemoryDatabase, workerId: string): void => {
  // The lanes of a fenced worker keep their owner's name: nobody knows what it had under way.
  if (db.isLive(workerId)) {
    for (const rows of db.lanes.values()) {
      for (const row of rows) if (row.owner === workerId) row.owner = null
    }
  }
  for (const [duty, owner] of db.duties) if (owner === workerId) db.duties.delete(duty)
  db.workers.delete(workerId)
}

export const createLanes = (db: MemoryDatabase, destination: string): void => {
  if (db.lanes.has(destination)) return
  db.lanes.set(
    destination,
    Array.from({ length: LANES }, () => ({ owner: null, epoch: 0 })),
  )
}
