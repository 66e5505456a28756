/** Who did what to which deliveries, and why. Every operation writes one row in its own transaction. */
import type { AuditEntry, OperatorAct } from '../../../core/spi/index.ts'
import type { Tables } from '../../sql/identifiers.ts'
import type { SqliteConnection } from '../connection.ts'
import { asNumber, asText, asTextOrNull, NOW, sqlText } from './sql-text.ts'

const WRITE = sqlText(
  (t) => `INSERT INTO ${t.audit} (at, actor, action, reason, target, count) VALUES (${NOW}, ?, ?, ?, ?, ?)`,
)

const READ = sqlText(
  (t) => `SELECT at, actor, action, reason, target, count FROM ${t.audit} ORDER BY id DESC LIMIT ?`,
)

export const writeAudit = (
  c: SqliteConnection,
  t: Tables,
  action: string,
  target: object,
  count: number,
  { actor, reason }: OperatorAct,
): void => {
  c.rows(WRITE(t), [actor, action, reason, JSON.stringify(target), count])
}

/** Newest first. */
export const readAudit = (c: SqliteConnection, t: Tables, limit: number): readonly AuditEntry[] =>
  c.rows(READ(t), [limit]).map(([at, actor, action, reason, target, count]) => ({
    atMs: asNumber(at),
    actor: asText(actor),
    action: asText(action),
    reason: asTextOrNull(reason),
    target: asText(target),
    count: asNumber(count),
  }))
