/** Stored events that a destination has never had, for an operator who wants it to. */
import { ERROR_CODES, StoreError } from '../../../core/errors.ts'
import type {
  OperatorAct,
  ReconciledDelivery,
  StoredPosition,
  UnheardBatch,
  UnheardQuery,
} from '../../../core/spi/index.ts'
import type { Tables } from '../../sql/identifiers.ts'
import type { SqliteConnection } from '../connection.ts'
import { writeAudit } from './audit.ts'
import { addUnheard, isUnheard } from './registry.ts'
import { asBigInt, asId, asNumber, asText, asTextOrNull, sqlText } from './sql-text.ts'

const FROM = sqlText((t) => `SELECT seq, created_at FROM ${t.events} WHERE seq >= ? ORDER BY seq LIMIT 1`)

export const eventFrom = (c: SqliteConnection, t: Tables, seq: bigint): StoredPosition | null => {
  const [row] = c.rows(FROM(t), [seq])
  return row === undefined ? null : { seq: asBigInt(row[0]), createdAtMs: asNumber(row[1]) }
}

const UNHEARD = sqlText(
  (t) => `SELECT e.id, e.seq, e.type, e.key, e.size, e.created_at, ${isUnheard(t)} FROM ${t.events} AS e
WHERE e.seq > ? AND e.seq <= ? ORDER BY e.seq LIMIT ?`,
)

/** One writer at a time: whatever has a lower position than what is seen is committed. */
export const findUnheard = (
  c: SqliteConnection,
  t: Tables,
  { destination, after, upTo, limit }: UnheardQuery,
): UnheardBatch => {
  const rows = c.rows(UNHEARD(t), [destination, destination, after, upTo, limit + 1])
  const looked = rows.slice(0, limit)
  const more = rows.length > limit
  const scannedTo = more ? asBigInt(looked.at(-1)?.[1]) : upTo
  const events = looked
    .filter((row) => asNumber(row[6]) === 1)
    .map(([id, seq, type, key, size, createdAt]) => ({
      id: asId(id),
      seq: asBigInt(seq),
      type: asText(type),
      key: asTextOrNull(key),
      size: asNumber(size),
      createdAtMs: asNumber(createdAt),
    }))
  return { events, scanned: looked.length, scannedTo, settledTo: scannedTo, more }
}

const KNOWN = sqlText((t) => `SELECT 1 FROM ${t.destinations} WHERE name = ?`)

export const backfill = (
  c: SqliteConnection,
  t: Tables,
  destination: string,
  deliveries: readonly ReconciledDelivery[],
  scope: object,
  act: OperatorAct,
): number => {
  if (c.rows(KNOWN(t), [destination]).length === 0) {
    throw new StoreError(ERROR_CODES.notFound, `There is no destination "${destination}".`, { destination })
  }
  const added = addUnheard(c, t, destination, deliveries)
  writeAudit(c, t, 'backfill', { destination, ...scope }, added, act)
  return added
}
