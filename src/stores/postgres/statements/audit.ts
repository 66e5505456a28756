/** Who did what to which deliveries, and why. Every operation writes one row in its own transaction. */
import type { AuditEntry, OperatorAct } from '../../../core/spi/index.ts'
import type { SqlStatement } from '../../sql/sql-executor.ts'
import type { PostgresDatabase } from '../database.ts'
import type { PostgresTables } from '../tables.ts'
import { asMs, asNumber, asText, asTextOrNull, NOW, sqlText } from './sql-text.ts'

const WRITE = sqlText(
  (t) =>
    `INSERT INTO ${t.audit} (at, actor, action, reason, target, count) VALUES (${NOW}, $1, $2, $3, $4, $5::int)`,
)

const READ = sqlText(
  (t) =>
    `SELECT ${asMs('at')}, actor, action, reason, target, count FROM ${t.audit} ORDER BY id DESC LIMIT $1::int`,
)

export const auditStatement = (
  t: PostgresTables,
  action: string,
  target: object,
  count: number,
  { actor, reason }: OperatorAct,
): SqlStatement => ({ sql: WRITE(t), params: [actor, action, reason, JSON.stringify(target), count] })

/** Newest first. */
export const readAudit = async (
  db: PostgresDatabase,
  t: PostgresTables,
  limit: number,
): Promise<readonly AuditEntry[]> =>
  (await db.rows(READ(t), [limit])).map(([at, actor, action, reason, target, count]) => ({
    atMs: asNumber(at),
    actor: asText(actor),
    action: asText(action),
    reason: asTextOrNull(reason),
    target: asText(target),
    count: asNumber(count),
  }))
