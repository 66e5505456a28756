/** What a worker does to rows before they are sent: claim, suspect, extend, hold, expand. */

import { UNROUTED } from '../../../core/model/index.ts'
import type {
  ClaimedHead,
  ExpandRequest,
  HotClaim,
  SuspectedDelivery,
  SuspectRequest,
} from '../../../core/spi/index.ts'
import type { MemoryDatabase } from '../database.ts'
import { bySeq, type DeliveryRow, isDue, isUnderHotClaim, isUnfinished, newDeliveryRow } from '../rows.ts'

export const claim = (
  db: MemoryDatabase,
  workerId: string,
  ids: readonly string[],
  aheadLimit: number,
): ClaimedHead[] => {
  if (!db.isLive(workerId)) return []
  const now = db.now()
  const rows = known(db, ids).filter((row) => row.status === 'pending' && isDue(row, now))
  return rows.sort(bySeq).map((row) => {
    const here = db.keyQueue(row.destination, row.key)?.idsBefore(row.seq, aheadLimit) ?? []
    const unrouted = db.unroutedOf(row.key)?.idsBefore(row.seq, aheadLimit - here.length) ?? []
    return { id: row.id, seq: row.seq, ahead: [...here, ...unrouted] }
  })
}

export const suspect = (db: MemoryDatabase, request: SuspectRequest): SuspectedDelivery[] => {
  const { workerId, ids, token, spendFrom } = request
  if (!db.isLive(workerId)) return []
  const now = db.now()
  const suspected: SuspectedDelivery[] = []
  for (const row of known(db, ids)) {
    // A claim that its owner extended since the read is live again, and stays its owner's.
    if (!isSendable(row) || !isDue(row, now)) continue
    if (row.token !== token) {
      const suspicions = row.suspicions + 1
      const attempts = row.attempts + (suspicions >= spendFrom ? 1 : 0)
      db.change(row, { token, suspicions, attempts, availableAtMs: Math.min(row.availableAtMs, now) })
    }
    suspected.push({ id: row.id, suspicions: row.suspicions, attempts: row.attempts })
  }
  return suspected
}

export const extend = (db: MemoryDatabase, claims: readonly HotClaim[], leaseMs: number): string[] => {
  const availableAtMs = db.now() + leaseMs
  const lost: string[] = []
  for (const { id, token } of claims) {
    const row = db.deliveries.get(id)
    if (row?.status === 'pending' && row.token === token) db.change(row, { availableAtMs })
    else lost.push(id)
  }
  return lost
}

export const hold = (
  db: MemoryDatabase,
  workerId: string,
  destination: string,
  ids: readonly string[],
): string[] => {
  if (!db.isLive(workerId)) return []
  const now = db.now()
  const held: string[] = []
  for (const row of known(db, ids)) {
    if (row.destination !== destination || row.key === null) continue
    const mayBeHeld =
      (row.status === 'pending' && !isUnderHotClaim(row, now)) || (row.status === 'retry' && isDue(row, now))
    if (mayBeHeld && db.keyQueue(destination, row.key)?.isHeldBack(row)) {
      db.change(row, { status: 'held', holdsKey: true, token: null })
    }
    if (row.status === 'held') held.push(row.id)
  }
  return held
}

export const expand = (db: MemoryDatabase, request: ExpandRequest): boolean => {
  const { workerId, registryVersion, expansions } = request
  if (!db.isLive(workerId) || db.registryVersion !== registryVersion) return false
  for (const { unroutedId, deliveries } of expansions) {
    const unrouted = db.deliveries.get(unroutedId)
    // Expanded before, by us or by somebody else: there is nothing left to replace.
    if (unrouted === undefined || unrouted.destination !== UNROUTED || !isUnfinished(unrouted)) continue
    const { seq, eventId, createdAtMs, availableAtMs, status } = unrouted
    for (const delivery of deliveries) {
      if (hasDelivery(db, eventId, delivery.destination)) continue
      db.insertRow(newDeliveryRow({ ...delivery, eventId, seq, createdAtMs, availableAtMs, status }))
    }
    db.remove(unrouted)
  }
  return true
}

export const hasDelivery = (db: MemoryDatabase, eventId: string, destination: string): boolean => {
  for (const row of db.events.get(eventId)?.deliveries ?? []) if (row.destination === destination) return true
  return false
}

const isSendable = ({ status }: DeliveryRow): boolean => status === 'pending' || status === 'retry'

const known = (db: MemoryDatabase, ids: readonly string[]): DeliveryRow[] =>
  ids.flatMap((id) => db.deliveries.get(id) ?? [])
