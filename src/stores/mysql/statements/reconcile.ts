/** Deliveries that publishers with older routes did not know of. */
import { UNROUTED, uuidToHex } from '../../../core/model/index.ts'
import type { ReconcileBatch, ReconciledDelivery } from '../../../core/spi/index.ts'
import type { Tables } from '../../sql/identifiers.ts'
import type { SqlStatement } from '../../sql/sql-executor.ts'
import type { MysqlDatabase, Row } from '../database.ts'
import { literal } from '../script.ts'
import {
  asBigInt,
  asId,
  asNumber,
  asText,
  asTextOrNull,
  earlier,
  idList,
  jsonTable,
  KEY,
  NOW,
  one,
  TEXT,
} from './sql-text.ts'

/**
 * Longer than a statement takes from drawing its numbers to writing its last row. In between it may wait for a row
 * that somebody else has, which servers let it do for 50 seconds by default.
 */
export const DRAWN_MS = 60_000
/** Most events that one search goes past. */
const STRETCH = 5_000

interface Mark {
  readonly version: number
  readonly after: bigint
  readonly versions: readonly number[]
}

/** Versions that occur below ours are found by hopping through the index. */
const markOf = async (db: MysqlDatabase, t: Tables, destination: string): Promise<Mark | null> => {
  const [found, versions] = await db.script([
    one(`SELECT version, reconciled_to FROM ${t.destinations} WHERE name = ?`, [destination]),
    one(`SELECT DISTINCT routes_version FROM ${t.events} FORCE INDEX (by_routes)`),
  ])
  const [mark] = found?.rows ?? []
  if (mark === undefined) return null
  const version = asNumber(mark[0])
  return {
    version,
    after: asBigInt(mark[1]),
    versions: (versions?.rows ?? []).map(([value]) => asNumber(value)).filter((value) => value < version),
  }
}

/** The first events past the mark, of each version. */
const candidates = (t: Tables, { versions, after }: Mark, limit: number): string =>
  versions
    .map(
      (version) =>
        `(SELECT x.id, x.seq FROM ${t.events} AS x FORCE INDEX (by_routes) WHERE x.routes_version = ${version} AND x.seq > ${after} ORDER BY x.seq LIMIT ${limit})`,
    )
    .join('\nUNION ALL ')

/**
 * Edits are for one destination alone; unrouted events are expanded with the registry of that moment. Both are nobody's
 * business here.
 */
export const isUnheard = (t: Tables, destination: string): string => {
  const name = literal(destination)
  return `e.replaces_id IS NULL
  AND NOT EXISTS (SELECT 1 FROM ${t.deliveries} AS d WHERE d.event_id = e.id AND d.destination IN (${name}, '${UNROUTED}'))
  AND NOT EXISTS (SELECT 1 FROM ${t.finished} AS f WHERE f.event_id = e.id AND f.destination = ${name})`
}

/** Events older than the destination lie before its mark; clocks say nothing about that. */
const examined = (t: Tables, mark: Mark, destination: string, limit: number): string =>
  `SELECT e.id, e.seq, e.type, e.key, e.size, ${isUnheard(t, destination)}
FROM (${candidates(t, mark, limit)}) AS c STRAIGHT_JOIN ${t.events} AS e ON e.id = c.id ORDER BY e.seq LIMIT ${limit}`

/**
 * How far everything is committed, and so may be looked at for the last time. Rows that only a dirty read shows are not
 * committed yet. And numbers that are missing among young events may have been drawn by a statement that has not
 * written them yet.
 */
const settledUpTo = async (
  db: MysqlDatabase,
  t: Tables,
  after: bigint,
): Promise<{ readonly upTo: bigint; readonly more: boolean }> => {
  const next = `SELECT seq FROM ${t.events} FORCE INDEX (by_seq) WHERE seq > ${after} ORDER BY seq LIMIT ${STRETCH}`
  const committed = (await db.rows(next)).map(([seq]) => asBigInt(seq))
  const last = committed.at(-1)
  if (last === undefined) return { upTo: after, more: false }
  const [, dirty, old] = await db.script([
    one('SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED'),
    one(next),
    one(
      `SELECT COALESCE(MAX(seq), 0) FROM ${t.events} WHERE seq > ${after} AND seq <= ${last} AND created_at < ${earlier(NOW, DRAWN_MS)}`,
    ),
  ])
  const seen = new Set(committed)
  const written = (dirty?.rows ?? []).map(([seq]) => asBigInt(seq)).filter((seq) => seq <= last)
  const open = written.find((seq) => !seen.has(seq))
  const known = asBigInt(old?.rows[0]?.[0] ?? 0)
  let upTo = known > after ? known : after
  for (const seq of written) if (seq === upTo + 1n) upTo = seq
  if (open !== undefined && open <= upTo) upTo = open - 1n
  return { upTo, more: committed.length === STRETCH && upTo > after }
}

