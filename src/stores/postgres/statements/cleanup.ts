/**
 * One bounded step of cleaning. Finished rows go by when they finished, never by when they were created; an
 * event goes with the last row that refers to it, or by age when nothing ever did. With partitions only their tails
 * are cleaned row by row: the others go as a whole.
 */
import { UNROUTED } from '../../../core/model/index.ts'
import type { CleanupRequest, CleanupResult } from '../../../core/spi/index.ts'
import type { SqlStatement } from '../../sql/sql-executor.ts'
import type { PostgresDatabase, Row, Session } from '../database.ts'
import type { PostgresTables } from '../tables.ts'
import { noteKeys, promoteNoted } from './hold.ts'
import { ASIDE, asMs, asNumber, asText, idList, isTrue, MS, NOW, sqlText } from './sql-text.ts'
import { addRemoved, sumUpStatement } from './totals.ts'

const ago = (param: string): string => `${NOW} - ${param}::float8 * ${MS}`

/** The lowest id of ours that was made at this time; ids begin with their milliseconds. */
export const idAt = (time: string): string =>
  `(lpad(to_hex(greatest(0, ${asMs(time)})), 12, '0') || repeat('0', 20))::uuid`

const lockName = ({ names }: PostgresTables): string =>
  `hashtextextended('posthaste clean ${names.schema}.${names.prefix}', 0)`

/** Cleaning and whoever gives an old event a new delivery would each miss what the other is about to commit. */
const ALONE = sqlText((t) => `SELECT pg_advisory_xact_lock(${lockName(t)})`)

const NOT_WHILE_CLEANING = sqlText((t) => `SELECT pg_advisory_xact_lock_shared(${lockName(t)})`)

/** The first statement of a script that gives an event a new delivery without having one of its rows locked. */
export const notWhileCleaning = (t: PostgresTables): SqlStatement => ({
  sql: NOT_WHILE_CLEANING(t),
  params: [],
})

/** Clocks of processes, which ids are made by, may be ahead of the database's by this much. */
const AHEAD = "interval '1 minute'"

/** What every destination is reconciled past. Rows behind it stay: without them their event would look as if it was missed. */
export const reconciled = (t: PostgresTables): string =>
  `coalesce((SELECT min(reconciled_to) FROM ${t.destinations}), 9223372036854775807)`

/**
 * A walk by id, which says when a delivery was made: one that finished before a time was made before it. An index
 * by the time of finishing would cost more with every delivery than looking at the few that took long. Ids from the
 * future were made by a clock that was wrong, or not by us; there are hardly ever any.
 * $1 retention, $2 limit, $3 where to begin. The last row tells how far it came.
 */
const FINISHED = sqlText(
  (t) => `WITH seen AS MATERIALIZED (
  SELECT id, finished_at <= ${ago('$1')} AND seq <= ${reconciled(t)} AS old FROM ${t.finished}
  WHERE id > $3::uuid AND id < ${idAt(`${ago('$1')} + ${AHEAD}`)} ORDER BY id LIMIT $2::int
), strange AS MATERIALIZED (
  SELECT id FROM (
    SELECT id, seq, finished_at FROM ${t.finished} WHERE id > ${idAt(`${NOW} + ${AHEAD}`)} ORDER BY id LIMIT $2::int
  ) AS s WHERE finished_at <= ${ago('$1')} AND seq <= ${reconciled(t)}
), gone AS (
  DELETE FROM ${t.finished} WHERE id = ANY(ARRAY(SELECT id FROM seen WHERE old UNION ALL SELECT id FROM strange LIMIT $2::int))
  RETURNING id, event_id, status, destination
), totals AS (${addRemoved(
    t,
    'SELECT destination, -count(*) FILTER (WHERE status = 1) AS done, -count(*) FILTER (WHERE status = 4) AS discarded FROM gone GROUP BY destination',
  )})
SELECT id, event_id, status FROM gone
UNION ALL
SELECT (SELECT id FROM seen ORDER BY id DESC LIMIT 1), NULL, (SELECT count(*) FROM seen)`,
)

/** Those that hold a key stay until an operator decides, or the rows behind them would never be found. */
const DEAD = sqlText(
  (t) => `DELETE FROM ${t.deliveries} WHERE id = ANY(ARRAY(
  SELECT id FROM ${t.deliveries} WHERE status = 3 AND settled_at <= ${ago('$1')} AND NOT holds_key ORDER BY settled_at LIMIT $2::int))
  AND status = 3 AND NOT holds_key AND seq <= ${reconciled(t)}
RETURNING id, event_id`,
)

