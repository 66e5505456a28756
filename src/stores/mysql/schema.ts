/**
 * The schema role. A named lock lets one process at a time migrate. DDL commits by itself on these servers, so a
 * migration that broke in the middle is run again from its beginning, and its statements allow for that.
 */
import { createHash } from 'node:crypto'
import { ERROR_CODES, StoreError } from '../../core/errors.ts'
import type { Schema, SchemaStatus } from '../../core/spi/index.ts'
import type { Tables } from '../sql/identifiers.ts'
import {
  type AppliedMigration,
  type Migration,
  missingMigrations,
  renderMigration,
  schemaStatus,
} from '../sql/migrator.ts'
import { FIRST_LOOK_AHEAD_MS } from '../sql/partitioning.ts'
import type { MysqlDatabase, Row, Session } from './database.ts'
import { errorNumber, isBroken, storeErrorOf } from './errors.ts'
import { migrations } from './migrations/migrations.generated.ts'
import type { ResolvedMysqlOptions } from './options.ts'
import { partitionsClause } from './partitions.ts'
import { literal } from './script.ts'
import { asMs, asNumber, asText, NOW } from './statements/sql-text.ts'

export const ALL: readonly Migration[] = migrations

/** MySQL passes over what only MariaDB reads, and the other way round. */
const TABLE =
  'ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET = utf8mb4 /*!80017 COLLATE = utf8mb4_0900_bin */ /*M!100600 COLLATE = utf8mb4_nopad_bin */'

/** How long another process that migrates is waited for. */
const LOCK_SECONDS = 60

/** Whoever cannot have a table soon would let everybody else wait: the next start tries again. */
const TABLE_SECONDS = 5

const DUPLICATE_COLUMN = 1060
const LOCK_TIMEOUT = 1205

/** The server is to answer that it waited in vain before we stop listening to it. It counts in whole seconds. */
const secondsWithin = ({ options }: MysqlDatabase, most: number): number =>
  Math.min(most, Math.max(0, Math.floor(options.queryTimeoutMs / 1_000) - 1))

const readApplied = (t: Tables): string =>
  `SELECT version, name, applied_at FROM ${t.migrations} ORDER BY version`

const decode = (rows: readonly Row[]): readonly AppliedMigration[] =>
  rows.map(([version, name, at]) => ({
    version: asNumber(version),
    name: asText(name),
    appliedAtMs: asMs(at),
  }))

/** Without the table nothing was ever applied. */
const orNone = (error: unknown): readonly Row[] => {
  const cause = error instanceof StoreError ? error.cause : error
  if (errorNumber(cause) === 1146) return []
  throw error
}

/** Without a clock there is only the tail, which the maintainer splits. */
export const textOfMigration = (
  { layout, period }: Pick<ResolvedMysqlOptions, 'layout' | 'period'>,
  t: Tables,
  migration: Migration,
  nowMs: number | null,
): string => {
  const untilMs = nowMs === null ? 0 : nowMs + FIRST_LOOK_AHEAD_MS
  const partitions = partitionsClause(period, nowMs, untilMs)
  const body = renderMigration(migration, t.prefix)
    .replaceAll('{table}', TABLE)
    .replaceAll('{by_id}', layout === 'partitioned' ? partitions : '')
    .trim()
  return `${body}\n\n${record(t, migration)}`
}

const record = (t: Tables, { version, name }: Migration): string =>
  `INSERT INTO ${t.migrations} (version, name, applied_at) VALUES (${version}, ${literal(name)}, ${NOW})
ON DUPLICATE KEY UPDATE version = version`

/** A migration that adds a column does nothing else. If it broke before it was recorded, the column is there already. */
const apply = async (
  session: Session,
  { options }: MysqlDatabase,
  t: Tables,
  migration: Migration,
  nowMs: number,
): Promise<void> => {
  try {
    await session.write(textOfMigration(options, t, migration, nowMs))
  } catch (error) {
    if (errorNumber(error) !== DUPLICATE_COLUMN) throw error
    await session.write(record(t, migration))
  }
}

