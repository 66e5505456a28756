/**
 * Which failures are the same: those whose messages differ only in what changes from case to case, such as ids, numbers,
 * times and quoted values. Pure, and linear in the length of the message, which is bounded where it is stored.
 */

/** In this order. An apostrophe within a word begins no value. */
const VARYING: readonly (readonly [RegExp, string])[] = [
  [/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/gi, '<id>'],
  [/"[^"]*"|(?<!\p{L})'[^']*'|`[^`]*`/gu, '<value>'],
  [/\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.,\dZ+-]*/g, '<time>'],
  [/\b(?=[0-9a-f]*\d)(?=[0-9]*[a-f])[0-9a-f]{12,}\b/gi, '<id>'],
  [/\d+(?:\.\d+)*/g, '<n>'],
]

/** Messages are compared by so much of them. */
const MOST_CHARS = 500

/** The message with what varies taken out, for people and for comparison. */
export const normaliseMessage = (message: string): string =>
  VARYING.reduce(
    (text, [pattern, place]) => text.replace(pattern, place),
    message.slice(0, MOST_CHARS).replace(/\s+/g, ' ').trim(),
  )

/** FNV-1a over UTF-16 in two halves: short, the same everywhere, and not meant to keep secrets. */
export const fingerprintOf = (...texts: readonly string[]): string => {
  let [a, b] = [0x811c9dc5, 0x01000193]
  for (const char of texts.join('\u0000')) {
    const code = char.codePointAt(0) ?? 0
    a = Math.imul(a ^ code, 0x01000193)
    b = Math.imul(b ^ code, 0x85ebca6b)
  }
  return [a, b].map((half) => (half >>> 0).toString(16).padStart(8, '0')).join('')
}
