/** Hot claims that nobody replaced get more time, even if their lease ran out in the meantime. */
import { uuidToHex } from '../../../core/model/index.ts'
import type { HotClaim } from '../../../core/spi/index.ts'
import type { Tables } from '../../sql/identifiers.ts'
import type { SqliteConnection } from '../connection.ts'
import { asId, asText, NOW, sqlText } from './sql-text.ts'

const EXTEND = sqlText(
  (t) => `UPDATE ${t.deliveries} AS d SET available_at = ${NOW} + ?
FROM (SELECT unhex(value->>0) AS id, value->>1 AS token FROM json_each(?)) AS j
WHERE d.id = j.id AND d.token = j.token AND d.status = 0 RETURNING id, token`,
)

export const extend = (
  c: SqliteConnection,
  t: Tables,
  claims: readonly HotClaim[],
  leaseMs: number,
): readonly string[] => {
  const list = JSON.stringify(claims.map(({ id, token }) => [uuidToHex(id), token]))
  const kept = new Set(
    c.rows(EXTEND(t), [leaseMs, list]).map(([id, token]) => `${asId(id)} ${asText(token)}`),
  )
  return claims.filter(({ id, token }) => !kept.has(`${id} ${token}`)).map(({ id }) => id)
}
