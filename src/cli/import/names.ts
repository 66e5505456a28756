/** Names in SQL text that somebody typed: taken apart, refused when odd, and quoted nevertheless. */
import type { DatabaseKind } from './shapes.ts'

/** What could leave its quotes in one of the databases, or be taken for a place of a value, has no business in a name. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is refused.
const ODD = /[\u0000-\u001f\u007f"'`\\?]/
const LONGEST = 128

/** Null when it cannot be one. */
export const checkedName = (text: string): string | null =>
  text === '' || text.length > LONGEST || ODD.test(text) ? null : text

/** `table`, `schema.table`, or with quotes around names that have a dot in them. */
export const splitTable = (text: string): readonly string[] | null => {
  const parts = [...text.matchAll(/(?:^|\.)(?:"([^"]*)"|([^".]*))/g)].map(
    ([, quoted, plain]) => quoted ?? plain ?? '',
  )
  const again = parts.map((part) => (part.includes('.') ? `"${part}"` : part)).join('.')
  const isWhole = again === text || parts.map((part) => `"${part}"`).join('.') === text
  if (!isWhole || parts.length > 2 || parts.some((part) => checkedName(part) === null)) return null
  return parts
}

export const quoted = (kind: DatabaseKind, name: string): string =>
  kind === 'mysql' ? `\`${name}\`` : `"${name}"`
