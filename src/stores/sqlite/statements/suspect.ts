/** Rows that may have ended a process: counted before they are sent, under a token that ends older rights. */
import type { SuspectedDelivery, SuspectRequest } from '../../../core/spi/index.ts'
import type { Tables } from '../../sql/identifiers.ts'
import type { SqliteConnection } from '../connection.ts'
import { isWorkerAlive } from './lanes.ts'
import { asId, asNumber, IDS, idList, NOW, sqlText, UNCLAIMED } from './sql-text.ts'

/** A row that has this token already was counted by the same call before; one whose claim was extended is left alone. */
const SUSPECT = sqlText(
  (t) => `UPDATE ${t.deliveries} SET suspicions = suspicions + 1, token = ?,
  attempts = attempts + CASE WHEN suspicions + 1 >= ? THEN 1 ELSE 0 END
WHERE id IN ${IDS} AND token IS NOT ? AND (status = 0 AND ${UNCLAIMED} OR status = 2 AND available_at <= ${NOW})`,
)

const SUSPECTED = sqlText(
  (t) => `SELECT id, suspicions, attempts FROM ${t.deliveries} WHERE id IN ${IDS} AND token = ?`,
)

export const suspect = (
  c: SqliteConnection,
  t: Tables,
  { workerId, ids, token, spendFrom }: SuspectRequest,
): readonly SuspectedDelivery[] => {
  if (!isWorkerAlive(c, t, workerId)) return []
  const list = idList(ids)
  c.rows(SUSPECT(t), [token, spendFrom, list, token])
  return c.rows(SUSPECTED(t), [list, token]).map(([id, suspicions, attempts]) => ({
    id: asId(id),
    suspicions: asNumber(suspicions),
    attempts: asNumber(attempts),
  }))
}