const ATTEMPTS = sqlText((t) => `DELETE FROM ${t.attempts} WHERE delivery_id = ANY($1::uuid[])`)

const unreferenced = (t: PostgresTables): string =>
  `NOT EXISTS (SELECT 1 FROM ${t.deliveries} AS d WHERE d.event_id = e.id)
  AND NOT EXISTS (SELECT 1 FROM ${t.finished} AS f WHERE f.event_id = e.id)`

/** `t` is where finished rows and deliveries are looked for, `from` where events are removed. */
const EVENTS = (t: PostgresTables, from: PostgresTables): string =>
  `DELETE FROM ${from.events} AS e WHERE e.id = ANY($1::uuid[]) AND ${unreferenced(t)} RETURNING 1`

/** The reconciler may still give it its first one, too. */
const free = (t: PostgresTables): string => `${unreferenced(t)} AND e.seq <= ${reconciled(t)}`

/** For events that never had a delivery, or lost it by hand: a walk from the oldest, a bounded number at a time. */
const WALK = (t: PostgresTables, from: PostgresTables): string =>
  `SELECT e.id, ${free(t)} AND e.created_at <= ${ago('$1')} FROM ${from.events} AS e
WHERE e.id > $2::uuid AND e.id < ${idAt(ago('$1'))} ORDER BY e.id LIMIT $3::int`

/** Ids that an application brought say nothing of their age, so these events are found by their own index. */
const WALK_OTHERS = (t: PostgresTables, from: PostgresTables): string =>
  `SELECT e.id, ${free(t)}, e.created_at::text FROM ${from.events} AS e
WHERE NOT e.timed_id AND e.created_at > $2::timestamptz AND e.created_at <= ${ago('$1')}
ORDER BY e.created_at LIMIT $3::int`

/** By their place on the disk, which is always found at once: rows of this table are never changed, so they stay where they are. */
const DEDUP = sqlText(
  (t) => `DELETE FROM ${t.dedup} WHERE ctid = ANY(ARRAY(
  SELECT ctid FROM ${t.dedup} WHERE created_at <= ${ago('$1')} ORDER BY created_at LIMIT $2::int)) RETURNING 1`,
)

/** A fenced worker without lanes has nothing left to be recognised by. */
const WORKERS = sqlText(
  (t) => `DELETE FROM ${t.workers} AS w WHERE fenced AND expires_at <= ${NOW} - interval '1 hour'
  AND NOT EXISTS (SELECT 1 FROM ${t.lanes} AS l WHERE l.worker_id = w.id)`,
)

/** In the order of the index that has them alone: with old statistics one over all deliveries looks as good. */
const orphans = (t: PostgresTables, status: 0 | 5, order: 'seq' | 'available_at'): string =>
  `(SELECT u.id FROM ${t.deliveries} AS u WHERE u.destination = '${UNROUTED}' AND u.status = ${status}
    AND NOT EXISTS (SELECT 1 FROM ${t.events} AS e WHERE e.id = u.event_id) ORDER BY u.${order} LIMIT $1::int)`

/** An unrouted row without its event can never be expanded; dead it is at least seen. */
const ORPHANS = sqlText(
  (t) => `UPDATE ${t.deliveries} SET status = 3, settled_at = ${NOW}, holds_key = false WHERE id = ANY(ARRAY(
  ${orphans(t, 0, 'seq')} UNION ALL ${orphans(t, 5, 'available_at')}))`,
)

/** Their holder promotes them. If somebody removed it by hand, this does: nothing may wait for ever. */
const HELD = sqlText((t) =>
  noteKeys(
    `(SELECT DISTINCT destination, key FROM (SELECT destination, key FROM ${t.deliveries} AS d WHERE status = 6 AND ${ASIDE} LIMIT $1::int) AS h) AS k`,
  ),
)

const FIRST_ID = '00000000-0000-0000-0000-000000000000'

/** Where the walks over finished deliveries and over old events go on. */
export interface CleanupMark {
  readonly finished: string
  readonly id: string
  readonly others: string
  /** The longest retention that anything before the marks was looked at with: a shorter one begins anew. */
  readonly olderThanMs: number
}

