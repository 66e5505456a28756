/** Failed attempts, bounded per delivery. An attempt that is written twice is one attempt. */
import { type AttemptFailure, uuidToHex } from '../../../core/model/index.ts'
import type { Settlement, SettleRequest } from '../../../core/spi/index.ts'
import { failureText } from '../../sql/failures.ts'
import type { Tables } from '../../sql/identifiers.ts'
import type { SqlStatement } from '../../sql/sql-executor.ts'
import { jsonTable, NOW, one, TEXT } from './sql-text.ts'

const MAX_TEXT_CHARS = 4_000

const MAX_CODE_CHARS = 255

export const failureOf = ({ outcome }: Settlement): AttemptFailure | null =>
  outcome.kind === 'retry' || outcome.kind === 'dead' ? outcome.failure : null

/**
 * Kept only for rows that this very settle has changed, which `changed` tells: a condition on `d`, the row, and
 * `j.named`, the right.
 */
export const historyStatements = (
  t: Tables,
  changes: readonly Settlement[],
  { historyLimit, workerName }: SettleRequest,
  named: (settlement: Settlement) => string,
  changed: string,
): readonly SqlStatement[] => {
  const failures = changes.flatMap((settlement) => {
    const failure = failureOf(settlement)
    return failure === null ? [] : [{ settlement, failure, id: uuidToHex(settlement.delivery.id) }]
  })
  if (failures.length === 0) return []
  const rows = failures.map(({ settlement, failure, id }) => [
    id,
    named(settlement),
    failure.attempt,
    Math.round(failure.durationMs),
    failureText(failure.code, MAX_CODE_CHARS),
    failureText(failure.message, MAX_TEXT_CHARS),
    failureText(failure.stack, MAX_TEXT_CHARS),
  ])
  const source = jsonTable(rows, [
    'id CHAR(32)',
    `named ${TEXT(64)}`,
    'attempt INT',
    'duration_ms BIGINT',
    `code ${TEXT(MAX_CODE_CHARS)}`,
    `message ${TEXT(MAX_TEXT_CHARS)}`,
    `stack ${TEXT(MAX_TEXT_CHARS)}`,
  ])
  const keep = one(
    `INSERT INTO ${t.attempts} (delivery_id, attempt, at, worker, duration_ms, code, message, stack)
SELECT d.id, j.attempt, ${NOW}, ?, j.duration_ms, j.code, j.message, j.stack
FROM ${source} STRAIGHT_JOIN ${t.deliveries} AS d ON d.id = UNHEX(j.id) WHERE ${changed}
ON DUPLICATE KEY UPDATE at = VALUES(at), worker = VALUES(worker), duration_ms = VALUES(duration_ms),
  code = VALUES(code), message = VALUES(message), stack = VALUES(stack)`,
    [workerName],
  )
  // Attempts are numbered from one, so only these can have more than the limit.
  const long = failures.filter(({ failure }) => failure.attempt > historyLimit)
  if (long.length === 0) return [keep]
  const old = long.map(
    ({ id, failure }) => `(delivery_id = X'${id}' AND attempt <= ${Number(failure.attempt - historyLimit)})`,
  )
  return [keep, one(`DELETE FROM ${t.attempts} WHERE ${old.join(' OR ')}`)]
}
