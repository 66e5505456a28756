/** Deliveries whose publisher did not know the routes: read by anybody, replaced by routed ones. */
import { UNROUTED, uuidToHex } from '../../../core/model/index.ts'
import type { ExpandRequest, UnroutedDelivery } from '../../../core/spi/index.ts'
import type { Tables } from '../../sql/identifiers.ts'
import type { MysqlDatabase } from '../database.ts'
import { unroutedRows } from './read.ts'
import { REGISTRY_LOCK } from './registry.ts'
import {
  asBigInt,
  asId,
  asNumber,
  asText,
  asTextOrNull,
  jsonTable,
  KEY,
  lockWorkers,
  one,
  rowsById,
  TEXT,
  workerIsAlive,
} from './sql-text.ts'

export const readUnrouted = async (
  db: MysqlDatabase,
  t: Tables,
  limit: number,
): Promise<readonly UnroutedDelivery[]> => {
  const rows = await db.rows(`SELECT d.id, d.event_id, d.seq, e.type, d.key, d.size FROM (
  (${unroutedRows(t, 'fresh', 0)} ORDER BY u.seq LIMIT ${limit}) UNION ALL (${unroutedRows(t, 'fresh', 5)} ORDER BY u.seq LIMIT ${limit})
) AS n STRAIGHT_JOIN ${t.deliveries} AS d ON d.id = n.id STRAIGHT_JOIN ${t.events} AS e ON e.id = d.event_id
ORDER BY n.seq LIMIT ${limit}`)
  return rows.map(([id, eventId, seq, type, key, size]) => ({
    id: asId(id),
    eventId: asId(eventId),
    seq: asBigInt(seq),
    type: asText(type),
    key: asTextOrNull(key),
    size: asNumber(size),
  }))
}

/**
 * A row that is gone was expanded by somebody else, and one that exists already came by the reconciler. No declaration
 * ends meanwhile: a new destination's reconciler relies on whatever is unrouted being expanded with the new routes.
 */
export const expand = async (db: MysqlDatabase, t: Tables, request: ExpandRequest): Promise<boolean> => {
  const routed = request.expansions.flatMap(({ unroutedId, deliveries }) =>
    deliveries.map((d) => [uuidToHex(unroutedId), uuidToHex(d.id), d.destination, d.lane, d.key, d.size]),
  )
  const source = jsonTable(routed, [
    'unrouted CHAR(32)',
    'id CHAR(32)',
    `destination ${TEXT(64)}`,
    'lane INT',
    `${KEY} ${TEXT(255)}`,
    'size INT',
  ])
  const unrouted = rowsById(
    t.deliveries,
    request.expansions.map(({ unroutedId }) => unroutedId),
  )
  const [, asked] = await db
    .atomic([
      // The first declaration of all makes the row; until then there is nothing to wait at.
      one(
        `INSERT IGNORE INTO ${t.lanes} (destination, lane) SELECT ${REGISTRY_LOCK} FROM (SELECT 1) AS x
WHERE NOT EXISTS (SELECT 1 FROM ${t.lanes} AS l WHERE (l.destination, l.lane) = (${REGISTRY_LOCK}))`,
      ),
      // Before the worker's own row, which must not be locked while somebody is waited for.
      one(`SELECT 1 FROM ${t.lanes} WHERE (destination, lane) = (${REGISTRY_LOCK}) LOCK IN SHARE MODE`),
      lockWorkers(t, [request.workerId]),
      one(
        `SELECT ${workerIsAlive(t, request.workerId)} AND COALESCE(MAX(version), 0) = ? INTO @posthaste_expands FROM ${t.destinations}`,
        [request.registryVersion],
      ),
      // Whoever expands the same rows at this moment is waited for.
      one(`SELECT d.id FROM ${unrouted} FOR UPDATE`),
      one(`INSERT INTO ${t.deliveries} (id, event_id, seq, destination, run, lane, ${KEY}, status, available_at, size, created_at)
SELECT UNHEX(j.id), u.event_id, u.seq, j.destination, 1, j.lane, j.key, u.status, u.available_at, j.size, u.created_at
FROM ${source} STRAIGHT_JOIN ${t.deliveries} AS u ON u.id = UNHEX(j.unrouted)
WHERE @posthaste_expands = 1 AND u.status IN (0, 5)
  AND NOT EXISTS (SELECT 1 FROM ${t.finished} AS f WHERE f.event_id = u.event_id AND f.destination = j.destination AND f.run = 1)
  AND NOT EXISTS (SELECT 1 FROM ${t.deliveries} AS o WHERE o.event_id = u.event_id AND o.destination = j.destination AND o.run = 1)`),
      one(
        `DELETE d FROM ${unrouted} WHERE d.destination = '${UNROUTED}' AND d.status IN (0, 5) AND @posthaste_expands = 1`,
      ),
      one('SELECT @posthaste_expands'),
    ])
    .then((answers) => [answers[0], answers.at(-1)])
  return asNumber(asked?.rows[0]?.[0]) === 1
}
