/** Delayed rows whose time has come take their place at the end of the line. */
import type { ActivateRequest } from '../../../core/spi/index.ts'
import type { Tables } from '../../sql/identifiers.ts'
import type { MysqlDatabase } from '../database.ts'
import { dueScheduled } from './read.ts'
import { asId, idList, lockWorkers, NOW, one, workerIsAlive } from './sql-text.ts'

/**
 * The numbers come from the same sequence as those of events, so that they are new: events that nobody ever sees
 * draw them, and are gone before the transaction ends. `replaces_id` says which row each of them is for.
 */
const placeholder = (eventId: string, deliveryId: string): string =>
  `(${idList([eventId])}, '', 0, ${NOW}, ${NOW}, 0, ${idList([deliveryId])}, 1, '', '0')`

export const activate = async (
  db: MysqlDatabase,
  t: Tables,
  request: ActivateRequest,
  newId: () => string,
): Promise<number> => {
  const { workerId, destination, lanes, limit } = request
  const due = await db.rows(
    `SELECT id FROM ${t.deliveries} FORCE INDEX (due) WHERE ${dueScheduled(destination, lanes)} ORDER BY available_at, seq LIMIT ${limit}`,
  )
  if (due.length === 0) return 0
  const pairs = due.map(([id]) => ({ eventId: newId(), deliveryId: asId(id) }))
  const drawn = `id IN (${idList(pairs.map(({ eventId }) => eventId))})`
  const [, , activated] = await db.atomic([
    lockWorkers(t, [workerId]),
    one(`INSERT INTO ${t.events} (id, type, version, occurred_at, created_at, routes_version, replaces_id, size, content_type, payload)
VALUES ${pairs.map(({ eventId, deliveryId }) => placeholder(eventId, deliveryId)).join(', ')}`),
    one(`UPDATE (SELECT replaces_id, seq FROM ${t.events} WHERE ${drawn} LIMIT ${pairs.length}) AS p
STRAIGHT_JOIN ${t.deliveries} AS d ON d.id = p.replaces_id SET d.status = 0, d.seq = p.seq
WHERE d.status = 5 AND ${workerIsAlive(t, workerId)}`),
    one(`DELETE FROM ${t.events} WHERE ${drawn}`),
  ])
  return activated?.affected ?? 0
}
