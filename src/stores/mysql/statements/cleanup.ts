/**
 * One bounded step of cleaning. Finished rows go by when they finished, never by when they were created; an
 * event goes with the last row that refers to it, or by age when nothing ever did. With partitions only their tails
 * are cleaned row by row: the others go as a whole.
 */
import type { CleanupRequest, CleanupResult } from '../../../core/spi/index.ts'
import type { Tables } from '../../sql/identifiers.ts'
import type { MysqlDatabase, Row, Session } from '../database.ts'
import { TAIL } from '../periods.ts'
import { distinctKeys, promotion } from './hold.ts'
import { asBigInt, asId, asNumber, asText, BY_ID, earlier, idList, KEY, NOW, rowsById } from './sql-text.ts'
import { addTotal } from './totals.ts'

/** A fenced worker without lanes has nothing left to be recognised by. */
const WORKER_KEPT_MS = 3_600_000

const idsOf = (rows: readonly Row[], place = 0): readonly string[] => [
  ...new Set(rows.map((row) => asId(row[place]))),
]

/**
 * What not every destination is reconciled past stays: without it its event would look as if it was missed. The number
 * of the event counts, because a delivery that was delayed may have a later one than any event.
 */
const isReconciled = (t: Tables): string =>
  `(e.seq IS NULL OR e.seq <= (SELECT COALESCE(MIN(r.reconciled_to), 9223372036854775807) FROM ${t.destinations} AS r))`

/** Chosen first and locked then: rows are removed by id, in order, and only those that are still there count. */
const removeFinished = async (
  c: Session,
  t: Tables,
  tail: string,
  olderThanMs: number,
  limit: number,
): Promise<readonly Row[]> => {
  const found = await c.rows(
    `SELECT f.id FROM (SELECT id, event_id FROM ${t.finished}${tail} FORCE INDEX (by_finish)
  WHERE finished_at <= ${earlier(NOW, '?')} ORDER BY finished_at LIMIT ?) AS f
LEFT JOIN ${t.events} AS e ON e.id = f.event_id WHERE ${isReconciled(t)}`,
    [olderThanMs, limit],
  )
  if (found.length === 0) return []
  const ended = rowsById(t.finished, idsOf(found))
  const rows = await c.rows(`SELECT d.id, d.event_id, d.status, d.destination FROM ${ended} FOR UPDATE`)
  await c.write(`DELETE d FROM ${ended}`)
  return rows
}

/** Those that hold a key have another state and stay until an operator decides, or the rows behind them would never be found. */
const removeDead = async (
  c: Session,
  t: Tables,
  olderThanMs: number,
  limit: number,
): Promise<readonly Row[]> => {
  const names = await c.rows(`SELECT DISTINCT destination FROM ${t.deliveries} FORCE INDEX (fresh)`)
  const found: string[] = []
  for (const [destination] of names) {
    if (found.length >= limit) break
    const rows = await c.rows(
      `SELECT d.id FROM (SELECT id, event_id FROM ${t.deliveries} FORCE INDEX (due)
  WHERE destination = ? AND state = 3 AND available_at <= ${earlier(NOW, '?')} ORDER BY available_at LIMIT ?) AS d
LEFT JOIN ${t.events} AS e ON e.id = d.event_id WHERE ${isReconciled(t)}`,
      [asText(destination), olderThanMs, limit - found.length],
    )
    found.push(...idsOf(rows))
  }
  if (found.length === 0) return []
  const rows = await c.rows(
    `SELECT d.id, d.event_id FROM ${rowsById(t.deliveries, found)} WHERE d.state = 3 FOR UPDATE`,
  )
  if (rows.length > 0) await c.write(`DELETE d FROM ${rowsById(t.deliveries, idsOf(rows))}`)
  return rows
}

/** The events are locked first: whoever just adds a delivery has them locked too, and is seen by the next statement. */
const removeEvents = async (c: Session, t: Tables, tail: string, ids: readonly string[]): Promise<number> => {
  if (ids.length === 0) return 0
  const events = rowsById(`${t.events}${tail}`, ids, 'e')
  await c.rows(`SELECT e.id FROM ${events} FOR UPDATE`)
  return c.write(`DELETE e FROM ${events} WHERE ${unreferenced(t)}`)
}

const unreferenced = (
  t: Tables,
): string => `NOT EXISTS (SELECT 1 FROM ${t.deliveries} AS d WHERE d.event_id = e.id)
  AND NOT EXISTS (SELECT 1 FROM ${t.finished} AS f WHERE f.event_id = e.id)`

interface Walked {
  readonly ids: readonly string[]
  readonly next: bigint
  readonly more: boolean
}

/**
 * For events that never had a delivery, or lost it by hand: a walk from the oldest, a bounded number at a time. The
 * reconciler may still give one its first delivery.
 */
const walkEvents = async (
  c: Session,
  t: Tables,
  tail: string,
  olderThanMs: number,
  limit: number,
  after: bigint,
): Promise<Walked> => {
  const ids: string[] = []
  const rows = await c.rows(
    `SELECT e.seq, e.id, ${unreferenced(t)} AND ${isReconciled(t)}, e.created_at <= ${earlier(NOW, '?')} FROM ${t.events}${tail} AS e FORCE INDEX (by_seq)
WHERE e.seq > ? ORDER BY e.seq LIMIT ?`,
    [olderThanMs, after, limit],
  )
  for (const [, id, free, old] of rows) {
    // Younger events follow; the next round begins at the oldest again.
    if (asNumber(old) === 0) return { ids, next: 0n, more: false }
    if (asNumber(free) === 1) ids.push(asId(id))
  }
  const last = rows.at(-1)
  if (rows.length < limit || last === undefined) return { ids, next: 0n, more: false }
  return { ids, next: asBigInt(last[0]), more: true }
}

