/**
 * One bounded step of cleaning. Finished rows go by when they finished, never by when they were created; an
 * event goes with the last row that refers to it, or by age when nothing ever did.
 */
import type { CleanupRequest, CleanupResult } from '../../../core/spi/index.ts'
import type { Tables } from '../../sql/identifiers.ts'
import type { SqliteConnection } from '../connection.ts'
import { type KeyOf, promote } from './hold.ts'
import { asBigInt, asId, asNumber, asText, IDS, idList, NOW, sqlText } from './sql-text.ts'
import { addTotals } from './totals.ts'

/** A fenced worker without lanes has nothing left to be recognised by. */
const WORKER_KEPT_MS = 3_600_000

/** What every destination is reconciled past. Rows behind it stay: without them their event would look as if it was missed. */
const reconciled = (t: Tables): string =>
  `coalesce((SELECT min(reconciled_to) FROM ${t.destinations}), 9223372036854775807)`

const FINISHED = sqlText(
  (t) => `DELETE FROM ${t.finished} WHERE id IN (
  SELECT id FROM ${t.finished} WHERE finished_at <= ${NOW} - ? ORDER BY finished_at LIMIT ?) AND seq <= ${reconciled(t)}
RETURNING id, event_id, status, destination`,
)

/** Those that hold a key stay until an operator decides, or the rows behind them would never be found. */
const DEAD = sqlText(
  (t) => `DELETE FROM ${t.deliveries} WHERE id IN (
  SELECT id FROM ${t.deliveries} WHERE status = 3 AND settled_at <= ${NOW} - ? AND holds_key = 0 ORDER BY settled_at LIMIT ?) AND seq <= ${reconciled(t)}
RETURNING id, event_id`,
)

const ATTEMPTS = sqlText((t) => `DELETE FROM ${t.attempts} WHERE delivery_id IN ${IDS}`)

const unreferenced = (
  t: Tables,
): string => `NOT EXISTS (SELECT 1 FROM ${t.deliveries} AS d WHERE d.event_id = e.id)
  AND NOT EXISTS (SELECT 1 FROM ${t.finished} AS f WHERE f.event_id = e.id)`

const EVENTS = sqlText(
  (t) => `DELETE FROM ${t.events} AS e WHERE e.id IN ${IDS} AND ${unreferenced(t)} RETURNING 1`,
)

/**
 * For events that never had a delivery, or lost it by hand: a walk from the oldest, a bounded number at a time. The
 * reconciler may still give one its first delivery.
 */
const WALK = sqlText(
  (
    t,
  ) => `SELECT e.seq, e.id, ${unreferenced(t)} AND e.seq <= ${reconciled(t)}, e.created_at <= ${NOW} - ? FROM ${t.events} AS e
WHERE e.seq > ? ORDER BY e.seq LIMIT ?`,
)

const DEDUP = sqlText(
  (t) => `DELETE FROM ${t.dedup} WHERE (type, idempotency_key) IN (
  SELECT type, idempotency_key FROM ${t.dedup} WHERE created_at <= ${NOW} - ? ORDER BY created_at LIMIT ?) RETURNING 1`,
)

const WORKERS = sqlText(
  (t) => `DELETE FROM ${t.workers} WHERE fenced = 1 AND expires_at <= ${NOW} - ${WORKER_KEPT_MS}
  AND NOT EXISTS (SELECT 1 FROM ${t.lanes} AS l WHERE l.worker_id = ${t.workers}.id)`,
)

const orphans = (t: Tables, status: 0 | 5): string =>
  `SELECT u.id FROM ${t.deliveries} AS u WHERE u.destination = '*' AND u.status = ${status}
    AND NOT EXISTS (SELECT 1 FROM ${t.events} AS e WHERE e.id = u.event_id)`

/** An unrouted row without its event can never be expanded; dead it is at least seen. */
const ORPHANS = sqlText(
  (
    t,
  ) => `UPDATE ${t.deliveries} SET status = 3, token = NULL, settled_at = ${NOW}, settled_by = 'cleanup' WHERE id IN (
  ${orphans(t, 0)} UNION ALL ${orphans(t, 5)} LIMIT ?)`,
)

