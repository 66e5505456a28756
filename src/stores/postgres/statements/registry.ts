/** Destinations that exist, what they want to hear, and how far older publishers' events were made up for them. */
import { ERROR_CODES, StoreError } from '../../../core/errors.ts'
import { changeSettings, LANES, readSettings } from '../../../core/model/index.ts'
import type {
  DestinationDeclaration,
  DestinationSettings,
  OperatorAct,
  ReconciledDelivery,
  RegistryState,
} from '../../../core/spi/index.ts'
import { changedDeclarations, patternPositions, registryState } from '../../sql/declarations.ts'
import type { SqlStatement } from '../../sql/sql-executor.ts'
import type { PostgresDatabase, Row } from '../database.ts'
import type { PostgresTables } from '../tables.ts'
import { auditStatement } from './audit.ts'
import { notWhileCleaning } from './cleanup.ts'
import {
  asBigInt,
  asMs,
  asNumber,
  asNumberOrNull,
  asText,
  asTextOrNull,
  eventOf,
  isTrue,
  NOW,
  sqlText,
  textList,
} from './sql-text.ts'

const LOAD = sqlText(
  (t) =>
    `SELECT name, to_json(patterns), to_json(patterns_from::text[]), version, ${asMs('started_at')}, paused, rate_per_second, settings FROM ${t.destinations} ORDER BY name`,
)

/** Declarations one after another, and none while unrouted events are expanded; readers are not kept waiting. */
const LOCK = sqlText((t) => `LOCK TABLE ${t.destinations} IN EXCLUSIVE MODE`)

/** What a sequence has given out so far. */
export const lastSeq = (t: PostgresTables): string =>
  `(SELECT CASE WHEN is_called THEN last_value ELSE last_value - 1 END FROM ${t.sequence.slice(1, -1)})`

/** A new destination begins behind the last event there is; what was drawn before was stored before. */
const DECLARE = sqlText(
  (
    t,
  ) => `INSERT INTO ${t.destinations} (name, patterns, patterns_from, version, paused, started_at, reconciled_to)
VALUES ($1, $2::text[], $3::bigint[], $4::int, $5::boolean, ${NOW}, $6::bigint)
ON CONFLICT (name) DO UPDATE SET patterns = excluded.patterns, patterns_from = excluded.patterns_from, version = excluded.version`,
)

const LAST_SEQ = sqlText((t) => `SELECT ${lastSeq(t)}`)

const ADD_LANES = sqlText(
  (
    t,
  ) => `INSERT INTO ${t.lanes} (destination, lane) SELECT $1, lane FROM generate_series(0, ${LANES - 1}) AS lane
ON CONFLICT (destination, lane) DO NOTHING`,
)

/** One operator at a time, because settings are changed here and not by the statement. */
const SETTINGS = sqlText((t) => `SELECT settings FROM ${t.destinations} WHERE name = $1 FOR UPDATE`)

const CONFIGURE = sqlText(
  (t) => `UPDATE ${t.destinations} SET paused = coalesce($1::boolean, paused),
  rate_per_second = CASE WHEN $2::boolean THEN $3::float8 ELSE rate_per_second END, settings = $4
WHERE name = $5`,
)

const textsOf = (json: unknown): string[] => JSON.parse(asText(json)) as string[]

const stateOf = (rows: readonly Row[]): RegistryState =>
  registryState(
    rows.map(([name, patterns, from, version, startedAt, paused, rate, settings]) => ({
      name: asText(name),
      patterns: textsOf(patterns),
      patternsFrom: textsOf(from).map(BigInt),
      version: asNumber(version),
      startedAtMs: asNumber(startedAt),
      paused: isTrue(paused),
      ratePerSecond: asNumberOrNull(rate),
      settings: readSettings(asTextOrNull(settings)),
    })),
  )

export const load = async (db: PostgresDatabase, t: PostgresTables): Promise<RegistryState> =>
  stateOf(await db.rows(LOAD(t)))

