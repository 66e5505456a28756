/**
 * How a publish that is sent later than it was called knows that its place in the transaction still stands: it left a
 * row there, which a rollback, to a savepoint or altogether, takes back. The row lies among the idempotency keys, under
 * a type that no event has, and is removed with the publish; one that a commit left behind goes with the old keys.
 */
import { uuidToHex } from '../../../core/model/index.ts'
import type { Tables } from '../../sql/identifiers.ts'
import type { SqlStatement } from '../../sql/sql-executor.ts'
import { NOW, sqlText } from './sql-text.ts'

const MARK = sqlText(
  (t) =>
    `INSERT INTO ${t.dedup} (type, idempotency_key, event_id, created_at) VALUES ('', ?, unhex(?), ${NOW})`,
)

const THIS = "WHERE type = '' AND idempotency_key = ?"

const LOOK = sqlText((t) => `SELECT 1 AS stands FROM ${t.dedup} ${THIS}`)

const UNMARK = sqlText((t) => `DELETE FROM ${t.dedup} ${THIS}`)

/** Binds the mark. */
export const markStands = (t: Tables): string => `EXISTS (${LOOK(t)})`

export const markStatement = (t: Tables, mark: string): SqlStatement => ({
  sql: MARK(t),
  params: [mark, uuidToHex(mark)],
})

/** One row while the mark stands. */
export const lookStatement = (t: Tables, mark: string): SqlStatement => ({ sql: LOOK(t), params: [mark] })

export const unmarkStatement = (t: Tables, mark: string): SqlStatement => ({ sql: UNMARK(t), params: [mark] })
