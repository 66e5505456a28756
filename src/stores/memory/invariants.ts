/**
 * What must be true of the database between any two steps. The simulator asks after every one of them; the
 * answer is a list of sentences, empty when all is well.
 */
import type { MemoryDatabase } from './database.ts'
import { type DeliveryRow, isUnfinished } from './rows.ts'

export const checkInvariants = (db: MemoryDatabase): string[] => [
  ...checkKeys(db),
  ...checkIdentities(db),
  ...checkReachable(db),
  ...checkRows(db),
  ...checkWorkers(db),
]

/** Whoever is held waits for somebody who is not: the last such holder promotes, so nobody waits for ever. */
const checkKeys = (db: MemoryDatabase): string[] => {
  const problems: string[] = []
  for (const [destination, queue] of db.queues) {
    for (const [key, rows] of queue.keys) {
      let held = 0
      let holders = 0
      for (const row of rows.rows) {
        if (row.status === 'held') held += 1
        else if (row.holdsKey) holders += 1
        if (row.status === 'held' && holders === 0) {
          problems.push(`delivery ${row.id} of key "${key}" in ${destination} is held by nobody before it`)
        }
      }
      if (held > 0 && holders === 0)
        problems.push(`${held} rows of key "${key}" in ${destination} are held by nobody`)
      if (holders !== rows.blockers + rows.pendingHolders) {
        problems.push(`the holders of key "${key}" in ${destination} are miscounted`)
      }
    }
  }
  return problems
}

/** A delivery is (event, destination, run). */
const checkIdentities = (db: MemoryDatabase): string[] => {
  const problems: string[] = []
  for (const { record, deliveries } of db.events.values()) {
    const seen = new Set<string>()
    for (const row of deliveries) {
      const identity = `${row.destination} run ${row.run}`
      if (seen.has(identity)) problems.push(`event ${record.id} has two deliveries for ${identity}`)
      seen.add(identity)
      if (!db.deliveries.has(row.id))
        problems.push(`event ${record.id} lists delivery ${row.id}, which is gone`)
    }
  }
  return problems
}

/** Every unfinished row is in the one index through which its state is found. */
const checkReachable = (db: MemoryDatabase): string[] => {
  const indexed = new Map<DeliveryRow, string[]>()
  const note = (row: DeliveryRow, index: string): void => {
    indexed.set(row, [...(indexed.get(row) ?? []), index])
  }
  for (const queue of db.queues.values()) {
    for (const row of queue.pending) note(row, 'pending')
    for (const row of queue.retries) note(row, 'retry')
    for (const row of queue.scheduled) note(row, 'scheduled')
    for (const key of queue.keys.values())
      for (const row of key.waiting) if (row.status === 'held') note(row, 'held')
  }
  const problems: string[] = []
  for (const row of db.deliveries.values()) {
    const found = (indexed.get(row) ?? []).join()
    const expected = isUnfinished(row) ? row.status : ''
    if (found !== expected) problems.push(`delivery ${row.id} is ${row.status} and found in "${found}"`)
  }
  return problems
}

const checkRows = (db: MemoryDatabase): string[] => {
  const problems: string[] = []
  for (const row of db.deliveries.values()) {
    const { id, status } = row
    if (row.key === null && row.holdsKey) problems.push(`delivery ${id} holds a key and has none`)
    if (row.key !== null && (status === 'retry' || status === 'held') && !row.holdsKey) {
      problems.push(`delivery ${id} is ${status} and does not hold its key`)
    }
    const ended = status === 'done' || status === 'dead' || status === 'discarded'
    if (ended !== (row.endedAtMs !== null)) problems.push(`delivery ${id} is ${status} and has the wrong end`)
    if (!db.events.has(row.eventId)) problems.push(`delivery ${id} has lost its event`)
  }
  return problems
}

/** A lane or duty names a worker or nobody; two live owners are impossible by its shape, dangling duties are not. */
const checkWorkers = (db: MemoryDatabase): string[] => {
  const problems: string[] = []
  for (const [destination, owners] of db.lanes) {
    if (!db.registry.has(destination))
      problems.push(`there are lanes of ${destination}, which is not registered`)
    if (owners.length === 0) problems.push(`${destination} has no lanes`)
  }
  return problems
}
