/**
 * Several statements as one text, so that they are one round trip and never wait for us in between: a process
 * that is suspended halfway must not keep its worker row locked. Values are written into the text; the store's
 * own sessions have a fixed sql_mode, in which a backslash escapes.
 */
import { Buffer } from 'node:buffer'
import type { SqlStatement, SqlValue } from '../sql/sql-executor.ts'

const ESCAPES: Readonly<Record<string, string>> = { '\0': '\\0', '\\': '\\\\', "'": "''", '\x1a': '\\Z' }

export const literal = (value: SqlValue): string => {
  if (value === null) return 'NULL'
  if (value instanceof Uint8Array) return `X'${Buffer.from(value).toString('hex')}'`
  if (typeof value === 'bigint') return String(value)
  if (typeof value === 'number') {
    if (!Number.isFinite(value)) throw new TypeError(`${value} cannot be stored`)
    return String(value)
  }
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are the characters that have to be escaped
  return `'${value.replace(/[\0\\'\x1a]/g, (character) => ESCAPES[character] as string)}'`
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: these are the characters whose meaning depends on the session
const DEPENDS = /[\0\\\x1a]/

// biome-ignore lint/suspicious/noControlCharactersInRegex: what every character set carries
const ASCII = /^[\x00-\x7f]*$/

/** Longer texts are worth the trust in what the driver says of the character set. Payloads are checked by their size. */
const MAX_DIGITS_CHARS = 4_096

/**
 * For sessions of the application, of whose settings nobody knows: a backslash escapes in one sql_mode and is itself in
 * another, and what the connection's character set cannot carry would arrive as something else, even as a quote. So
 * such texts travel as digits. All are said to be utf8mb4, or the server would not take both kinds for the same.
 */
export const portableLiteral =
  (carriesUnicode: boolean) =>
  (value: SqlValue): string => {
    if (typeof value !== 'string') return literal(value)
    const isCarried = ASCII.test(value) || (carriesUnicode && value.length > MAX_DIGITS_CHARS)
    if (isCarried && !DEPENDS.test(value)) return `_utf8mb4'${value.replaceAll("'", "''")}'`
    return `_utf8mb4 X'${Buffer.from(value).toString('hex')}'`
  }

/** A text in quotes, which may hold a question mark, or a place for a value. */
const PLACE = /'(?:[^'\\]|\\[\s\S]|'')*'|\?/g

export const textOf = ({ sql, params }: SqlStatement, write = literal): string => {
  if (params.length === 0) return sql
  let next = 0
  const text = sql.replace(PLACE, (found) => {
    if (found !== '?') return found
    const value = params[next++]
    if (value === undefined) throw new RangeError('the statement has more places than values')
    return write(value)
  })
  if (next !== params.length) throw new RangeError(`the statement has ${next} places, not ${params.length}`)
  return text
}