export const findUnreconciled = async (
  db: MysqlDatabase,
  t: Tables,
  destination: string,
  limit: number,
): Promise<ReconcileBatch> => {
  const [[after] = []] = await db.rows(`SELECT reconciled_to FROM ${t.destinations} WHERE name = ?`, [
    destination,
  ])
  const { upTo, more } = await settledUpTo(db, t, asBigInt(after ?? 0))
  // Only now: a declaration that ends in between counts from a position that may be among those gone past.
  const mark = await markOf(db, t, destination)
  if (mark === null) return { events: [], scannedTo: 0n, more: false }
  if (mark.versions.length === 0) return { events: [], scannedTo: upTo, more }
  const rows = await db.rows(examined(t, mark, destination, limit + 1))
  const taken = rows.slice(0, limit)
  const last = rows.length > limit ? asBigInt(taken.at(-1)?.[1]) : upTo
  const scannedTo = last < upTo ? last : upTo
  return {
    events: taken.filter((row) => asNumber(row[5]) === 1).map(eventOf),
    scannedTo,
    // Without a step ahead the same events would come again at once.
    more: (more || rows.length > limit) && scannedTo > mark.after,
  }
}

export const eventOf = ([id, seq, type, key, size]: Row): ReconcileBatch['events'][number] => ({
  id: asId(id),
  seq: asBigInt(seq),
  type: asText(type),
  key: asTextOrNull(key),
  size: asNumber(size),
})

/**
 * Two statements; the second one tells how many the destination had not had yet, whatever run there is of the others. The
 * event is locked, or cleaning could take it away.
 */
export const addUnheard = (
  t: Tables,
  destination: string,
  deliveries: readonly ReconciledDelivery[],
): readonly [SqlStatement, SqlStatement] => {
  const name = literal(destination)
  // Delayed for the others, it is delayed for this one too.
  const due = `(SELECT MAX(s.available_at) FROM ${t.deliveries} AS s WHERE s.event_id = e.id AND s.status = 5)`
  const rows = deliveries.map((d) => [uuidToHex(d.id), uuidToHex(d.eventId), d.lane, d.key, d.size])
  const source = jsonTable(rows, [
    'id CHAR(32)',
    'event_id CHAR(32)',
    'lane INT',
    `${KEY} ${TEXT(255)}`,
    'size INT',
  ])
  return [
    one(
      `SELECT id FROM ${t.events} WHERE id IN (${idList(deliveries.map(({ eventId }) => eventId))}) LOCK IN SHARE MODE`,
    ),
    one(`INSERT INTO ${t.deliveries} (id, event_id, seq, destination, run, lane, ${KEY}, status, available_at, size, created_at)
SELECT UNHEX(j.id), e.id, e.seq, ${name}, 1, j.lane, j.key, IF(${due} IS NULL, 0, 5), COALESCE(${due}, ${NOW}), j.size, ${NOW}
FROM ${source} STRAIGHT_JOIN ${t.events} AS e ON e.id = UNHEX(j.event_id)
WHERE NOT EXISTS (SELECT 1 FROM ${t.deliveries} AS d WHERE d.event_id = e.id AND d.destination = ${name})
  AND NOT EXISTS (SELECT 1 FROM ${t.finished} AS f WHERE f.event_id = e.id AND f.destination = ${name})`),
  ]
}

export const reconcile = async (
  db: MysqlDatabase,
  t: Tables,
  destination: string,
  deliveries: readonly ReconciledDelivery[],
  scannedTo: bigint,
): Promise<number> => {
  const advance = one(
    `UPDATE ${t.destinations} SET reconciled_to = GREATEST(reconciled_to, ?) WHERE name = ?`,
    [scannedTo, destination],
  )
  if (deliveries.length === 0) {
    await db.atomic([advance])
    return 0
  }
  const [, added] = await db.atomic([...addUnheard(t, destination, deliveries), advance])
  return added?.affected ?? 0
}