/** A key that somebody just uses again is left for another time: its transaction may take long. */
const removeKeys = async (c: Session, t: Tables, olderThanMs: number, limit: number): Promise<number> => {
  const rows = await c.rows(
    `SELECT type, idempotency_key FROM ${t.dedup} FORCE INDEX (by_age) WHERE created_at <= ${earlier(NOW, '?')} ORDER BY created_at LIMIT ? FOR UPDATE SKIP LOCKED`,
    [olderThanMs, limit],
  )
  if (rows.length === 0) return 0
  // Not with IN: MariaDB would look for pairs in the whole table, and wait for those that were passed over.
  return c.write(
    `DELETE FROM ${t.dedup} WHERE ${rows.map(() => '(type = ? AND idempotency_key = ?)').join(' OR ')}`,
    rows.flatMap(([type, key]) => [asText(type), asText(key)]),
  )
}

/** An unrouted row without its event can never be expanded; dead it is at least seen. */
const buryOrphans = async (c: Session, t: Tables, limit: number): Promise<void> => {
  const rows = await c.rows(
    `SELECT u.id FROM ${t.deliveries} AS u FORCE INDEX (fresh) WHERE u.destination = '*' AND u.state IN (0, 5)
  AND NOT EXISTS (SELECT 1 FROM ${t.events} AS e WHERE e.id = u.event_id) LIMIT ?`,
    [limit],
  )
  if (rows.length === 0) return
  await c.write(
    `UPDATE ${t.deliveries} ${BY_ID} SET status = 3, token = NULL, available_at = ${NOW}, settled_at = ${NOW}, settled_by = 'cleanup'
WHERE id IN (${idList(idsOf(rows))}) AND status IN (0, 5)`,
  )
}

/** Their holder promotes them. If somebody removed it by hand, this does: nothing may wait for ever. */
const promoteHeld = async (c: Session, t: Tables, limit: number): Promise<void> => {
  const rows = await c.rows(
    `SELECT DISTINCT h.destination, h.key FROM (
  SELECT destination, ${KEY} FROM ${t.deliveries} FORCE INDEX (by_status) WHERE status = 6 LIMIT ?) AS h`,
    [limit],
  )
  const keys = rows.map(([destination, key]) => ({ destination: asText(destination), key: asText(key) }))
  for (const key of distinctKeys(keys)) await c.write(promotion(t, key, limit).sql)
}

const isDone = (row: Row): boolean => asNumber(row[2]) === 1

const subtractTotals = async (c: Session, t: Tables, rows: readonly Row[]): Promise<void> => {
  const totals = new Map<string, { done: number; discarded: number }>()
  for (const row of rows) {
    const total = totals.get(asText(row[3])) ?? { done: 0, discarded: 0 }
    totals.set(asText(row[3]), total)
    if (isDone(row)) total.done -= 1
    else total.discarded -= 1
  }
  for (const [destination, { done, discarded }] of totals)
    await c.write(addTotal(t, destination, done, discarded).sql)
}

const removeWorkers = (t: Tables): string => `DELETE w FROM ${t.workers} AS w
WHERE w.fenced = 1 AND w.expires_at <= ${earlier(NOW, WORKER_KEPT_MS)} AND NOT EXISTS (SELECT 1 FROM ${t.lanes} AS l WHERE l.worker_id = w.id)`

interface Step {
  readonly result: CleanupResult
  /** Where the walk over the events goes on. */
  readonly walkFrom: bigint
}

const removeOld = async (
  c: Session,
  t: Tables,
  tail: string,
  request: CleanupRequest,
  walkFrom: bigint,
): Promise<Step> => {
  const { limit, doneOlderThanMs, deadOlderThanMs } = request
  const finished = await removeFinished(c, t, tail, doneOlderThanMs, limit)
  const dead = deadOlderThanMs === null ? [] : await removeDead(c, t, deadOlderThanMs, limit)
  const removed = [...finished, ...dead]
  if (removed.length > 0)
    await c.write(`DELETE FROM ${t.attempts} WHERE delivery_id IN (${idList(idsOf(removed))})`)
  let events = await removeEvents(c, t, tail, idsOf(removed, 1).slice(0, limit))
  const walked =
    events < limit ? await walkEvents(c, t, tail, doneOlderThanMs, limit - events, walkFrom) : null
  if (walked !== null) events += await removeEvents(c, t, tail, walked.ids)
  const dedup = await removeKeys(c, t, request.dedupOlderThanMs, limit)
  await subtractTotals(c, t, finished)
  const done = finished.filter(isDone).length
  const more =
    [finished.length, dead.length, dedup].some((count) => count >= limit) || walked === null || walked.more
  return {
    result: { done, discarded: finished.length - done, dead: dead.length, events, dedup, more },
    walkFrom: walked?.next ?? walkFrom,
  }
}

/** Removing and what else is done in passing are apart, so that none of them holds the other's locks. */
export const cleanup = async (
  db: MysqlDatabase,
  t: Tables,
  request: CleanupRequest,
  walkFrom: bigint,
): Promise<Step> => {
  const tail = db.options.layout === 'partitioned' ? ` PARTITION (${TAIL})` : ''
  const step = await db.transaction((c) => removeOld(c, t, tail, request, walkFrom))
  await db.transaction(async (c) => {
    await c.write(removeWorkers(t))
    await buryOrphans(c, t, request.limit)
  })
  await db.transaction((c) => promoteHeld(c, t, request.limit))
  return step
}