interface Walked {
  readonly ids: readonly string[]
  readonly next: bigint
  readonly more: boolean
}

const walkEvents = (
  c: SqliteConnection,
  t: Tables,
  { doneOlderThanMs, limit }: CleanupRequest,
  after: bigint,
): Walked => {
  const ids: string[] = []
  const rows = c.rows(WALK(t), [doneOlderThanMs, after, limit])
  for (const [, id, free, old] of rows) {
    // Younger events follow; the next round begins at the oldest again.
    if (asNumber(old) === 0) return { ids, next: 0n, more: false }
    if (asNumber(free) === 1) ids.push(asId(id))
  }
  const last = rows.at(-1)
  if (rows.length < limit || last === undefined) return { ids, next: 0n, more: false }
  return { ids, next: asBigInt(last[0]), more: true }
}

const isDone = (row: readonly unknown[]): boolean => asNumber(row[2]) === 1

const subtractTotals = (c: SqliteConnection, t: Tables, rows: readonly (readonly unknown[])[]): void => {
  const totals = new Map<string, { done: number; discarded: number }>()
  for (const row of rows) {
    const total = totals.get(asText(row[3])) ?? { done: 0, discarded: 0 }
    totals.set(asText(row[3]), total)
    if (isDone(row)) total.done -= 1
    else total.discarded -= 1
  }
  addTotals(
    c,
    t,
    [...totals].map(([destination, total]) => ({ destination, ...total })),
  )
}

/** Their holder promotes them. If somebody removed it by hand, this does: nothing may wait for ever. */
const HELD = sqlText(
  (t) => `SELECT DISTINCT destination, key FROM (
  SELECT destination, key FROM ${t.deliveries} WHERE status = 6 AND status IN (2, 3, 5, 6) LIMIT ?)`,
)

const keysWithHeld = (c: SqliteConnection, t: Tables, limit: number): readonly KeyOf[] =>
  c
    .rows(HELD(t), [limit])
    .map(([destination, key]) => ({ destination: asText(destination), key: asText(key) }))

/** `walkFrom` is where the last step's walk over the events ended. */
export const cleanup = (
  c: SqliteConnection,
  t: Tables,
  request: CleanupRequest,
  walkFrom: bigint,
): { readonly result: CleanupResult; readonly walkFrom: bigint } => {
  const { limit, deadOlderThanMs } = request
  const finished = c.rows(FINISHED(t), [request.doneOlderThanMs, limit])
  const dead = deadOlderThanMs === null ? [] : c.rows(DEAD(t), [deadOlderThanMs, limit])
  const removed = [...finished, ...dead]
  let events = 0
  if (removed.length > 0) {
    c.rows(ATTEMPTS(t), [idList(removed.map(([id]) => asId(id)))])
    const candidates = [...new Set(removed.map(([, eventId]) => asId(eventId)))].slice(0, limit)
    events = c.rows(EVENTS(t), [idList(candidates)]).length
  }
  const walked = events < limit ? walkEvents(c, t, { ...request, limit: limit - events }, walkFrom) : null
  if (walked !== null && walked.ids.length > 0) events += c.rows(EVENTS(t), [idList(walked.ids)]).length
  const dedup = c.rows(DEDUP(t), [request.dedupOlderThanMs, limit]).length
  c.rows(WORKERS(t))
  c.rows(ORPHANS(t), [limit])
  const done = finished.filter(isDone).length
  subtractTotals(c, t, finished)
  promote(c, t, keysWithHeld(c, t, limit), limit)
  const more =
    [finished.length, dead.length, dedup].some((count) => count >= limit) || walked === null || walked.more
  return {
    result: { done, discarded: finished.length - done, dead: dead.length, events, dedup, more },
    walkFrom: walked?.next ?? walkFrom,
  }
}
