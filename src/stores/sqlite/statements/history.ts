/** Failed attempts, bounded per delivery. An attempt that is written twice is one attempt. */

import { type AttemptFailure, uuidToHex } from '../../../core/model/index.ts'
import type { Settlement, SettleRequest } from '../../../core/spi/index.ts'
import { failureText } from '../../sql/failures.ts'
import type { Tables } from '../../sql/identifiers.ts'
import type { SqliteConnection } from '../connection.ts'
import { idList, NOW, sqlText } from './sql-text.ts'

const MAX_TEXT_CHARS = 4_000

const KEEP = sqlText(
  (t) => `INSERT INTO ${t.attempts} (delivery_id, attempt, at, worker, duration_ms, code, message, stack)
SELECT unhex(value->>0), value->>1, ${NOW}, ?, value->>2, value->>3, value->>4, value->>5 FROM json_each(?) WHERE true
ON CONFLICT (delivery_id, attempt) DO UPDATE SET at = excluded.at, worker = excluded.worker, duration_ms = excluded.duration_ms,
  code = excluded.code, message = excluded.message, stack = excluded.stack`,
)

const TRIM = sqlText(
  (t) => `DELETE FROM ${t.attempts} WHERE rowid IN (
  SELECT a.rowid FROM json_each(?) AS j CROSS JOIN ${t.attempts} AS a ON a.delivery_id = unhex(j.value)
  WHERE a.attempt <= (SELECT b.attempt FROM ${t.attempts} AS b WHERE b.delivery_id = a.delivery_id ORDER BY b.attempt DESC LIMIT 1 OFFSET ?))`,
)

const failureOf = ({ outcome }: Settlement): AttemptFailure | null =>
  outcome.kind === 'retry' || outcome.kind === 'dead' ? outcome.failure : null

const cut = (text: string | null): string | null => failureText(text, MAX_TEXT_CHARS)

export const keepHistory = (
  c: SqliteConnection,
  t: Tables,
  settled: readonly Settlement[],
  { historyLimit, workerName }: SettleRequest,
): void => {
  const failures = settled.flatMap((settlement) => {
    const failure = failureOf(settlement)
    return failure === null ? [] : [{ id: settlement.delivery.id, failure }]
  })
  if (failures.length === 0) return
  const list = failures.map(({ id, failure }) => [
    uuidToHex(id),
    failure.attempt,
    Math.round(failure.durationMs),
    cut(failure.code),
    cut(failure.message),
    cut(failure.stack),
  ])
  c.rows(KEEP(t), [workerName, JSON.stringify(list)])
  // Attempts are numbered from one, so only these can have more than the limit.
  const long = failures.filter(({ failure }) => failure.attempt > historyLimit).map(({ id }) => id)
  if (long.length > 0) c.rows(TRIM(t), [idList(long), historyLimit])
}
