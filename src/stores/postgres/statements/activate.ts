/** Delayed rows whose time has come: they become pending and take a place behind everything that was there before. */
import type { ActivateRequest } from '../../../core/spi/index.ts'
import type { PostgresDatabase } from '../database.ts'
import type { PostgresTables } from '../tables.ts'
import { inLanes, laneMask } from './read.ts'
import { aliveWorker, asNumber, NOW, sqlText } from './sql-text.ts'

/** Each row's place is looked up by its id: a join with the list would compare every row with every place. */
const ACTIVATE = sqlText(
  (t) => `WITH me AS MATERIALIZED (${aliveWorker(t, '$1')}), due AS MATERIALIZED (
  SELECT id, seq, available_at FROM ${t.deliveries}
  WHERE destination = $2 AND status = 5 AND available_at <= ${NOW} AND ${inLanes('$3')} AND EXISTS (SELECT 1 FROM me)
  ORDER BY available_at, seq LIMIT $4::int FOR UPDATE
), placed AS MATERIALIZED (
  SELECT id, nextval(${t.sequence}) AS seq FROM (SELECT id FROM due ORDER BY available_at, due.seq) AS o
), places AS MATERIALIZED (SELECT jsonb_object_agg(id, seq) AS by_id FROM placed), activated AS (
  UPDATE ${t.deliveries} AS d SET status = 0, seq = ((SELECT by_id FROM places) ->> d.id::text)::bigint
  WHERE d.id = ANY(ARRAY(SELECT id FROM placed)) AND d.status + 0 = 5 RETURNING 1
)
SELECT count(*) FROM activated`,
)

export const activate = async (
  db: PostgresDatabase,
  t: PostgresTables,
  { workerId, destination, lanes, limit }: ActivateRequest,
): Promise<number> => {
  const [[count] = []] = await db.rows(ACTIVATE(t), [workerId, destination, laneMask(lanes), limit])
  return asNumber(count ?? 0)
}
