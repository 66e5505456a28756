import { ERROR_CODES, StoreError } from '../../../core/errors.ts'
import { changeSettings, readSettings, UNROUTED } from '../../../core/model/index.ts'
import type {
  DestinationDeclaration,
  DestinationSettings,
  OperatorAct,
  ReconcileBatch,
  ReconciledDelivery,
  RegistryState,
  StoredPosition,
  UnheardBatch,
  UnheardQuery,
} from '../../../core/spi/index.ts'
import type { MemoryDatabase, RegistryEntry } from '../database.ts'
import { type DeliveryRow, type EventRow, newDeliveryRow } from '../rows.ts'
import { hasDelivery } from './claim.ts'
import { createLanes } from './lanes.ts'

/** Events looked at in one step, for each that may be returned. */
const SCAN_FACTOR = 20

export const declare = (
  db: MemoryDatabase,
  declarations: readonly DestinationDeclaration[],
  by?: OperatorAct,
): RegistryState => {
  const changed = declarations.filter(({ name, patterns }) => {
    const known = db.registry.get(name)
    return known === undefined || !samePatterns(known.patterns, patterns)
  })
  if (changed.length > 0) db.registryVersion += 1
  for (const { name, patterns, paused } of changed) {
    const known = db.registry.get(name)
    const positionOf = (pattern: string): bigint =>
      known?.patternsFrom[known.patterns.indexOf(pattern)] ?? db.lastSeq
    db.registry.set(name, {
      ...(known ?? started(db, name, paused ?? false)),
      patterns: Object.freeze([...patterns]),
      patternsFrom: Object.freeze(patterns.map(positionOf)),
      version: db.registryVersion,
    })
    if (by === undefined) continue
    const target = JSON.stringify({ destination: name })
    db.audit.push({ atMs: db.now(), actor: by.actor, action: 'retire', reason: by.reason, target, count: 1 })
  }
  for (const { name } of declarations) createLanes(db, name)
  return load(db)
}

/** It hears what is stored from now on; numbers drawn earlier belong to events that are older than it. */
const started = (db: MemoryDatabase, name: string, paused: boolean): RegistryEntry => ({
  name,
  patterns: [],
  patternsFrom: [],
  version: 0,
  startedAtMs: db.now(),
  paused,
  ratePerSecond: null,
  settings: {},
  reconciledTo: db.lastSeq,
})

/** As sets: two processes that list the same patterns in another order must not outbid each other for ever. */
const samePatterns = (a: readonly string[], b: readonly string[]): boolean => {
  const [left, right] = [new Set(a), new Set(b)]
  return left.size === right.size && [...left].every((pattern) => right.has(pattern))
}

export const load = (db: MemoryDatabase): RegistryState => ({
  version: db.registryVersion,
  destinations: [...db.registry.values()].map(({ reconciledTo: _mine, ...destination }) => destination),
})

const entryOf = (db: MemoryDatabase, name: string): RegistryEntry => {
  const entry = db.registry.get(name)
  if (entry === undefined)
    throw new StoreError(ERROR_CODES.notFound, `there is no destination "${name}"`, { name })
  return entry
}

export const configure = (
  db: MemoryDatabase,
  name: string,
  change: DestinationSettings,
  by: OperatorAct,
): void => {
  const entry = entryOf(db, name)
  const { paused = entry.paused, ratePerSecond = entry.ratePerSecond } = change
  const settings = readSettings(changeSettings(JSON.stringify(entry.settings), change))
  db.registry.set(name, { ...entry, paused, ratePerSecond, settings })
  const target = JSON.stringify({ destination: name, ...change })
  db.audit.push({ atMs: db.now(), actor: by.actor, action: 'configure', reason: by.reason, target, count: 1 })
}

