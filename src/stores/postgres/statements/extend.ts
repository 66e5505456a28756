/** Hot claims that nobody replaced get more time, even if their lease ran out in the meantime. */
import type { HotClaim } from '../../../core/spi/index.ts'
import type { PostgresDatabase } from '../database.ts'
import type { PostgresTables } from '../tables.ts'
import { asText, idList, MS, NOW, PENDING, sqlText } from './sql-text.ts'

/** Each row's token is looked up by its id: a join with the list might read the whole table. */
const EXTEND = sqlText(
  (t) => `UPDATE ${t.deliveries} AS d SET available_at = ${NOW} + $1::float8 * ${MS}
WHERE id = ANY($2::uuid[]) AND token = ($3::jsonb ->> id::text) AND ${PENDING} RETURNING id, token`,
)

export const extend = async (
  db: PostgresDatabase,
  t: PostgresTables,
  claims: readonly HotClaim[],
  leaseMs: number,
): Promise<readonly string[]> => {
  const tokens = new Map(claims.map(({ id, token }) => [id, token]))
  const rows = await db.rows(EXTEND(t), [
    leaseMs,
    idList([...tokens.keys()]),
    JSON.stringify(Object.fromEntries(tokens)),
  ])
  const kept = new Set(rows.map(([id, token]) => `${asText(id)} ${asText(token)}`))
  return claims.filter(({ id, token }) => !kept.has(`${id} ${token}`)).map(({ id }) => id)
}
