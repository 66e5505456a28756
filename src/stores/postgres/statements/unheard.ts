/** Stored events that a destination has never had, for an operator who wants it to. */
import { ERROR_CODES, StoreError } from '../../../core/errors.ts'
import type {
  OperatorAct,
  ReconciledDelivery,
  StoredPosition,
  UnheardBatch,
  UnheardQuery,
} from '../../../core/spi/index.ts'
import type { PostgresDatabase } from '../database.ts'
import type { PostgresTables } from '../tables.ts'
import { auditStatement } from './audit.ts'
import { addUnheard } from './registry.ts'
import { asBigInt, asMs, asNumber, asText, asTextOrNull, isTrue, sqlText } from './sql-text.ts'
import { BY_INDEX, isUnheard, type Unreconciled, versionsOf } from './unreconciled.ts'

/** The index on positions begins with the version, so each version is asked for its first ones. */
const FROM = sqlText(
  (t) => `WITH RECURSIVE ${versionsOf(t)}
SELECT e.seq, ${asMs('e.created_at')} FROM versions CROSS JOIN LATERAL (
  SELECT x.seq, x.created_at FROM ${t.events} AS x WHERE x.routes_version = versions.v AND x.seq >= $1::bigint ORDER BY x.seq LIMIT 1
) AS e
ORDER BY e.seq LIMIT 1`,
)

export const eventFrom = async (
  db: PostgresDatabase,
  t: PostgresTables,
  seq: bigint,
): Promise<StoredPosition | null> => {
  const [, [row] = []] = await db.script([BY_INDEX, { sql: FROM(t), params: [seq] }])
  return row === undefined ? null : { seq: asBigInt(row[0]), createdAtMs: asNumber(row[1]) }
}

const UNHEARD = sqlText(
  (t) => `WITH RECURSIVE ${versionsOf(t)}
SELECT e.id, e.seq, e.type, e.key, e.size, ${asMs('e.created_at')}, ${isUnheard(t)}
FROM versions CROSS JOIN LATERAL (
  SELECT x.id, x.seq, x.type, x.key, x.size, x.created_at, x.replaces_id FROM ${t.events} AS x
  WHERE x.routes_version = versions.v AND x.seq > $2::bigint AND x.seq <= $3::bigint ORDER BY x.seq LIMIT $4::int
) AS e
ORDER BY e.seq LIMIT $4::int`,
)

export const findUnheard = async (
  db: PostgresDatabase,
  t: PostgresTables,
  unreconciled: Unreconciled,
  { destination, after, upTo, limit }: UnheardQuery,
): Promise<UnheardBatch> => {
  // Asked for first: what is settled by then will be seen.
  const settled = await unreconciled.settledUpTo()
  const params = [destination, after, upTo, limit + 1]
  const [, rows = []] = await db.script([BY_INDEX, { sql: UNHEARD(t), params }])
  const looked = rows.slice(0, limit)
  const more = rows.length > limit
  const scannedTo = more ? asBigInt(looked.at(-1)?.[1]) : upTo
  const events = looked
    .filter((row) => isTrue(row[6]))
    .map(([id, seq, type, key, size, createdAt]) => ({
      id: asText(id),
      seq: asBigInt(seq),
      type: asText(type),
      key: asTextOrNull(key),
      size: asNumber(size),
      createdAtMs: asNumber(createdAt),
    }))
  const settledTo = settled < scannedTo ? settled : scannedTo
  return { events, scanned: looked.length, scannedTo, settledTo, more }
}

export const backfill = (
  db: PostgresDatabase,
  t: PostgresTables,
  destination: string,
  deliveries: readonly ReconciledDelivery[],
  scope: object,
  act: OperatorAct,
): Promise<number> =>
  db.transaction(async (session) => {
    const [notWhileCleaning, mine, add] = addUnheard(t, destination, deliveries)
    await session.rows(notWhileCleaning.sql, notWhileCleaning.params)
    const known = await session.rows(mine.sql, mine.params)
    if (known.length === 0) {
      throw new StoreError(ERROR_CODES.notFound, `There is no destination "${destination}".`, { destination })
    }
    const added = (await session.rows(add.sql, add.params)).length
    const { sql, params } = auditStatement(t, 'backfill', { destination, ...scope }, added, act)
    await session.rows(sql, params)
    return added
  })
