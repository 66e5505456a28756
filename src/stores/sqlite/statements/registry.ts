/** Destinations that exist, what they want to hear, and how far older publishers' events were made up for them. */
import { ERROR_CODES, StoreError } from '../../../core/errors.ts'
import { changeSettings, LANES, readSettings, UNROUTED, uuidToHex } from '../../../core/model/index.ts'
import type {
  DestinationDeclaration,
  DestinationSettings,
  OperatorAct,
  ReconcileBatch,
  ReconciledDelivery,
  RegistryState,
} from '../../../core/spi/index.ts'
import { changedDeclarations, patternPositions, registryState } from '../../sql/declarations.ts'
import type { Tables } from '../../sql/identifiers.ts'
import type { SqliteConnection } from '../connection.ts'
import { writeAudit } from './audit.ts'
import { asBigInt, asId, asNumber, asText, asTextOrNull, NOW, sqlText } from './sql-text.ts'

const VERSION = sqlText((t) => `SELECT coalesce(max(version), 0) FROM ${t.destinations}`)

const LOAD = sqlText(
  (t) =>
    `SELECT name, patterns, patterns_from, version, started_at, paused, rate_per_second, settings FROM ${t.destinations} ORDER BY name`,
)

const LAST_SEQ = 'SELECT seq FROM sqlite_sequence WHERE name = ?'

/** A new destination begins behind the last event there is; writers exclude each other, so that is exact. */
const DECLARE = sqlText(
  (
    t,
  ) => `INSERT INTO ${t.destinations} (name, patterns, patterns_from, version, paused, started_at, reconciled_to)
VALUES (?, ?, ?, ?, ?, ${NOW}, ?)
ON CONFLICT (name) DO UPDATE SET patterns = excluded.patterns, patterns_from = excluded.patterns_from, version = excluded.version`,
)

const ADD_LANES = sqlText(
  (t) => `INSERT INTO ${t.lanes} (destination, lane) SELECT ?, value FROM json_each(?) WHERE true
ON CONFLICT (destination, lane) DO NOTHING`,
)

const ALL_LANES = JSON.stringify(Array.from({ length: LANES }, (_, lane) => lane))

const SETTINGS = sqlText((t) => `SELECT settings FROM ${t.destinations} WHERE name = ?`)

const CONFIGURE = sqlText(
  (
    t,
  ) => `UPDATE ${t.destinations} SET paused = coalesce(?, paused), rate_per_second = CASE WHEN ? THEN ? ELSE rate_per_second END, settings = ?
WHERE name = ?`,
)

export const registryVersion = (c: SqliteConnection, t: Tables): number =>
  asNumber(c.rows(VERSION(t))[0]?.[0])

const textsOf = (text: unknown): string[] => JSON.parse(asText(text)) as string[]

export const load = (c: SqliteConnection, t: Tables): RegistryState =>
  registryState(
    c.rows(LOAD(t)).map(([name, patterns, from, version, startedAt, paused, rate, settings]) => ({
      name: asText(name),
      patterns: textsOf(patterns),
      patternsFrom: textsOf(from).map(BigInt),
      version: asNumber(version),
      startedAtMs: asNumber(startedAt),
      paused: asNumber(paused) === 1,
      ratePerSecond: rate === null ? null : asNumber(rate),
      settings: readSettings(asTextOrNull(settings)),
    })),
  )

const lastSeq = (c: SqliteConnection, t: Tables): bigint =>
  asBigInt(c.rows(LAST_SEQ, [`${t.prefix}events`])[0]?.[0] ?? 0n)

export const declare = (
  c: SqliteConnection,
  t: Tables,
  declared: readonly DestinationDeclaration[],
  by?: OperatorAct,
): RegistryState => {
  const before = load(c, t)
  const changed = changedDeclarations(before, declared)
  const drawn = lastSeq(c, t)
  for (const declaration of changed) {
    const { name, patterns, paused } = declaration
    const from = patternPositions(before, declaration, drawn).map(String)
    const texts = [JSON.stringify(patterns), JSON.stringify(from)]
    c.rows(DECLARE(t), [name, ...texts, before.version + 1, Number(paused ?? false), drawn])
    c.rows(ADD_LANES(t), [name, ALL_LANES])
    if (by !== undefined) writeAudit(c, t, 'retire', { destination: name }, 1, by)
  }
  return changed.length === 0 ? before : load(c, t)
}

export const configure = (
  c: SqliteConnection,
  t: Tables,
  name: string,
  change: DestinationSettings,
  act: OperatorAct,
): void => {
  const { paused, ratePerSecond } = change
  const [found] = c.rows(SETTINGS(t), [name])
  if (found === undefined) {
    throw new StoreError(ERROR_CODES.notFound, `There is no destination "${name}".`, { destination: name })
  }
  c.rows(CONFIGURE(t), [
    paused === undefined ? null : Number(paused),
    Number(ratePerSecond !== undefined),
    ratePerSecond ?? null,
    changeSettings(asTextOrNull(found[0]), change),
    name,
  ])
  writeAudit(c, t, 'configure', { destination: name, ...change }, 1, act)
}

