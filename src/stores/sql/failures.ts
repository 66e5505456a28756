/** What failures say, and how long they wait, as any database can store it. */

/**
 * Cut without leaving half a character behind, which no database takes, and without what says nothing to anybody: a
 * text that could not be stored would keep its whole flush from being settled, again and again.
 */
export const failureText = (text: string | null, maxChars: number): string | null =>
  text === null
    ? null
    : text
        .slice(0, maxChars)
        .replaceAll('\0', '')
        .replace(/\p{Surrogate}/gu, '\ufffd')

/** A hundred years. Beyond that lies what some databases cannot hold as a time. */
const MAX_DELAY_MS = 3_155_760_000_000

/** A retry's delay in whole ms; what is no number at all means at once. */
export const retryDelay = (delayMs: number): number =>
  Number.isNaN(delayMs) ? 0 : Math.min(MAX_DELAY_MS, Math.max(0, Math.ceil(delayMs)))
