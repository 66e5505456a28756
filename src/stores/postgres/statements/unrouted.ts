/** Deliveries whose publisher did not know the routes: read by anybody, replaced by routed ones. */
import { UNROUTED } from '../../../core/model/index.ts'
import type { ExpandRequest, UnroutedDelivery } from '../../../core/spi/index.ts'
import type { PostgresDatabase } from '../database.ts'
import type { PostgresTables } from '../tables.ts'
import {
  aliveWorker,
  asBigInt,
  asNumber,
  asText,
  asTextOrNull,
  eventOf,
  idList,
  isTrue,
  sqlText,
  unindexed,
} from './sql-text.ts'

const rowsOf = (t: PostgresTables, status: 0 | 5, order: string): string =>
  `(SELECT u.id, u.event_id, u.seq, e.type, u.key, u.size FROM ${t.deliveries} AS u CROSS JOIN ${eventOf(t, 'u.event_id')}
  WHERE u.destination = '${UNROUTED}' AND u.status = ${status} ORDER BY u.${order} LIMIT $1::int)`

const READ = sqlText(
  (t) => `SELECT * FROM (
  ${rowsOf(t, 0, 'seq')} UNION ALL ${rowsOf(t, 5, 'available_at')}
) AS n ORDER BY n.seq LIMIT $1::int`,
)

/**
 * A row that is gone was expanded by somebody else, and one that exists already came by the reconciler. Naming the
 * registry with a lock, though of none of its rows, makes this wait for a declaration under way, and the other way
 * round: a new destination's reconciler relies on whatever is unrouted being expanded with the new routes.
 */
const EXPAND = sqlText(
  (t) => `WITH me AS MATERIALIZED (${aliveWorker(t, '$1')}), allowed AS MATERIALIZED (
  SELECT 1 FROM me WHERE (SELECT coalesce(max(version), 0) FROM ${t.destinations}) = $2::int
    AND NOT EXISTS (SELECT 1 FROM ${t.destinations} WHERE false FOR KEY SHARE)
), gone AS (
  DELETE FROM ${t.deliveries}
  WHERE id = ANY($3::uuid[]) AND ${unindexed('destination')} = '${UNROUTED}' AND status IN (0, 5) AND EXISTS (SELECT 1 FROM allowed)
  RETURNING id, event_id, seq, status, available_at, created_at
), routed AS (
  INSERT INTO ${t.deliveries} (id, event_id, seq, destination, run, lane, key, status, available_at, size, created_at)
  SELECT r.id, u.event_id, u.seq, r.destination, 1, r.lane, r.key, u.status, u.available_at, r.size, u.created_at
  FROM gone AS u JOIN json_to_recordset($4::json) AS r(unrouted uuid, id uuid, destination text, lane int, key text, size int) ON r.unrouted = u.id
  WHERE NOT EXISTS (SELECT 1 FROM ${t.finished} AS f WHERE f.event_id = u.event_id AND f.destination = r.destination AND f.run = 1)
  ON CONFLICT (event_id, destination, run) DO NOTHING
)
SELECT EXISTS (SELECT 1 FROM allowed)`,
)

export const readUnrouted = async (
  db: PostgresDatabase,
  t: PostgresTables,
  limit: number,
): Promise<readonly UnroutedDelivery[]> =>
  (await db.rows(READ(t), [limit])).map(([id, eventId, seq, type, key, size]) => ({
    id: asText(id),
    eventId: asText(eventId),
    seq: asBigInt(seq),
    type: asText(type),
    key: asTextOrNull(key),
    size: asNumber(size),
  }))

export const expand = async (
  db: PostgresDatabase,
  t: PostgresTables,
  request: ExpandRequest,
): Promise<boolean> => {
  const routed = request.expansions.flatMap(({ unroutedId, deliveries }) =>
    deliveries.map(({ id, destination, lane, key, size }) => ({
      unrouted: unroutedId,
      id,
      destination,
      lane,
      key,
      size,
    })),
  )
  const [[allowed] = []] = await db.rows(EXPAND(t), [
    request.workerId,
    request.registryVersion,
    idList(request.expansions.map(({ unroutedId }) => unroutedId)),
    JSON.stringify(routed),
  ])
  return isTrue(allowed)
}
