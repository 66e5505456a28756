/** What all statements share: the clock, the text of a statement per set of tables, and decoding of columns. */
import { uuidFromBytes, uuidToHex } from '../../../core/model/index.ts'
import type { Tables } from '../../sql/identifiers.ts'

/** The database's clock in milliseconds; one value within a statement. */
export const NOW = "CAST(unixepoch('subsec') * 1000 AS INTEGER)"

/**
 * Of a pending row: nobody has it under a hot claim. Without one it may go whatever its time says, because a clock
 * that was set back would hide it, and a row that came after it would overtake it. A suspect's token is no claim.
 */
export const UNCLAIMED = `(token IS NULL OR suspicions > 0 OR available_at <= ${NOW})`

/** Texts are built once per prefix, so that preparing finds the very same string again. */
export const sqlText = (build: (tables: Tables) => string): ((tables: Tables) => string) => {
  const built = new WeakMap<Tables, string>()
  return (tables) => {
    const known = built.get(tables)
    if (known !== undefined) return known
    const text = build(tables)
    built.set(tables, text)
    return text
  }
}

/** Lists travel as one JSON parameter, whatever their length: one text, one prepared statement. */
export const idList = (ids: readonly string[]): string => JSON.stringify(ids.map(uuidToHex))

/** `id IN (…)` over such a list. */
export const IDS = '(SELECT unhex(value) FROM json_each(?))'

/** The worker's row is there and nobody fenced it; binds one worker id. */
export const workerIsAlive = (tables: Tables): string =>
  `EXISTS (SELECT 1 FROM ${tables.workers} WHERE id = ? AND fenced = 0)`

export const asNumber = (value: unknown): number => Number(value)

export const asText = (value: unknown): string => String(value)

export const asTextOrNull = (value: unknown): string | null => (value === null ? null : String(value))

export const asBigInt = (value: unknown): bigint =>
  typeof value === 'bigint' ? value : BigInt(value as number)

export const asId = (value: unknown): string => uuidFromBytes(value as Uint8Array)