export const findUnreconciled = (db: MemoryDatabase, destination: string, limit: number): ReconcileBatch => {
  const entry = entryOf(db, destination)
  const events: ReconcileBatch['events'][number][] = []
  const barrier = lowestOpenSeq(db)
  let scannedTo = entry.reconciledTo
  let scanned = 0
  for (const event of db.eventsInOrder.upFrom((other) => other.seq <= entry.reconciledTo)) {
    // A transaction that is still open may yet show an event with a number from here on; it would be skipped.
    if (barrier !== null && event.seq >= barrier) break
    if (events.length >= limit || scanned >= limit * SCAN_FACTOR) return { events, scannedTo, more: true }
    scanned += 1
    scannedTo = event.seq
    if (!isMissing(db, event, entry)) continue
    const { id, type, key, size } = event.record
    events.push({ id, seq: event.seq, type, key, size })
  }
  const settled = barrier === null ? db.lastSeq : barrier - 1n
  return { events, scannedTo: settled > scannedTo ? settled : scannedTo, more: false }
}

const lowestOpenSeq = (db: MemoryDatabase): bigint | null => {
  let lowest: bigint | null = null
  for (const { firstSeq } of db.open) {
    if (firstSeq !== null && (lowest === null || firstSeq < lowest)) lowest = firstSeq
  }
  return lowest
}

const isMissing = (db: MemoryDatabase, event: EventRow, entry: RegistryEntry): boolean =>
  event.routesVersion < entry.version && isUnheard(db, event, entry.name)

/** What waits for expansion is left to it, and an edited copy is for one destination alone. */
const isUnheard = (db: MemoryDatabase, { record }: EventRow, destination: string): boolean =>
  record.replacesId === null &&
  !hasDelivery(db, record.id, destination) &&
  !hasDelivery(db, record.id, UNROUTED)

export const eventFrom = (db: MemoryDatabase, seq: bigint): StoredPosition | null => {
  for (const event of db.eventsInOrder.upFrom((other) => other.seq < seq))
    return { seq: event.seq, createdAtMs: event.record.createdAtMs }
  return null
}

export const findUnheard = (
  db: MemoryDatabase,
  { destination, after, upTo, limit }: UnheardQuery,
): UnheardBatch => {
  const next: EventRow[] = []
  for (const event of db.eventsInOrder.upFrom((other) => other.seq <= after)) {
    if (event.seq > upTo || next.length > limit) break
    next.push(event)
  }
  const looked = next.slice(0, limit)
  const more = next.length > limit
  const scannedTo = more ? (looked.at(-1)?.seq ?? after) : upTo
  const open = lowestOpenSeq(db)
  const events = looked
    .filter((event) => isUnheard(db, event, destination))
    .map(({ seq, record: { id, type, key, size, createdAtMs } }) => ({
      id,
      seq,
      type,
      key,
      size,
      createdAtMs,
    }))
  const settledTo = open === null || open > scannedTo ? scannedTo : open - 1n
  return { events, scanned: looked.length, scannedTo, settledTo, more }
}

export const reconcile = (
  db: MemoryDatabase,
  destination: string,
  deliveries: readonly ReconciledDelivery[],
  scannedTo: bigint,
): number => {
  const entry = entryOf(db, destination)
  const added = addUnheard(db, destination, deliveries)
  if (scannedTo > entry.reconciledTo) db.registry.set(destination, { ...entry, reconciledTo: scannedTo })
  return added
}

const addUnheard = (
  db: MemoryDatabase,
  destination: string,
  deliveries: readonly ReconciledDelivery[],
): number => {
  const createdAtMs = db.now()
  let added = 0
  for (const delivery of deliveries) {
    if (!db.events.has(delivery.eventId) || hasDelivery(db, delivery.eventId, destination)) continue
    db.insertRow(newDeliveryRow({ ...delivery, destination, createdAtMs, ...delayOf(db, delivery.eventId) }))
    added += 1
  }
  return added
}

export const backfill = (
  db: MemoryDatabase,
  destination: string,
  deliveries: readonly ReconciledDelivery[],
  scope: object,
  { actor, reason }: OperatorAct,
): number => {
  entryOf(db, destination)
  const count = addUnheard(db, destination, deliveries)
  const target = JSON.stringify({ destination, ...scope })
  db.audit.push({ atMs: db.now(), actor, action: 'backfill', reason, target, count })
  return count
}

/** What is delayed elsewhere is delayed here, too. */
const delayOf = (db: MemoryDatabase, eventId: string): Partial<DeliveryRow> => {
  for (const { status, availableAtMs } of db.events.get(eventId)?.deliveries ?? [])
    if (status === 'scheduled') return { status, availableAtMs }
  return {}
}
