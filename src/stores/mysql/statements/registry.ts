/** Destinations that exist, what they want to hear, and their settings. */
import { ERROR_CODES, StoreError } from '../../../core/errors.ts'
import { changeSettings, LANES, readSettings, UNROUTED } from '../../../core/model/index.ts'
import type {
  DestinationDeclaration,
  DestinationSettings,
  OperatorAct,
  RegistryState,
} from '../../../core/spi/index.ts'
import { changedDeclarations, patternPositions, registryState } from '../../sql/declarations.ts'
import type { Tables } from '../../sql/identifiers.ts'
import type { MysqlDatabase, Row, Session } from '../database.ts'
import { writeAudit } from './audit.ts'
import { drawNumbers } from './numbers.ts'
import { asMs, asNumber, asText, asTextOrNull, NOW } from './sql-text.ts'

const LOAD = (t: Tables): string =>
  `SELECT name, patterns, patterns_from, version, started_at, paused, rate_per_second, settings FROM ${t.destinations} ORDER BY name`

/** The row of `lanes` that a declaration has locked while it is under way. */
export const REGISTRY_LOCK = `'${UNROUTED}registry', -1`

const textsOf = (json: unknown): string[] => JSON.parse(asText(json)) as string[]

const stateOf = (rows: readonly Row[]): RegistryState =>
  registryState(
    rows.map(([name, patterns, from, version, startedAt, paused, rate, settings]) => ({
      name: asText(name),
      patterns: textsOf(patterns),
      patternsFrom: textsOf(from).map(BigInt),
      version: asNumber(version),
      startedAtMs: asMs(startedAt),
      paused: asNumber(paused) === 1,
      ratePerSecond: rate === null ? null : asNumber(rate),
      settings: readSettings(asTextOrNull(settings)),
    })),
  )

export const load = async (db: MysqlDatabase, t: Tables): Promise<RegistryState> =>
  stateOf(await db.rows(LOAD(t)))

/** A new destination begins behind the last number that anybody has drawn, so it draws one itself. */
const declareOne = async (
  c: Session,
  t: Tables,
  before: RegistryState,
  declaration: DestinationDeclaration,
  newId: () => string,
): Promise<void> => {
  const { name, patterns, paused } = declaration
  const id = newId()
  const { insert, drawn, remove } = drawNumbers(t, [{ eventId: id, forId: id }])
  await c.write(insert.sql)
  const [[last] = []] = await c.rows(`SELECT e.seq FROM ${t.events} AS e WHERE e.${drawn}`)
  const lastSeq = BigInt(asText(last))
  const text = JSON.stringify(patterns)
  const from = JSON.stringify(patternPositions(before, declaration, lastSeq).map(String))
  const version = before.version + 1
  await c.write(
    `INSERT INTO ${t.destinations} (name, patterns, patterns_from, version, paused, started_at, reconciled_to)
VALUES (?, ?, ?, ?, ?, ${NOW}, ?)
ON DUPLICATE KEY UPDATE patterns = ?, patterns_from = ?, version = ?`,
    [name, text, from, version, Number(paused ?? false), lastSeq, text, from, version],
  )
  await c.write(remove.sql)
  const lanes = Array.from({ length: LANES }, (_, lane) => `(?, ${lane})`).join(', ')
  await c.write(
    `INSERT INTO ${t.lanes} (destination, lane) VALUES ${lanes} ON DUPLICATE KEY UPDATE epoch = epoch`,
    Array.from({ length: LANES }, () => name),
  )
}

export const declare = async (
  db: MysqlDatabase,
  t: Tables,
  declared: readonly DestinationDeclaration[],
  newId: () => string,
  by?: OperatorAct,
): Promise<RegistryState> => {
  const quick = await load(db, t)
  if (changedDeclarations(quick, declared).length === 0) return quick
  return db.transaction(async (c) => {
    // One at a time, or two would give their destinations the same version.
    await c.write(
      `INSERT INTO ${t.lanes} (destination, lane) VALUES (${REGISTRY_LOCK}) ON DUPLICATE KEY UPDATE epoch = epoch + 1`,
    )
    const before = stateOf(await c.rows(LOAD(t)))
    const changed = changedDeclarations(before, declared)
    for (const declaration of changed) {
      await declareOne(c, t, before, declaration, newId)
      if (by !== undefined) await writeAudit(c, t, 'retire', { destination: declaration.name }, 1, by)
    }
    return changed.length === 0 ? before : stateOf(await c.rows(LOAD(t)))
  })
}

export const configure = (
  db: MysqlDatabase,
  t: Tables,
  name: string,
  change: DestinationSettings,
  act: OperatorAct,
): Promise<void> =>
  db.transaction(async (c) => {
    const { paused, ratePerSecond } = change
    // One operator at a time, because settings are changed here and not by the statement.
    const [found] = await c.rows(`SELECT settings FROM ${t.destinations} WHERE name = ? FOR UPDATE`, [name])
    if (found === undefined) {
      throw new StoreError(ERROR_CODES.notFound, `There is no destination "${name}".`, { destination: name })
    }
    await c.write(
      `UPDATE ${t.destinations} SET paused = COALESCE(?, paused), rate_per_second = IF(?, ?, rate_per_second), settings = ? WHERE name = ?`,
      [
        paused === undefined ? null : Number(paused),
        Number(ratePerSecond !== undefined),
        ratePerSecond ?? null,
        changeSettings(asTextOrNull(found[0]), change),
        name,
      ],
    )
    await writeAudit(c, t, 'configure', { destination: name, ...change }, 1, act)
  })
