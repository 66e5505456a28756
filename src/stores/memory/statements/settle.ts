import type { AttemptFailure, Right } from '../../../core/model/index.ts'
import type { Settlement, SettleRequest, SettleResult } from '../../../core/spi/index.ts'
import type { MemoryDatabase } from '../database.ts'
import { type DeliveryRow, isUnfinished } from '../rows.ts'

export const settle = (db: MemoryDatabase, request: SettleRequest): SettleResult => {
  const lost: string[] = []
  const touched: DeliveryRow[] = []
  for (const settlement of request.settlements) {
    const { id, right } = settlement.delivery
    const row = db.deliveries.get(id)
    const standing = row === undefined ? 'lost' : standingOf(db, row, right)
    if (row !== undefined && standing === 'valid') {
      apply(db, row, settlement, request)
      touched.push(row)
    } else if (standing === 'lost') lost.push(id)
  }
  // Only now: a later settlement of this request may be a failure in the same key.
  return { lost, promoted: promote(db, touched, request.promoteLimit) }
}

const nameOf = (right: Right): string => (right.kind === 'token' ? right.token : right.workerId)

/** `used`: this very right settled the row before, so the settle is a repetition and changes nothing. */
const standingOf = (db: MemoryDatabase, row: DeliveryRow, right: Right): 'valid' | 'used' | 'lost' => {
  if (isUnfinished(row)) {
    if (right.kind === 'lane') return db.isLive(right.workerId) ? 'valid' : 'lost'
    if (row.token === right.token) return 'valid'
  }
  return row.settledBy === nameOf(right) ? 'used' : 'lost'
}

const apply = (
  db: MemoryDatabase,
  row: DeliveryRow,
  settlement: Settlement,
  request: SettleRequest,
): void => {
  const { outcome, deadHoldsKey, deadParked, delivery } = settlement
  // They only grow: a settle that arrives late must not undo what was written since.
  const attempts = Math.max(row.attempts, settlement.attempts)
  const now = db.now()
  const settledBy = nameOf(delivery.right)
  const keyed = row.key !== null
  switch (outcome.kind) {
    case 'done':
      db.change(row, { attempts })
      db.finish(row, 'done', settledBy)
      return
    case 'retry':
      db.change(row, {
        status: 'retry',
        attempts,
        availableAtMs: now + Math.max(0, outcome.delayMs),
        token: null,
        holdsKey: keyed,
        settledBy,
        lastError: outcome.failure.message,
      })
      remember(db, row, outcome.failure, request)
      return
    case 'dead':
      db.change(row, {
        status: 'dead',
        attempts,
        token: null,
        holdsKey: keyed && deadHoldsKey,
        parked: keyed && deadParked,
        settledBy,
        endedAtMs: now,
        lastError: outcome.failure.message,
      })
      remember(db, row, outcome.failure, request)
      return
    case 'released': {
      // Under a live hot claim it was to be had since it was stored.
      const availableAtMs = row.availableAtMs > now ? row.createdAtMs : row.availableAtMs
      db.change(row, { token: null, settledBy, availableAtMs })
      return
    }
  }
}

/** By attempt number, so that a repeated settle leaves one entry. */
const remember = (
  db: MemoryDatabase,
  row: DeliveryRow,
  failure: AttemptFailure,
  request: SettleRequest,
): void => {
  const entry = { deliveryId: row.id, atMs: db.now(), worker: request.workerName, ...failure }
  const others = (db.attempts.get(row.id) ?? []).filter((one) => one.attempt !== failure.attempt)
  db.attempts.set(row.id, [...others, entry].slice(-request.historyLimit))
}

/** For the keys of these rows: when nothing that is not held keeps the held ones waiting, the next are pending. */
export const promote = (db: MemoryDatabase, touched: Iterable<DeliveryRow>, limit: number): string[] => {
  const promoted = new Set<string>()
  for (const { destination, key } of touched) {
    for (const row of db.keyQueue(destination, key)?.promotable(limit) ?? []) {
      db.change(row, { status: 'pending' })
      promoted.add(destination)
    }
  }
  return [...promoted]
}