export const declare = async (
  db: PostgresDatabase,
  t: PostgresTables,
  declared: readonly DestinationDeclaration[],
  by?: OperatorAct,
): Promise<RegistryState> => {
  // Most starts find nothing to do, and then nobody has to wait for the lock.
  const state = await load(db, t)
  if (changedDeclarations(state, declared).length === 0) return state
  return db.transaction(async (session) => {
    await session.rows(LOCK(t))
    const before = stateOf(await session.rows(LOAD(t)))
    const [[last] = []] = await session.rows(LAST_SEQ(t))
    const lastSeq = asBigInt(last)
    for (const declaration of changedDeclarations(before, declared)) {
      const { name, patterns, paused } = declaration
      const from = textList(patternPositions(before, declaration, lastSeq).map(String))
      const values = [before.version + 1, String(paused ?? false), String(lastSeq)]
      await session.rows(DECLARE(t), [name, textList(patterns), from, ...values])
      await session.rows(ADD_LANES(t), [name])
      if (by === undefined) continue
      const { sql, params } = auditStatement(t, 'retire', { destination: name }, 1, by)
      await session.rows(sql, params)
    }
    return stateOf(await session.rows(LOAD(t)))
  })
}

export const configure = (
  db: PostgresDatabase,
  t: PostgresTables,
  name: string,
  change: DestinationSettings,
  act: OperatorAct,
): Promise<void> =>
  db.transaction(async (session) => {
    const { paused, ratePerSecond } = change
    const [found] = await session.rows(SETTINGS(t), [name])
    if (found === undefined) {
      throw new StoreError(ERROR_CODES.notFound, `There is no destination "${name}".`, { destination: name })
    }
    await session.rows(CONFIGURE(t), [
      paused === undefined ? null : String(paused),
      String(ratePerSecond !== undefined),
      ratePerSecond ?? null,
      changeSettings(asTextOrNull(found[0]), change),
      name,
    ])
    const { sql, params } = auditStatement(t, 'configure', { destination: name, ...change }, 1, act)
    await session.rows(sql, params)
  })

/** Those who add to one destination go one after another, so that each sees what the other added. */
const MINE = sqlText((t) => `SELECT 1 FROM ${t.destinations} WHERE name = $1 FOR UPDATE`)

/** Whatever run there is of it already, the destination heard of the event. What is delayed elsewhere is delayed here, too. */
const ADD = sqlText(
  (
    t,
  ) => `INSERT INTO ${t.deliveries} (id, event_id, seq, destination, run, lane, key, status, available_at, size, created_at)
SELECT r.id, e.id, e.seq, $1, 1, r.lane, r.key, CASE WHEN s.due IS NULL THEN 0 ELSE 5 END, coalesce(s.due, ${NOW}), r.size, ${NOW}
FROM json_to_recordset($2::json) AS r(id uuid, event uuid, lane int, key text, size int) CROSS JOIN ${eventOf(t, 'r.event')}
CROSS JOIN LATERAL (SELECT max(d.available_at) AS due FROM ${t.deliveries} AS d WHERE d.event_id = e.id AND d.status = 5) AS s
WHERE NOT EXISTS (SELECT 1 FROM ${t.deliveries} AS d WHERE d.event_id = e.id AND d.destination = $1)
  AND NOT EXISTS (SELECT 1 FROM ${t.finished} AS f WHERE f.event_id = e.id AND f.destination = $1)
ON CONFLICT DO NOTHING RETURNING 1`,
)

/** The last of these statements answers with a row for each that the destination had not had yet. */
export const addUnheard = (
  t: PostgresTables,
  destination: string,
  deliveries: readonly ReconciledDelivery[],
): readonly [SqlStatement, SqlStatement, SqlStatement] => {
  const records = deliveries.map(({ id, eventId, lane, key, size }) => ({
    id,
    event: eventId,
    lane,
    key,
    size,
  }))
  return [
    notWhileCleaning(t),
    { sql: MINE(t), params: [destination] },
    { sql: ADD(t), params: [destination, JSON.stringify(records)] },
  ]
}

const ADVANCE = sqlText(
  (t) => `UPDATE ${t.destinations} SET reconciled_to = greatest(reconciled_to, $1::bigint) WHERE name = $2`,
)

export const reconcile = async (
  db: PostgresDatabase,
  t: PostgresTables,
  destination: string,
  deliveries: readonly ReconciledDelivery[],
  scannedTo: bigint,
): Promise<number> => {
  const [, , added = []] = await db.script([
    ...addUnheard(t, destination, deliveries),
    { sql: ADVANCE(t), params: [scannedTo, destination] },
  ])
  return added.length
}