/**
 * Edits are for one destination alone; unrouted events are expanded with the registry of that moment. Both are nobody's
 * business here. Binds the destination twice.
 */
export const isUnheard = (t: Tables): string => `e.replaces_id IS NULL
  AND NOT EXISTS (SELECT 1 FROM ${t.deliveries} AS d WHERE d.event_id = e.id AND d.destination IN (?, '${UNROUTED}'))
  AND NOT EXISTS (SELECT 1 FROM ${t.finished} AS f WHERE f.event_id = e.id AND f.destination = ?)`

/**
 * Versions that occur below ours are found by hopping through the index, and of each only the first events
 * past the mark are looked at.
 */
const UNRECONCILED = sqlText(
  (t) => `WITH RECURSIVE target AS (SELECT version, reconciled_to FROM ${t.destinations} WHERE name = ?),
versions(v) AS (
  SELECT min(routes_version) FROM ${t.events}
  UNION ALL
  SELECT (SELECT min(routes_version) FROM ${t.events} WHERE routes_version > v) FROM versions WHERE v IS NOT NULL
)
SELECT e.id, e.seq, e.type, e.key, e.size,
  ${isUnheard(t)}
FROM target CROSS JOIN versions CROSS JOIN ${t.events} AS e ON e.seq IN (
  SELECT x.seq FROM ${t.events} AS x WHERE x.routes_version = versions.v AND x.seq > target.reconciled_to ORDER BY x.seq LIMIT ?)
WHERE versions.v < target.version
ORDER BY e.seq LIMIT ?`,
)

export const findUnreconciled = (
  c: SqliteConnection,
  t: Tables,
  destination: string,
  limit: number,
): ReconcileBatch => {
  // Asked for first: one writer at a time, so whatever has a lower position is committed and will be found.
  const drawn = lastSeq(c, t)
  const rows = c.rows(UNRECONCILED(t), [destination, destination, destination, limit + 1, limit + 1])
  const examined = rows.slice(0, limit)
  const events = examined
    .filter((row) => asNumber(row[5]) === 1)
    .map(([id, seq, type, key, size]) => ({
      id: asId(id),
      seq: asBigInt(seq),
      type: asText(type),
      key: asTextOrNull(key),
      size: asNumber(size),
    }))
  const more = rows.length > limit
  return { events, scannedTo: more ? asBigInt(examined.at(-1)?.[1]) : drawn, more }
}

/**
 * Whatever run there is of it already, the destination heard of the event. What is delayed elsewhere is delayed
 * here, too.
 */
const ADD = sqlText(
  (
    t,
  ) => `INSERT INTO ${t.deliveries} (id, event_id, seq, destination, run, lane, key, status, available_at, size, created_at)
SELECT n.id, n.event_id, n.seq, ?, 1, n.lane, n.key, CASE WHEN n.due IS NULL THEN 0 ELSE 5 END, coalesce(n.due, ${NOW}), n.size, ${NOW}
FROM (
  SELECT unhex(j.value->>0) AS id, e.id AS event_id, e.seq, j.value->>2 AS lane, j.value->>3 AS key, j.value->>4 AS size,
    (SELECT max(s.available_at) FROM ${t.deliveries} AS s WHERE s.event_id = e.id AND s.status = 5) AS due
  FROM json_each(?) AS j CROSS JOIN ${t.events} AS e ON e.id = unhex(j.value->>1)
) AS n
WHERE NOT EXISTS (SELECT 1 FROM ${t.deliveries} AS d WHERE d.event_id = n.event_id AND d.destination = ?)
  AND NOT EXISTS (SELECT 1 FROM ${t.finished} AS f WHERE f.event_id = n.event_id AND f.destination = ?)
ON CONFLICT DO NOTHING RETURNING 1`,
)

/** Those that the destination has not had yet; returns how many these were. */
export const addUnheard = (
  c: SqliteConnection,
  t: Tables,
  destination: string,
  deliveries: readonly ReconciledDelivery[],
): number => {
  if (deliveries.length === 0) return 0
  const list = deliveries.map((d) => [uuidToHex(d.id), uuidToHex(d.eventId), d.lane, d.key, d.size])
  return c.rows(ADD(t), [destination, JSON.stringify(list), destination, destination]).length
}

const ADVANCE = sqlText(
  (t) => `UPDATE ${t.destinations} SET reconciled_to = max(reconciled_to, ?) WHERE name = ?`,
)

export const reconcile = (
  c: SqliteConnection,
  t: Tables,
  destination: string,
  deliveries: readonly ReconciledDelivery[],
  scannedTo: bigint,
): number => {
  const added = addUnheard(c, t, destination, deliveries)
  c.rows(ADVANCE(t), [scannedTo, destination])
  return added
}
