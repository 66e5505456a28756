/** Settlements that leave the row where it is: retry, dead and released, with the history of failed attempts. */
import type { AttemptFailure } from '../../../core/model/index.ts'
import type { Settlement, SettleRequest } from '../../../core/spi/index.ts'
import { failureText, retryDelay } from '../../sql/failures.ts'
import type { SqlStatement } from '../../sql/sql-executor.ts'
import type { PostgresTables } from '../tables.ts'
import { noteKeys } from './hold.ts'
import { idList, MS, NOW, sqlText, textList } from './sql-text.ts'

const MAX_TEXT_CHARS = 4_000

const KIND = { retry: 2, dead: 3, released: -1 } as const

const RECORD =
  'id uuid, lane boolean, named text, kind int, spent int, delay float8, holds boolean, parked boolean, attempt int, took int, code text, message text, stack text'

/**
 * `kind` is the new status, or -1 for a release. Attempts only grow. Under a live hot claim a row was to be had
 * since it was stored. What was put aside dead may have kept others waiting before; whether it did is found out
 * by promoting.
 *
 * Attempts are numbered, so those that are too old are known by their number; one that is written twice is one.
 */
const CHANGE = sqlText(
  (t) => `WITH me AS MATERIALIZED (
  SELECT id FROM ${t.workers} WHERE id = ANY($2::text[]) AND NOT fenced ORDER BY id FOR KEY SHARE
), j AS MATERIALIZED (SELECT * FROM json_to_recordset($1::json) AS j(${RECORD})), changed AS (
  UPDATE ${t.deliveries} AS d SET
    status = CASE j.kind WHEN -1 THEN d.status ELSE j.kind END,
    attempts = CASE j.kind WHEN -1 THEN d.attempts ELSE greatest(d.attempts, j.spent) END,
    available_at = CASE j.kind WHEN 2 THEN ${NOW} + j.delay * ${MS}
      WHEN -1 THEN CASE WHEN d.available_at > ${NOW} THEN d.created_at ELSE d.available_at END ELSE d.available_at END,
    holds_key = CASE j.kind WHEN -1 THEN d.holds_key WHEN 2 THEN d.key IS NOT NULL ELSE j.holds AND d.key IS NOT NULL END,
    parked = j.kind = 3 AND j.parked AND d.key IS NOT NULL, token = NULL, settled_by = j.named, settled_at = ${NOW}
  FROM j
  WHERE d.id = ANY($3::uuid[]) AND d.id = j.id AND d.status <> 3
    AND CASE WHEN j.lane THEN j.named IN (SELECT id FROM me) ELSE d.token = j.named END
  RETURNING d.id, d.destination, d.key, j.kind = 3 AND NOT j.holds AND d.key IS NOT NULL AS put_aside,
    j.attempt, j.took, j.code, j.message, j.stack
), kept AS (
  INSERT INTO ${t.attempts} (delivery_id, attempt, at, worker, duration_ms, code, message, stack)
  SELECT id, attempt, ${NOW}, $4, took, code, message, stack FROM changed WHERE attempt IS NOT NULL
  ON CONFLICT (delivery_id, attempt) DO UPDATE SET at = excluded.at, worker = excluded.worker,
    duration_ms = excluded.duration_ms, code = excluded.code, message = excluded.message, stack = excluded.stack
), forgotten AS (
  DELETE FROM ${t.attempts} AS a USING changed AS c
  WHERE a.delivery_id = c.id AND c.attempt > $5::int AND a.attempt <= c.attempt - $5::int
)
${noteKeys('changed WHERE put_aside')}`,
)

const failureOf = ({ outcome }: Settlement): AttemptFailure | null =>
  outcome.kind === 'retry' || outcome.kind === 'dead' ? outcome.failure : null

const cut = (text: string | null): string | null => failureText(text, MAX_TEXT_CHARS)

const recordOf = (settlement: Settlement): object => {
  const { delivery, outcome, attempts, deadHoldsKey, deadParked } = settlement
  const failure = failureOf(settlement)
  return {
    id: delivery.id,
    lane: delivery.right.kind === 'lane',
    named: delivery.right.kind === 'lane' ? delivery.right.workerId : delivery.right.token,
    kind: outcome.kind === 'done' ? null : KIND[outcome.kind],
    spent: attempts,
    delay: outcome.kind === 'retry' ? retryDelay(outcome.delayMs) : 0,
    holds: deadHoldsKey,
    parked: deadParked,
    attempt: failure?.attempt ?? null,
    took: failure === null ? null : Math.round(failure.durationMs),
    code: cut(failure?.code ?? null),
    message: cut(failure?.message ?? null),
    stack: cut(failure?.stack ?? null),
  }
}

export const changeStatement = (
  t: PostgresTables,
  changes: readonly Settlement[],
  workers: readonly string[],
  { workerName, historyLimit }: SettleRequest,
): SqlStatement => ({
  sql: CHANGE(t),
  params: [
    JSON.stringify(changes.map(recordOf)),
    textList(workers),
    idList(changes.map(({ delivery }) => delivery.id)),
    workerName,
    historyLimit,
  ],
})