export const NO_MARK: CleanupMark = { finished: FIRST_ID, id: FIRST_ID, others: '-infinity', olderThanMs: 0 }

interface Walked {
  readonly ids: readonly string[]
  readonly mark: Pick<CleanupMark, 'id' | 'others'>
  readonly more: boolean
}

const removeFinished = async (
  session: Session,
  from: PostgresTables,
  { doneOlderThanMs, limit }: CleanupRequest,
  mark: CleanupMark,
): Promise<{ readonly gone: readonly Row[]; readonly mark: string; readonly more: boolean }> => {
  const rows = await session.rows(FINISHED(from), [doneOlderThanMs, limit, mark.finished])
  const [last, , seen] = rows.find(([, eventId]) => eventId === null) ?? []
  const more = asNumber(seen) >= limit
  return { gone: rows.filter(([, eventId]) => eventId !== null), mark: more ? asText(last) : FIRST_ID, more }
}

const freeOf = (rows: readonly Row[]): readonly string[] =>
  rows.filter((row) => isTrue(row[1])).map(([id]) => asText(id))

const walkEvents = async (
  session: Session,
  t: PostgresTables,
  from: PostgresTables,
  retentionMs: number,
  limit: number,
  mark: CleanupMark,
): Promise<Walked> => {
  const rows = await session.rows(WALK(t, from), [retentionMs, mark.id, limit])
  const others = await session.rows(WALK_OTHERS(t, from), [retentionMs, mark.others, limit])
  const next = (walked: readonly Row[], column: number, start: string): string =>
    walked.length < limit ? start : asText(walked.at(-1)?.[column])
  return {
    ids: [...new Set([...freeOf(rows), ...freeOf(others)])].slice(0, limit),
    mark: { id: next(rows, 0, NO_MARK.id), others: next(others, 2, NO_MARK.others) },
    more: rows.length >= limit || others.length >= limit,
  }
}

const remove = async (session: Session, sql: string, ids: readonly string[]): Promise<number> =>
  ids.length === 0 ? 0 : (await session.rows(sql, [idList(ids)])).length

/** `from` has the tables that rows are removed from; `lastMark` is where the last step's walk ended. */
export const cleanup = (
  db: PostgresDatabase,
  t: PostgresTables,
  from: PostgresTables,
  request: CleanupRequest,
  lastMark: CleanupMark,
): Promise<{ readonly result: CleanupResult; readonly mark: CleanupMark }> =>
  db.transaction(async (session) => {
    const { limit, doneOlderThanMs, deadOlderThanMs } = request
    const mark = doneOlderThanMs < lastMark.olderThanMs ? NO_MARK : lastMark
    await session.rows(ALONE(t))
    const finished = await removeFinished(session, from, request, mark)
    const dead = deadOlderThanMs === null ? [] : await session.rows(DEAD(t), [deadOlderThanMs, limit])
    const removed = [...finished.gone, ...dead]
    await remove(
      session,
      ATTEMPTS(t),
      removed.map(([id]) => asText(id)),
    )
    const candidates = [...new Set(removed.map(([, eventId]) => asText(eventId)))].slice(0, limit)
    let events = await remove(session, EVENTS(t, from), candidates)
    const left = limit - events
    const walked = left > 0 ? await walkEvents(session, t, from, doneOlderThanMs, left, mark) : null
    events += await remove(session, EVENTS(t, from), walked?.ids ?? [])
    const dedup = (await session.rows(DEDUP(t), [request.dedupOlderThanMs, limit])).length
    await session.rows(WORKERS(t))
    await session.rows(ORPHANS(t), [limit])
    await session.rows(sumUpStatement(t).sql)
    await session.rows(HELD(t), [limit])
    for (const { sql, params } of promoteNoted(t, limit)) await session.rows(sql, params)
    const done = finished.gone.filter((row) => asNumber(row[2]) === 1).length
    const more =
      finished.more || [dead.length, dedup].some((count) => count >= limit) || (walked?.more ?? true)
    return {
      result: { done, discarded: finished.gone.length - done, dead: dead.length, events, dedup, more },
      mark: {
        ...mark,
        ...walked?.mark,
        finished: finished.mark,
        olderThanMs: Math.max(mark.olderThanMs, doneOlderThanMs),
      },
    }
  })
