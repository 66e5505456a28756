/** Keyed events right after their commit: may they be sent from memory, and what of their key is before them? */
import { Buffer } from 'node:buffer'
import { UNROUTED, uuidFromBytes } from '../../../core/model/index.ts'
import type { ClaimedHead } from '../../../core/spi/index.ts'
import type { Tables } from '../../sql/identifiers.ts'
import type { SqliteConnection } from '../connection.ts'
import { asBigInt, asId, asText, idList, sqlText, UNCLAIMED, workerIsAlive } from './sql-text.ts'

/** The first ones are enough, because a key may have a million rows. */
const first = (t: Tables, where: string): string =>
  `SELECT * FROM (SELECT a.id, a.seq FROM ${t.deliveries} AS a WHERE ${where} AND a.key = d.key AND a.seq < d.seq ORDER BY a.seq LIMIT ?)`

const IN_KEY = 'a.key IS NOT NULL AND a.status = 0'

const CLAIM = sqlText(
  (t) => `SELECT d.id, d.seq, CASE WHEN d.key IS NULL THEN NULL ELSE (
  SELECT group_concat(hex(id), ',') FROM (
    SELECT id FROM (
      ${first(t, `a.destination = d.destination AND ${IN_KEY}`)}
      UNION ${first(t, 'a.destination = d.destination AND a.holds_key = 1 AND a.status IN (2, 3, 6)')}
      UNION ${first(t, `a.destination = '${UNROUTED}' AND ${IN_KEY}`)}
    ) ORDER BY seq LIMIT ?)) END
FROM json_each(?) AS j CROSS JOIN ${t.deliveries} AS d ON d.id = unhex(j.value)
WHERE d.status = 0 AND ${UNCLAIMED} AND ${workerIsAlive(t)}
ORDER BY d.seq`,
)

const idsOf = (list: unknown): readonly string[] =>
  list === null
    ? []
    : asText(list)
        .split(',')
        .map((digits) => uuidFromBytes(Buffer.from(digits, 'hex')))

/** Reads only: the right it gives is the lane, and a fenced worker's settles are refused. */
export const claim = (
  c: SqliteConnection,
  t: Tables,
  workerId: string,
  ids: readonly string[],
  aheadLimit: number,
): readonly ClaimedHead[] =>
  c
    .rows(CLAIM(t), [aheadLimit, aheadLimit, aheadLimit, aheadLimit, idList(ids), workerId])
    .map(([id, seq, ahead]) => ({
      id: asId(id),
      seq: asBigInt(seq),
      ahead: idsOf(ahead),
    }))
