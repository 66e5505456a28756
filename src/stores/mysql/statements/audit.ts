/** Who did what to which deliveries, and why. Every operation writes one row in its own transaction. */
import type { AuditEntry, OperatorAct } from '../../../core/spi/index.ts'
import type { Tables } from '../../sql/identifiers.ts'
import type { MysqlDatabase, Session } from '../database.ts'
import { asMs, asNumber, asText, asTextOrNull, NOW } from './sql-text.ts'

export const writeAudit = async (
  c: Session,
  t: Tables,
  action: string,
  target: object,
  count: number,
  { actor, reason }: OperatorAct,
): Promise<void> => {
  await c.write(
    `INSERT INTO ${t.audit} (at, actor, action, reason, target, count) VALUES (${NOW}, ?, ?, ?, ?, ?)`,
    [actor, action, reason, JSON.stringify(target), count],
  )
}

/** Newest first. */
export const readAudit = async (
  db: MysqlDatabase,
  t: Tables,
  limit: number,
): Promise<readonly AuditEntry[]> => {
  const rows = await db.rows(
    `SELECT at, actor, action, reason, target, count FROM ${t.audit} ORDER BY id DESC LIMIT ?`,
    [limit],
  )
  return rows.map(([at, actor, action, reason, target, count]) => ({
    atMs: asMs(at),
    actor: asText(actor),
    action: asText(action),
    reason: asTextOrNull(reason),
    target: asText(target),
    count: asNumber(count),
  }))
}
