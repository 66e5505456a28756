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

const OF_MARK = "type = '' AND idempotency_key = ?"

/** The mark as one of the idempotency keys of an insert. */
export const markKey = (
  mark: string,
): { readonly id: string; readonly type: string; readonly idempotencyKey: string } => ({
  id: mark,
  type: '',
  idempotencyKey: mark,
})

export interface Condition {
  readonly text: string
  readonly params: readonly SqlValue[]
}

const OF_EVENT = 'event '

/** Where an event is sure to be written, it proves as much as a mark. */
export const eventProof = (eventId: string): string => `${OF_EVENT}${eventId}`

/**
 * Only the row that must be there is looked for. What is read to write something is locked, and looking for a row that
 * is not there would lock out everybody who inserts one.
 */
export const stands = (t: Tables, proof: string): Condition =>
  proof.startsWith(OF_EVENT)
    ? {
        text: `EXISTS (SELECT 1 FROM ${t.events} WHERE id = UNHEX(?))`,
        params: [uuidToHex(proof.slice(OF_EVENT.length))],
      }
    : { text: `EXISTS (SELECT 1 FROM ${t.dedup} WHERE ${OF_MARK})`, params: [proof] }

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

export const unmarkStatement = (t: Tables, mark: string): SqlStatement =>
  one(`DELETE FROM ${t.dedup} WHERE ${OF_MARK}`, [mark])

export const markStep = (t: Tables, mark: string, behind: Condition | null): InsertStep => {
  const values = `'', ?, UNHEX(?), UNHEX(?), ${NOW}`
  const rows = rowsIf([{ values, conditions: behind === null ? [] : [behind] }])
  return {
    ...one(`INSERT INTO ${t.dedup} (type, idempotency_key, event_id, claim, created_at)\n${rows}`, [
      mark,
      uuidToHex(mark),
      uuidToHex(mark),
      ...(behind?.params ?? []),
    ]),
    events: 0,
    undo: unmarkStatement(t, mark),
  }
}

/** One row while the proof stands. */
export const lookStatement = (t: Tables, proof: string): SqlStatement => {
  const { text, params } = stands(t, proof)
  return one(`SELECT 1 AS stands FROM (SELECT 1) AS x WHERE ${text}`, params)
}
