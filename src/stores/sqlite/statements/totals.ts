/**
 * How many rows `finished` holds, per destination. Counting them would take longer the longer the history is,
 * so whoever writes there adds to a running total: the row of minute 0 in `stats`.
 */
import type { Tables } from '../../sql/identifiers.ts'
import type { SqliteConnection } from '../connection.ts'
import { asNumber, asText, IDS, NOW, sqlText } from './sql-text.ts'

export interface Total {
  readonly destination: string
  readonly done: number
  readonly discarded: number
}

const ADD = sqlText(
  (t) => `INSERT INTO ${t.stats} (minute, destination, done, discarded, failed, pending, dead)
SELECT 0, value->>0, value->>1, value->>2, 0, 0, 0 FROM json_each(?) WHERE true
ON CONFLICT (minute, destination) DO UPDATE SET done = done + excluded.done, discarded = discarded + excluded.discarded`,
)

const READ = sqlText((t) => `SELECT destination, done, discarded FROM ${t.stats} WHERE minute = 0`)

export const addTotals = (c: SqliteConnection, t: Tables, totals: readonly Total[]): void => {
  if (totals.length === 0) return
  c.rows(ADD(t), [
    JSON.stringify(totals.map(({ destination, done, discarded }) => [destination, done, discarded])),
  ])
}

export const readTotals = (c: SqliteConnection, t: Tables): readonly Total[] =>
  c.rows(READ(t)).map(([destination, done, discarded]) => ({
    destination: asText(destination),
    done: asNumber(done),
    discarded: asNumber(discarded),
  }))

const ARCHIVE = sqlText(
  (
    t,
  ) => `INSERT INTO ${t.finished} (id, event_id, seq, destination, run, lane, key, status, attempts, suspicions, size, created_at, finished_at, settled_by)
SELECT id, event_id, seq, destination, run, lane, key, 4, attempts, suspicions, size, created_at, ${NOW}, ?
FROM ${t.deliveries} WHERE id IN ${IDS} RETURNING destination`,
)

/** Writes copies of these deliveries as discarded; what becomes of the rows themselves is the caller's business. */
export const archiveDiscarded = (c: SqliteConnection, t: Tables, idJson: string, by: string): void => {
  const counts = new Map<string, number>()
  for (const [destination] of c.rows(ARCHIVE(t), [by, idJson])) {
    counts.set(asText(destination), (counts.get(asText(destination)) ?? 0) + 1)
  }
  addTotals(
    c,
    t,
    [...counts].map(([destination, discarded]) => ({ destination, done: 0, discarded })),
  )
}
