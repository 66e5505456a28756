/**
 * Numbers from the same sequence as those of events, so that they are new: events that nobody ever sees draw them,
 * and are gone before the transaction ends.
 */
import type { Tables } from '../../sql/identifiers.ts'
import type { SqlStatement } from '../../sql/sql-executor.ts'
import { idList, NOW, one, rowsById } from './sql-text.ts'

export interface Drawing {
  /** Of the event that draws it. */
  readonly eventId: string
  /** What the number is for; kept in `replaces_id`. */
  readonly forId: string
}

export interface Draw {
  readonly insert: SqlStatement
  /** Finds the events that drew, by their ids. */
  readonly drawn: string
  readonly remove: SqlStatement
}

/** In the order of the list. */
export const drawNumbers = (t: Tables, drawings: readonly Drawing[]): Draw => {
  const rows = drawings.map(
    ({ eventId, forId }) =>
      `(${idList([eventId])}, '', 0, ${NOW}, ${NOW}, 0, ${idList([forId])}, 1, '', '0')`,
  )
  const drawn = `id IN (${idList(drawings.map(({ eventId }) => eventId))})`
  return {
    insert:
      one(`INSERT INTO ${t.events} (id, type, version, occurred_at, created_at, routes_version, replaces_id, size, content_type, payload)
VALUES ${rows.join(', ')}`),
    drawn,
    remove: one(
      `DELETE d FROM ${rowsById(
        t.events,
        drawings.map(({ eventId }) => eventId),
      )}`,
    ),
  }
}
