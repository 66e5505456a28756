/** Rows that may have ended a process: counted before they are sent, under a token that ends older rights. */
import type { SuspectedDelivery, SuspectRequest } from '../../../core/spi/index.ts'
import type { Tables } from '../../sql/identifiers.ts'
import type { MysqlDatabase } from '../database.ts'
import { asId, asNumber, BY_ID, idList, lockWorkers, NOW, one, UNCLAIMED, workerIsAlive } from './sql-text.ts'

/** A row that has this token already was counted by the same call before; one whose claim was extended is left alone. */
export const suspect = async (
  db: MysqlDatabase,
  t: Tables,
  { workerId, ids, token, spendFrom }: SuspectRequest,
): Promise<readonly SuspectedDelivery[]> => {
  if (ids.length === 0) return []
  const alive = workerIsAlive(t, workerId)
  const list = idList(ids)
  const [, , suspected] = await db.atomic([
    lockWorkers(t, [workerId]),
    // Assignments count from left to right here, so the attempts still see the old number of suspicions.
    one(
      `UPDATE ${t.deliveries} ${BY_ID} SET attempts = attempts + IF(suspicions + 1 >= ?, 1, 0), suspicions = suspicions + 1, token = ?
WHERE id IN (${list}) AND NOT (token <=> ?) AND (status = 0 AND ${UNCLAIMED} OR status = 2 AND available_at <= ${NOW}) AND ${alive}`,
      [spendFrom, token, token],
    ),
    one(
      `SELECT id, suspicions, attempts FROM ${t.deliveries} WHERE id IN (${list}) AND token = ? AND ${alive}`,
      [token],
    ),
  ])
  return (suspected?.rows ?? []).map(([id, suspicions, attempts]) => ({
    id: asId(id),
    suspicions: asNumber(suspicions),
    attempts: asNumber(attempts),
  }))
}
