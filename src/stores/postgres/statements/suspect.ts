/** Rows that may have ended a process: counted before they are sent, under a token that ends older rights. */
import type { SuspectedDelivery, SuspectRequest } from '../../../core/spi/index.ts'
import type { PostgresDatabase } from '../database.ts'
import type { PostgresTables } from '../tables.ts'
import { aliveWorker, asNumber, asText, idList, NOW, sqlText, unclaimed } from './sql-text.ts'

/** A row that has this token already was counted by the same call before; one whose claim was extended is left alone. */
const SUSPECT = sqlText(
  (t) => `WITH me AS MATERIALIZED (${aliveWorker(t, '$1')}), counted AS (
  UPDATE ${t.deliveries} SET suspicions = suspicions + 1, token = $2,
    attempts = attempts + CASE WHEN suspicions + 1 >= $3::int THEN 1 ELSE 0 END
  WHERE id = ANY($4::uuid[]) AND token IS DISTINCT FROM $2 AND (status = 0 AND ${unclaimed(NOW)} OR status = 2 AND available_at <= ${NOW})
    AND EXISTS (SELECT 1 FROM me)
  RETURNING id, suspicions, attempts
)
SELECT id, suspicions, attempts FROM counted
UNION ALL
SELECT id, suspicions, attempts FROM ${t.deliveries} WHERE id = ANY($4::uuid[]) AND token = $2 AND EXISTS (SELECT 1 FROM me)`,
)

export const suspect = async (
  db: PostgresDatabase,
  t: PostgresTables,
  { workerId, ids, token, spendFrom }: SuspectRequest,
): Promise<readonly SuspectedDelivery[]> =>
  (await db.rows(SUSPECT(t), [workerId, token, spendFrom, idList(ids)])).map(
    ([id, suspicions, attempts]) => ({
      id: asText(id),
      suspicions: asNumber(suspicions),
      attempts: asNumber(attempts),
    }),
  )
