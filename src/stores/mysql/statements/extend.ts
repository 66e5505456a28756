/** Hot claims that nobody replaced get more time, even if their lease ran out in the meantime. */
import { uuidToHex } from '../../../core/model/index.ts'
import type { HotClaim } from '../../../core/spi/index.ts'
import type { Tables } from '../../sql/identifiers.ts'
import type { MysqlDatabase } from '../database.ts'
import { literal } from '../script.ts'
import { asId, asText, BY_ID, idList, later, NOW, one } from './sql-text.ts'

export const extend = async (
  db: MysqlDatabase,
  t: Tables,
  claims: readonly HotClaim[],
  leaseMs: number,
): Promise<readonly string[]> => {
  if (claims.length === 0) return []
  const ids = idList(claims.map(({ id }) => id))
  const pairs = claims.map(({ id, token }) => `(X'${uuidToHex(id)}', ${literal(token)})`).join(', ')
  const mine = `id IN (${ids}) AND (id, token) IN (${pairs}) AND status = 0`
  const [, kept] = await db.script([
    one(`UPDATE ${t.deliveries} ${BY_ID} SET available_at = ${later(NOW, leaseMs)} WHERE ${mine}`),
    one(`SELECT id, token FROM ${t.deliveries} WHERE ${mine}`),
  ])
  const found = new Set((kept?.rows ?? []).map(([id, token]) => `${asId(id)} ${asText(token)}`))
  return claims.filter(({ id, token }) => !found.has(`${id} ${token}`)).map(({ id }) => id)
}