const migratedElsewhere = (seconds: number): StoreError =>
  new StoreError(
    ERROR_CODES.storeBusy,
    `Another process ${seconds === 0 ? 'is migrating the tables' : `has been migrating the tables for ${seconds} seconds`}. Try it again when it is done.`,
    { transient: true },
  )

/** What was applied before stays, and the next try goes on from there. */
const keptFromTables = (place: string, seconds: number, cause: unknown): StoreError =>
  new StoreError(
    ERROR_CODES.storeBusy,
    `${place} did not give a lock in time: a transaction has used a table that is to be migrated for ${seconds} seconds. End it or wait for its end, and try it again.`,
    { cause: storeErrorOf(cause, place), transient: true, errno: LOCK_TIMEOUT },
  )

/** No statement of `work` waits for a table for long, because whoever comes after it waits behind it. */
const withShortWaits = async <T>(
  database: MysqlDatabase,
  session: Session,
  work: () => Promise<T>,
): Promise<T> => {
  const seconds = Math.max(1, secondsWithin(database, TABLE_SECONDS))
  await session.rows(`SET SESSION lock_wait_timeout = ${seconds}`)
  try {
    const result = await work()
    await session.rows('SET SESSION lock_wait_timeout = DEFAULT')
    return result
  } catch (error) {
    // After an error the database itself sets everything back.
    if (errorNumber(error) !== LOCK_TIMEOUT) throw error
    throw keptFromTables(database.place, seconds, error)
  }
}

const underLock = async <T>(
  database: MysqlDatabase,
  t: Tables,
  work: (session: Session) => Promise<T>,
): Promise<T> =>
  database.session(async (session) => {
    // Names of locks belong to the whole server and are short.
    const [[name] = []] = await session.rows(`SELECT CONCAT(DATABASE(), '.', ?)`, [t.prefix])
    const lock = `posthaste ${createHash('sha256').update(asText(name)).digest('hex').slice(0, 40)}`
    const seconds = secondsWithin(database, LOCK_SECONDS)
    const [[got] = []] = await session.rows('SELECT GET_LOCK(?, ?)', [lock, seconds])
    if (asNumber(got) !== 1) throw migratedElsewhere(seconds)
    const release = () => session.rows('SELECT RELEASE_LOCK(?)', [lock])
    const result = await work(session).catch(async (error: unknown) => {
      // A connection that has not answered does not answer this either, and its lock ends with it.
      if (!isBroken(error)) await release()
      throw error
    })
    await release()
    return result
  })

export const schemaRole = (database: MysqlDatabase, t: Tables): Schema => ({
  async status(): Promise<SchemaStatus> {
    return schemaStatus(ALL, decode(await database.rows(readApplied(t)).catch(orNone)))
  },
  async migrate(): Promise<SchemaStatus> {
    // Most starts find nothing to do, and then nobody has to wait for the lock.
    const before = decode(await database.rows(readApplied(t)).catch(orNone))
    if (missingMigrations(ALL, before).length === 0) return schemaStatus(ALL, before)
    return underLock(database, t, async (session) => {
      const applied = decode(await session.rows(readApplied(t)).catch(orNone))
      const [[now] = []] = await session.rows(`SELECT ${NOW}`)
      await withShortWaits(database, session, async () => {
        for (const migration of missingMigrations(ALL, applied))
          await apply(session, database, t, migration, asMs(now))
      })
      return schemaStatus(ALL, decode(await session.rows(readApplied(t))))
    })
  },
  sql: () =>
    ALL.map(
      (migration) =>
        `-- ${String(migration.version).padStart(4, '0')}_${migration.name}\n${textOfMigration(database.options, t, migration, null)};\n`,
    ).join('\n'),
})
