import type { CleanupRequest, CleanupResult, MinuteStatistics } from '../../../core/spi/index.ts'
import type { MemoryDatabase } from '../database.ts'
import type { DeliveryRow } from '../rows.ts'
import type { SortedList } from '../sorted-list.ts'

const MINUTE_MS = 60_000
/** Minutes that nobody recorded are made up for, as long as they are not longer ago than this. */
const MOST_MINUTES = 60

export const cleanup = (db: MemoryDatabase, request: CleanupRequest): CleanupResult => {
  const { doneOlderThanMs, deadOlderThanMs, dedupOlderThanMs, limit } = request
  const now = db.now()
  const doneBefore = now - doneOlderThanMs
  const finished = removeEnded(db, db.ended.finished, doneBefore, limit)
  const dead = deadOlderThanMs === null ? NONE : removeEnded(db, db.ended.dead, now - deadOlderThanMs, limit)
  const events = removeBareEvents(db, doneBefore, limit)
  const dedup = removeDedup(db, now - dedupOlderThanMs, limit)
  removeWorkers(db, doneBefore)
  const more = [finished, dead, events, dedup].some((kind) => kind.more)
  const done = finished.gone.filter(({ status }) => status === 'done').length
  return {
    done,
    discarded: finished.gone.length - done,
    dead: dead.gone.length,
    events: events.removed,
    dedup: dedup.removed,
    more,
  }
}

interface Removed {
  readonly removed: number
  readonly more: boolean
}

const NONE = { gone: [] as readonly DeliveryRow[], more: false }

/** The first `limit` of what may go, and whether there is more of it. */
const upTo = <T>(
  items: Iterable<T>,
  limit: number,
  mayGo: (item: T) => boolean,
): { chosen: T[]; more: boolean } => {
  const chosen: T[] = []
  for (const item of items) {
    if (!mayGo(item)) break
    if (chosen.length >= limit) return { chosen, more: true }
    chosen.push(item)
  }
  return { chosen, more: false }
}

const removeEnded = (
  db: MemoryDatabase,
  rows: SortedList<DeliveryRow>,
  before: number,
  limit: number,
): typeof NONE => {
  const { chosen, more } = upTo(rows, limit, (row) => (row.endedAtMs ?? 0) <= before)
  const gone = chosen.filter(({ seq }) => isReconciled(db, seq))
  for (const row of gone) db.remove(row)
  return { gone, more: more && gone.length === limit }
}

/** Every destination is reconciled past it. Until then its event would look as if it was missed. */
const isReconciled = (db: MemoryDatabase, seq: bigint): boolean =>
  [...db.registry.values()].every(({ reconciledTo }) => reconciledTo >= seq)

/** Some stay: a destination that was declared just now may still miss them. */
const removeBareEvents = (db: MemoryDatabase, before: number, limit: number): Removed => {
  const { chosen, more } = upTo(db.bareEvents, limit, ({ record }) => record.createdAtMs <= before)
  const gone = chosen.filter(({ seq }) => isReconciled(db, seq))
  for (const event of gone) db.removeEvent(event)
  return { removed: gone.length, more: more && gone.length === limit }
}

const removeDedup = (db: MemoryDatabase, before: number, limit: number): Removed => {
  const { chosen, more } = upTo(db.dedup, limit, ([, { atMs }]) => atMs <= before)
  for (const [key] of chosen) db.dedup.delete(key)
  return { removed: chosen.length, more }
}

/** Fenced workers whose lanes have found new owners. A worker that is unknown has no rights either. */
const removeWorkers = (db: MemoryDatabase, before: number): void => {
  const owners = new Set([...db.lanes.values()].flat().map(({ owner }) => owner))
  for (const worker of db.workers.values()) {
    if (worker.fenced && worker.expiresAtMs <= before && !owners.has(worker.id)) db.workers.delete(worker.id)
  }
}

export const recordStatistics = (db: MemoryDatabase, keepMinutes: number): void => {
  const minute = Math.floor(db.now() / MINUTE_MS)
  for (const old of db.statistics.keys()) if (old < minute - keepMinutes) db.statistics.delete(old)
  // The last one went on after it was recorded, and those in between nobody recorded.
  const last = Math.max(minute - MOST_MINUTES, ...[...db.statistics.keys()].filter((one) => one < minute))
  for (const name of db.registry.keys()) {
    const { pending, retry, dead } = db.queue(name).counts
    for (let one = last; one <= minute; one += 1) {
      const known = db.statistics.get(one) ?? new Map<string, MinuteStatistics>()
      const before = known.get(name)
      const done = Math.max(before?.done ?? 0, endedIn(db, 'done', name, one))
      const discarded = Math.max(before?.discarded ?? 0, endedIn(db, 'discarded', name, one))
      if (one < minute && before === undefined && done + discarded === 0) continue
      const now = one < minute ? { pending: 0, retry: 0, dead: 0, ...before } : { pending, retry, dead }
      known.set(name, { ...now, minuteMs: one * MINUTE_MS, destination: name, done, discarded })
      db.statistics.set(one, known)
    }
  }
}

const endedIn = (
  db: MemoryDatabase,
  status: 'done' | 'discarded',
  destination: string,
  minute: number,
): number => {
  let count = 0
  const { finished } = db.ended
  for (const row of finished.downFrom(
    ({ endedAtMs }) => Math.floor((endedAtMs ?? 0) / MINUTE_MS) <= minute,
  )) {
    if (Math.floor((row.endedAtMs ?? 0) / MINUTE_MS) < minute) break
    if (row.status === status && row.destination === destination) count += 1
  }
  return count
}

export const takeDuty = (db: MemoryDatabase, name: string, workerId: string): boolean => {
  if (!isPunctual(db, workerId)) return false
  const owner = db.duties.get(name)
  if (owner !== undefined && owner !== workerId && isPunctual(db, owner)) return false
  db.duties.set(name, workerId)
  return true
}

/** Unlike a lane, a duty is not worth waiting for a fence: its steps are safe to repeat. */
const isPunctual = (db: MemoryDatabase, workerId: string): boolean => {
  const worker = db.workers.get(workerId)
  return worker !== undefined && !worker.fenced && worker.expiresAtMs > db.now()
}

export const finishDuty = (db: MemoryDatabase, name: string, workerId: string): void => {
  if (db.duties.get(name) === workerId) db.duties.delete(name)
}
