/** What the steps of an insert share. */
import { InvalidEventError } from '../../../core/errors.ts'
import type { Tables } from '../../sql/identifiers.ts'
import type { SqlStatement } from '../../sql/sql-executor.ts'
import { timeText } from './sql-text.ts'

export interface InsertStep extends SqlStatement {
  /** What it writes at most, where that tells about duplicates. */
  readonly events: number
  /** Run in reverse order when a later step fails. */
  readonly undo: SqlStatement
  /** Instead of `undo`, when there was no transaction and others may have written since. */
  readonly removal?: SqlStatement
}

/** What DATETIME takes. */
const FIRST_MS = Date.UTC(1000, 0, 1)
const LAST_MS = Date.UTC(9999, 11, 31, 23, 59, 59, 999)

export const checkedTime = (path: string, ms: number): string => {
  if (ms >= FIRST_MS && ms <= LAST_MS) return timeText(ms)
  throw new InvalidEventError(
    `${path} must lie between the years 1000 and 9999, which is what MySQL stores`,
    {
      path,
      reason: 'out-of-range',
    },
  )
}

/** Of an event with an idempotency key: it is the first, because the key carries our claim. */
export const isOurs = (t: Tables): string =>
  `EXISTS (SELECT 1 FROM ${t.dedup} AS k WHERE k.type = ? AND k.idempotency_key = ? AND k.claim = UNHEX(?))`
