/** Keyed events right after their commit: may they be sent from memory, and what of their key is before them? */
import { UNROUTED } from '../../../core/model/index.ts'
import type { ClaimedHead } from '../../../core/spi/index.ts'
import type { PostgresDatabase } from '../database.ts'
import type { PostgresTables } from '../tables.ts'
import { asBigInt, asText, holders, idList, NOW, PENDING, sqlText, unclaimed } from './sql-text.ts'

/** The first ones are enough, because a key may have a million rows. */
const first = (t: PostgresTables, where: string): string =>
  `(SELECT a.id, a.seq FROM ${t.deliveries} AS a WHERE ${where} AND a.seq < d.seq ORDER BY a.seq LIMIT $3::int)`

const IN_KEY = 'a.key = d.key AND a.key IS NOT NULL AND a.status = 0'

/** By status, because the index of holders has it before the position. */
const held = (t: PostgresTables): string =>
  [2, 3, 6].map((status) => first(t, holders('a', 'd', status))).join('\n      UNION ALL ')

/**
 * Reads only, so the worker's row need not be locked: the right that it tells of is the lane, and a worker that is
 * fenced a moment later could not settle either way.
 */
const CLAIM = sqlText(
  (t) => `SELECT d.id, d.seq, CASE WHEN d.key IS NULL THEN '{}' ELSE ARRAY(
    SELECT id FROM (
      ${first(t, `a.destination = d.destination AND ${IN_KEY}`)}
      UNION ALL ${held(t)}
      UNION ALL ${first(t, `a.destination = '${UNROUTED}' AND d.destination <> '${UNROUTED}' AND ${IN_KEY}`)}
    ) AS ahead ORDER BY seq LIMIT $3::int) END
FROM ${t.deliveries} AS d
WHERE d.id = ANY($1::uuid[]) AND ${PENDING} AND ${unclaimed(NOW)}
  AND EXISTS (SELECT 1 FROM ${t.workers} WHERE id = $2 AND NOT fenced)
ORDER BY d.seq`,
)

/** The server writes an array of ids as `{a,b}`. */
const idsOf = (list: unknown): readonly string[] => {
  const inner = asText(list).slice(1, -1)
  return inner === '' ? [] : inner.split(',')
}

export const claim = async (
  db: PostgresDatabase,
  t: PostgresTables,
  workerId: string,
  ids: readonly string[],
  aheadLimit: number,
): Promise<readonly ClaimedHead[]> =>
  (await db.rows(CLAIM(t), [idList(ids), workerId, aheadLimit])).map(([id, seq, ahead]) => ({
    id: asText(id),
    seq: asBigInt(seq),
    ahead: idsOf(ahead),
  }))
