/** Deliveries whose publisher did not know the routes: read by anybody, replaced by routed ones. */
import { uuidToHex } from '../../../core/model/index.ts'
import type { ExpandRequest, UnroutedDelivery } from '../../../core/spi/index.ts'
import type { Tables } from '../../sql/identifiers.ts'
import type { SqliteConnection } from '../connection.ts'
import { isWorkerAlive } from './lanes.ts'
import { unroutedRows } from './read.ts'
import { registryVersion } from './registry.ts'
import { asBigInt, asId, asNumber, asText, asTextOrNull, IDS, idList, sqlText } from './sql-text.ts'

const READ = sqlText(
  (t) => `SELECT d.id, d.event_id, d.seq, e.type, d.key, d.size FROM (
  SELECT * FROM (${unroutedRows(t, 0)} ORDER BY u.seq LIMIT ?)
  UNION ALL SELECT * FROM (${unroutedRows(t, 5)} ORDER BY u.available_at LIMIT ?)
) AS n CROSS JOIN ${t.deliveries} AS d ON d.id = n.id CROSS JOIN ${t.events} AS e ON e.id = d.event_id
ORDER BY n.seq LIMIT ?`,
)

/** A row that is gone was expanded by somebody else, and one that exists already came by the reconciler. */
const EXPAND = sqlText(
  (
    t,
  ) => `INSERT INTO ${t.deliveries} (id, event_id, seq, destination, run, lane, key, status, available_at, size, created_at)
SELECT unhex(j.value->>1), u.event_id, u.seq, j.value->>2, 1, j.value->>3, j.value->>4, u.status, u.available_at, j.value->>5, u.created_at
FROM json_each(?) AS j CROSS JOIN ${t.deliveries} AS u ON u.id = unhex(j.value->>0)
WHERE u.status IN (0, 5) AND NOT EXISTS (
  SELECT 1 FROM ${t.finished} AS f WHERE f.event_id = u.event_id AND f.destination = j.value->>2 AND f.run = 1)
ON CONFLICT (event_id, destination, run) DO NOTHING`,
)

const REMOVE = sqlText(
  (t) => `DELETE FROM ${t.deliveries} WHERE id IN ${IDS} AND destination = '*' AND status IN (0, 5)`,
)

export const readUnrouted = (c: SqliteConnection, t: Tables, limit: number): readonly UnroutedDelivery[] =>
  c.rows(READ(t), [limit, limit, limit]).map(([id, eventId, seq, type, key, size]) => ({
    id: asId(id),
    eventId: asId(eventId),
    seq: asBigInt(seq),
    type: asText(type),
    key: asTextOrNull(key),
    size: asNumber(size),
  }))

export const expand = (c: SqliteConnection, t: Tables, request: ExpandRequest): boolean => {
  if (!isWorkerAlive(c, t, request.workerId)) return false
  if (registryVersion(c, t) !== request.registryVersion) return false
  const routed = request.expansions.flatMap(({ unroutedId, deliveries }) =>
    deliveries.map((d) => [uuidToHex(unroutedId), uuidToHex(d.id), d.destination, d.lane, d.key, d.size]),
  )
  c.rows(EXPAND(t), [JSON.stringify(routed)])
  c.rows(REMOVE(t), [idList(request.expansions.map(({ unroutedId }) => unroutedId))])
  return true
}
