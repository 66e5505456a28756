/** What all statements share: the clock, the text of a statement per set of tables, lists, and decoding of columns. */
import { Buffer } from 'node:buffer'
import type { PostgresTables } from '../tables.ts'

/**
 * The database's clock. A subquery, because then it is one value per statement and an index can be searched
 * with it; the function itself would be called for every row.
 */
export const NOW = '(SELECT clock_timestamp())'

export const MS = "interval '1 millisecond'"

/** A time as milliseconds since 1970. With `date_part`, because `extract` calculates in decimals, which is slow. */
export const asMs = (time: string): string => `(date_part('epoch', ${time}) * 1000)::bigint`

/** Milliseconds since 1970 as a time. */
export const fromMs = (ms: string): string => `(timestamptz 'epoch' + ${ms}::float8 * ${MS})`

/** How long from `from` to `to`, rounded up: whoever waits so long does not come too early. */
export const msBetween = (from: string, to: string): string =>
  `ceil(extract(epoch FROM (${to}) - (${from})) * 1000)::bigint`

/** Texts are built once per set of tables, so that preparing finds the very same string again. */
export const sqlText = (build: (tables: PostgresTables) => string): ((tables: PostgresTables) => string) => {
  const built = new WeakMap<PostgresTables, string>()
  return (tables) => {
    const known = built.get(tables)
    if (known !== undefined) return known
    const text = build(tables)
    built.set(tables, text)
    return text
  }
}

/** What is not pending, as the index of such rows has it; `d` is the delivery. */
export const ASIDE = 'd.status + 0 > 0'

/**
 * Pending, of a row that is looked up by its id. Written so that the indexes of pending rows do not offer
 * themselves: while there are few of those the planner would take them for as good as the primary key.
 */
export const PENDING = 'd.status + 0 = 0'

/**
 * Of a pending row: nobody has it under a hot claim. Without one it may go whatever its time says, because a clock
 * that was set back would hide it, and a row that came after it would overtake it. A suspect's token is no claim.
 */
export const unclaimed = (now: string): string =>
  `(token IS NULL OR suspicions > 0 OR available_at <= ${now})`

/**
 * The event of a row, for `CROSS JOIN` or `LEFT JOIN … ON true`. The limit keeps the lookup by id: from statistics
 * that were taken while a large transaction was filling the table the planner expects next to nothing in it, and a
 * plain join would then go through the whole index for every row.
 */
export const eventOf = (tables: PostgresTables, id: string): string =>
  `LATERAL (SELECT * FROM ${tables.events} WHERE id = ${id} LIMIT 1) AS e`

/**
 * Whether there is such a row of `from`. An order that only the right index has is asked for, because a queue is
 * empty most of the time: from statistics of that moment the planner expects one row whichever index it goes through.
 */
export const existsBy = (order: string, from: string): string =>
  `((SELECT 1 FROM ${from} ORDER BY ${order} LIMIT 1) IS NOT NULL)`

/**
 * Rows of one key that hold it, as the index of holders has them; `on` is the table's alias, `row` the one before
 * which they are looked for. The planner is not told which state it is, or indexes of that state would offer themselves.
 */
export const holders = (
  on: string,
  row: string,
  status: number,
  destination = `${row}.destination`,
): string =>
  `${on}.destination = ${destination} AND ${on}.key = ${row}.key AND ${on}.holds_key AND ${on}.status = (SELECT ${status}::smallint)`

/** A column of a row that is looked up by its id, so that no index on the column offers itself: see `existsBy`. */
export const unindexed = (column: string): string => `${column} || ''`

/** A list of ids for `= ANY($n::uuid[])`, sorted, so that concurrent statements lock rows in the same order. */
export const idList = (ids: readonly string[]): string => `{${[...ids].sort().join(',')}}`

/** A list of texts for `$n::text[]`. */
export const textList = (texts: readonly string[]): string =>
  `{${texts.map((text) => `"${text.replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`).join(',')}}`

/**
 * The worker's row, locked against being fenced until the statement's transaction ends. KEY SHARE is enough,
 * because fencing takes the row FOR UPDATE; and it lets the worker renew its lease while it settles.
 */
export const aliveWorker = (tables: PostgresTables, param: string): string =>
  `SELECT id FROM ${tables.workers} WHERE id = ${param} AND NOT fenced FOR KEY SHARE`

export const asNumber = (value: unknown): number => Number(value)

export const asText = (value: unknown): string => String(value)

export const asTextOrNull = (value: unknown): string | null => (value === null ? null : String(value))

export const asNumberOrNull = (value: unknown): number | null => (value === null ? null : Number(value))

export const asBigInt = (value: unknown): bigint => BigInt(String(value))

export const isTrue = (value: unknown): boolean => value === 't'

/** Asked for as digits: how a server writes bytes by itself is a setting of its. */
export const asBytes = (value: unknown): Uint8Array => Buffer.from(asText(value), 'hex')
