/** Delayed rows whose time has come take their place at the end of the line. */
import type { ActivateRequest } from '../../../core/spi/index.ts'
import type { Tables } from '../../sql/identifiers.ts'
import type { MysqlDatabase } from '../database.ts'
import { drawNumbers } from './numbers.ts'
import { dueScheduled } from './read.ts'
import { asId, lockWorkers, one, workerIsAlive } from './sql-text.ts'

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
  const { insert, drawn, remove } = drawNumbers(
    t,
    due.map(([id]) => ({ eventId: newId(), forId: asId(id) })),
  )
  const [, , activated] = await db.atomic([
    lockWorkers(t, [workerId]),
    insert,
    one(`UPDATE (SELECT replaces_id, seq FROM ${t.events} WHERE ${drawn} LIMIT ${due.length}) AS p
STRAIGHT_JOIN ${t.deliveries} AS d ON d.id = p.replaces_id SET d.status = 0, d.seq = p.seq
WHERE d.status = 5 AND ${workerIsAlive(t, workerId)}`),
    remove,
  ])
  return activated?.affected ?? 0
}
