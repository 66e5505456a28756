/** Writes what was published into a table of the application's own, in the same transaction. */
import { setTimeout as pause } from 'node:timers/promises'
import type { MysqlHandle } from '../../src/stores/mysql/index.ts'
import type { PostgresHandle } from '../../src/stores/postgres/index.ts'
import type { SqliteHandle } from '../../src/stores/sqlite/index.ts'
import type { StoreKind } from '../crew/messages.ts'
import type { TruthLine } from '../logs.ts'
import { PREFIX, SCHEMA } from './stores.ts'

type Row = readonly [id: string, key: string | null, position: number, once: string | null, body: string]

/** True when it was written; false when an event with this idempotency key was there already. */
const writeRow = async (kind: StoreKind, tx: unknown, row: Row): Promise<boolean> => {
  const columns = '(id, event_key, position, once, body)'
  if (kind === 'postgres') {
    const sql = `INSERT INTO ${SCHEMA}.truth ${columns} VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING`
    return ((await (tx as PostgresHandle).query(sql, row)).rowCount ?? 0) > 0
  }
  if (kind === 'sqlite') {
    const sql = `INSERT OR IGNORE INTO ${PREFIX}truth ${columns} VALUES (?, ?, ?, ?, ?)`
    return Number((tx as SqliteHandle).prepare(sql).run(...row).changes) > 0
  }
  const sql = `INSERT IGNORE INTO ${PREFIX}truth ${columns} VALUES (?, ?, ?, ?, ?)`
  const [header] = await (tx as MysqlHandle).query(sql, row)
  return (header as { readonly affectedRows: number }).affectedRows > 0
}

/** A connection may fall silent; whoever waits for an answer to a statement of his own says himself for how long. */
const ANSWER_WITHIN_MS = 4_000

const answered = async <T>(work: Promise<T>): Promise<T> => {
  const timer = new AbortController()
  const late = pause(ANSWER_WITHIN_MS, null, { signal: timer.signal }).then(() => {
    throw new Error('the truth was not written in time')
  })
  // Whichever of the two loses, nobody hears it.
  work.catch(() => undefined)
  late.catch(() => undefined)
  try {
    return await Promise.race([work, late])
  } finally {
    timer.abort()
  }
}

/** The ids of what is new. */
export const writeTruth = async (
  kind: StoreKind,
  tx: unknown,
  lines: readonly TruthLine[],
  once: string | null,
): Promise<string[]> => {
  const written: string[] = []
  for (const { id, key, position, body } of lines) {
    const row: Row = [id, key, position, once, JSON.stringify(body)]
    if (await answered(writeRow(kind, tx, row))) written.push(id)
  }
  return written
}
