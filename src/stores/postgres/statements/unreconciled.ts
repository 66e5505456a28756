/**
 * Events that an older publisher routed without a destination that exists by now. The search must not pass an
 * event whose transaction is still open: its position is lower than that of events which are committed.
 *
 * Everything up to the last position that was drawn is committed or given up when, a moment later, nobody has a
 * lock of writers on the table or on the sequence: one of them is taken before a position is drawn. Under a steady load there is always
 * somebody. Then earlier answers are used: what was drawn then is settled as soon as every transaction of that
 * time has ended.
 */
import { UNROUTED } from '../../../core/model/index.ts'
import type { ReconcileBatch } from '../../../core/spi/index.ts'
import type { SqlStatement } from '../../sql/sql-executor.ts'
import type { PostgresDatabase } from '../database.ts'
import type { PostgresTables } from '../tables.ts'
import { lastSeq } from './registry.ts'
import { asBigInt, asNumber, asText, asTextOrNull, existsBy, isTrue, sqlText } from './sql-text.ts'

/**
 * Not while a declaration is under way: it has chosen the position from which its patterns count, and the search would
 * still go by the patterns before it. Naming the registry with a lock, though of none of its rows, waits for its end.
 */
const DRAWN = sqlText(
  (t) => `SELECT ${lastSeq(t)} WHERE NOT EXISTS (SELECT 1 FROM ${t.destinations} WHERE false FOR KEY SHARE)`,
)

/**
 * Whoever drew a position before has an older number than ours. The snapshot would not tell: its upper end is the
 * newest transaction that has ended, and one that is open may be newer.
 */
const NUMBER = 'SELECT pg_current_xact_id()::text'

/** Whether somebody writes, and the oldest transaction that is open. Prepared ones have locks and no process. */
const WRITERS = sqlText(
  (
    t,
  ) => `SELECT pg_snapshot_xmin(pg_current_snapshot())::text, EXISTS (SELECT 1 FROM pg_locks WHERE locktype = 'relation' AND relation IN ('${t.events}'::regclass, ${t.sequence}::regclass)
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND mode = 'RowExclusiveLock' AND pid IS DISTINCT FROM pg_backend_pid())`,
)

/**
 * Edits are for one destination alone; unrouted events are expanded with the registry of that moment. Both are nobody's
 * business here. $1 is the destination. Not with EXISTS: in this place the planner would read both tables from end to end
 * into a hash instead of looking each event up.
 */
export const isUnheard = (t: PostgresTables): string => `e.replaces_id IS NULL
  AND NOT ${existsBy('d.event_id, d.destination, d.run', `${t.deliveries} AS d WHERE d.event_id = e.id AND d.destination IN ($1, '${UNROUTED}')`)}
  AND NOT ${existsBy('f.event_id, f.destination, f.run', `${t.finished} AS f WHERE f.event_id = e.id AND f.destination = $1`)}`

/**
 * For searches that go through the events by their index: partitions that seem to be empty would otherwise be read from end
 * to end and sorted, which looks as good to the planner.
 */
export const BY_INDEX: SqlStatement = { sql: 'SET LOCAL enable_sort = off', params: [] }

/** Versions that occur are found by hopping through the index; the last one is null. */
export const versionsOf = (t: PostgresTables): string => `versions(v) AS (
  (SELECT x.routes_version FROM ${t.events} AS x ORDER BY x.routes_version, x.seq LIMIT 1)
  UNION ALL
  SELECT (SELECT x.routes_version FROM ${t.events} AS x WHERE x.routes_version > v ORDER BY x.routes_version, x.seq LIMIT 1) FROM versions WHERE v IS NOT NULL
)`

/** Of each version below ours only the first events past the mark are looked at. */
const SEARCH = sqlText(
  (t) => `WITH RECURSIVE target AS (SELECT version, reconciled_to FROM ${t.destinations} WHERE name = $1),
${versionsOf(t)}
SELECT e.id, e.seq, e.type, e.key, e.size,
  ${isUnheard(t)}
FROM target CROSS JOIN versions CROSS JOIN LATERAL (
  SELECT x.id, x.seq, x.type, x.key, x.size, x.replaces_id FROM ${t.events} AS x
  WHERE x.routes_version = versions.v AND x.seq > target.reconciled_to AND x.seq <= $3::bigint ORDER BY x.seq LIMIT $2::int
) AS e
WHERE versions.v < target.version
ORDER BY e.seq LIMIT $2::int`,
)

const MARK = sqlText((t) => `SELECT reconciled_to FROM ${t.destinations} WHERE name = $1`)

interface Note {
  readonly drawn: bigint
  /** All transactions that can have drawn it have this number or a lower one. */
  readonly number: bigint
}

/** Answers that are waited for; the newest ones, because older ones are overtaken by them. */
const MAX_NOTES = 16

export class Unreconciled {
  readonly #db: PostgresDatabase
  readonly #tables: PostgresTables
  #notes: readonly Note[] = []
  #settled = 0n

  constructor(db: PostgresDatabase, tables: PostgresTables) {
    this.#db = db
    this.#tables = tables
  }

  async find(destination: string, limit: number): Promise<ReconcileBatch> {
    const upTo = await this.settledUpTo()
    const [, rows = [], [[mark] = []] = []] = await this.#db.snapshot([
      BY_INDEX,
      { sql: SEARCH(this.#tables), params: [destination, limit + 1, upTo] },
      { sql: MARK(this.#tables), params: [destination] },
    ])
    const examined = rows.slice(0, limit)
    const events = examined
      .filter((row) => isTrue(row[5]))
      .map(([id, seq, type, key, size]) => ({
        id: asText(id),
        seq: asBigInt(seq),
        type: asText(type),
        key: asTextOrNull(key),
        size: asNumber(size),
      }))
    const more = rows.length > limit
    // Up to there everything is committed and was looked at, or was routed by somebody who knew the destination.
    const scannedTo = more ? asBigInt(examined.at(-1)?.[1]) : upTo
    const known = asBigInt(mark ?? 0)
    return { events, scannedTo: scannedTo < known ? known : scannedTo, more }
  }

  /** Nothing appears at or below this position any more. */
  async settledUpTo(): Promise<bigint> {
    const answers = await this.#db.script([
      { sql: DRAWN(this.#tables), params: [] },
      { sql: WRITERS(this.#tables), params: [] },
      { sql: NUMBER, params: [] },
    ])
    const [[last] = [], [open, writers] = [], [own] = []] = answers.map(([row]) => row ?? [])
    const [drawn, oldest, number] = [asBigInt(last), asBigInt(open), asBigInt(own)]
    if (!isTrue(writers)) {
      this.#notes = []
      this.#settled = drawn
      return drawn
    }
    for (const note of this.#notes)
      if (note.number < oldest && note.drawn > this.#settled) this.#settled = note.drawn
    const waiting = this.#notes.filter((note) => note.number >= oldest)
    this.#notes = waiting.length < MAX_NOTES ? [...waiting, { drawn, number }] : waiting
    return this.#settled
  }
}
