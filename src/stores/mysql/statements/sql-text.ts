/** What all statements share: the clock, lists of ids, the worker's lock, and decoding of columns. */
import { uuidFromBytes, uuidToHex } from '../../../core/model/index.ts'
import type { Tables } from '../../sql/identifiers.ts'
import type { SqlStatement, SqlValue } from '../../sql/sql-executor.ts'
import { literal } from '../script.ts'

/**
 * The database's clock in UTC, whatever the session's time zone. It is the statement's beginning: a lease that is
 * counted from there ends too early after a wait, never too late. SYSDATE would read the clock anew for every row,
 * and no index can be used for what is compared with it.
 */
export const NOW = 'UTC_TIMESTAMP(6)'

/**
 * Of a pending row: nobody has it under a hot claim. Without one it may go whatever its time says, because a clock
 * that was set back would hide it, and a row that came after it would overtake it. A suspect's token is no claim.
 */
export const UNCLAIMED = `(token IS NULL OR suspicions > 0 OR available_at <= ${NOW})`

/** A time so many ms from `from`; `ms` is a number of ours or a place for one. */
export const later = (from: string, ms: number | '?'): string =>
  `${from} + INTERVAL (${ms} * 1000) MICROSECOND`

export const earlier = (from: string, ms: number | '?'): string =>
  `${from} - INTERVAL (${ms} * 1000) MICROSECOND`

/** Milliseconds from one time to another, negative when it lies before. */
export const msBetween = (from: string, to: string): string =>
  `TIMESTAMPDIFF(MICROSECOND, ${from}, ${to}) DIV 1000`

export const one = (sql: string, params: readonly SqlValue[] = []): SqlStatement => ({ sql, params })

/** `key` is a reserved word. */
export const KEY = '`key`'

/** Sorted, so that everybody locks rows in the same order. Checked, because it becomes part of the text. */
export const idList = (ids: readonly string[]): string =>
  ids.length === 0
    ? 'NULL'
    : [...new Set(ids.map(uuidToHex))]
        .sort()
        .map((digits) => `X'${digits}'`)
        .join(',')

export const textList = (texts: readonly string[]): string =>
  texts.length === 0 ? 'NULL' : texts.map(literal).join(',')

/** Rows of one statement as JSON; columns are told by their place, which is the shortest way to say it. */
export const jsonTable = (rows: readonly (readonly unknown[])[], columns: readonly string[]): string => {
  const list = columns.map((column, place) => `${column} PATH '$[${place}]'`).join(', ')
  return `JSON_TABLE(${literal(JSON.stringify(rows))}, '$[*]' COLUMNS (${list})) AS j`
}

export const TEXT = (chars: number): string => `VARCHAR(${chars}) CHARACTER SET utf8mb4`

/** The worker's row is there and nobody fenced it. */
export const workerIsAlive = (t: Tables, workerId: string): string =>
  `EXISTS (SELECT 1 FROM ${t.workers} AS w WHERE w.id = ${literal(workerId)} AND w.fenced = 0)`

/**
 * For statements that lock rows: in a small table the server would rather read everything, and then it waits for rows
 * that somebody else has not committed. An update needs no more than this to go by its ids.
 */
export const BY_ID = 'FORCE INDEX (PRIMARY)'
export const BY_KEY = 'FORCE INDEX (by_key)'

/** Other statements would still read the whole index. They look each row up instead, in the order of the ids. */
export const rowsById = (table: string, ids: readonly string[], alias = 'd'): string => {
  const sorted = [...new Set(ids.map(uuidToHex))].sort().map((id) => [id])
  // A table of its own, because MySQL refuses to lock rows beside JSON.
  const wanted = `(SELECT UNHEX(j.id) AS id FROM ${jsonTable(sorted, ['id CHAR(32)'])} LIMIT ${sorted.length}) AS wanted`
  return `${wanted} STRAIGHT_JOIN ${table} AS ${alias} ON ${alias}.id = wanted.id`
}

/** Until the end of the transaction nobody fences the worker; who fences it waits for us. Answers with the live ones. */
export const lockWorkers = (t: Tables, workerIds: readonly string[]): SqlStatement =>
  one(
    `SELECT id FROM ${t.workers} WHERE id IN (${textList([...workerIds].sort())}) AND fenced = 0 LOCK IN SHARE MODE`,
  )

/** Nothing to add when all lanes are ours. */
export const inLanes = (lanes: readonly number[] | null, table = ''): string => {
  if (lanes === null) return ''
  if (lanes.some((lane) => !Number.isInteger(lane))) throw new RangeError('a lane is a whole number')
  return lanes.length === 0 ? ' AND FALSE' : ` AND ${table}lane IN (${lanes.join(',')})`
}

export const asNumber = (value: unknown): number => Number(value)

export const asText = (value: unknown): string => String(value)

export const asTextOrNull = (value: unknown): string | null => (value === null ? null : String(value))

export const asBigInt = (value: unknown): bigint => BigInt(value as string | number)

export const asId = (value: unknown): string => uuidFromBytes(value as Uint8Array)

/** `2026-01-02 03:04:05.678901`, in UTC. */
export const asMs = (value: unknown): number => Date.parse(`${String(value).replace(' ', 'T')}Z`)

/** The opposite: a text that the server takes for a time, without any time zone. */
export const timeText = (ms: number): string => new Date(ms).toISOString().slice(0, 23).replace('T', ' ')
