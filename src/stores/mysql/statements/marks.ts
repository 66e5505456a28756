/**
 * How a publish that is sent later than it was called knows that its place in the transaction still stands: it left a
 * row there, which a rollback, to a savepoint or altogether, takes back. The row lies among the idempotency keys, under
 * a type that no event has, and is removed with the publish; one that a commit left behind goes with the old keys.
 */
import { uuidToHex } from '../../../core/model/index.ts'
import type { Tables } from '../../sql/identifiers.ts'
import type { SqlStatement, SqlValue } from '../../sql/sql-executor.ts'
import type { InsertStep } from './insert-step.ts'
import { NOW, one } from './sql-text.ts'

const THIS = "type = '' AND idempotency_key = ?"

export interface Condition {
  readonly text: string
  readonly params: readonly SqlValue[]
}

export const markStands = (t: Tables, mark: string): Condition => ({
  text: `EXISTS (SELECT 1 FROM ${t.dedup} WHERE ${THIS})`,
  params: [mark],
})

/** Rows that are written only under conditions. */
export const rowsIf = (
  rows: readonly { readonly values: string; readonly conditions: readonly Condition[] }[],
): string =>
  rows
    .map(({ values, conditions }) => {
      if (conditions.length === 0) return `SELECT ${values}`
      return `SELECT ${values} FROM (SELECT 1) AS x WHERE ${conditions.map(({ text }) => text).join(' AND ')}`
    })
    .join('\nUNION ALL ')

export const markStep = (t: Tables, mark: string): InsertStep => ({
  ...one(
    `INSERT INTO ${t.dedup} (type, idempotency_key, event_id, claim, created_at) VALUES ('', ?, UNHEX(?), UNHEX(?), ${NOW})`,
    [mark, uuidToHex(mark), uuidToHex(mark)],
  ),
  events: 0,
  undo: one(`DELETE FROM ${t.dedup} WHERE ${THIS}`, [mark]),
})

/** One row while the mark stands. */
export const lookStatement = (t: Tables, mark: string): SqlStatement =>
  one(`SELECT 1 AS stands FROM ${t.dedup} WHERE ${THIS}`, [mark])
