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

/** A text in quotes, which may hold a question mark, or a place for a value. */
const PLACE = /'(?:[^'\\]|\\[\s\S]|'')*'|\?/g

export const textOf = ({ sql, params }: SqlStatement): string => {
  if (params.length === 0) return sql
  let next = 0
  const text = sql.replace(PLACE, (found) => {
    if (found !== '?') return found
    const value = params[next++]
    if (value === undefined) throw new RangeError('the statement has more places than values')
    return literal(value)
  })
  if (next !== params.length) throw new RangeError(`the statement has ${next} places, not ${params.length}`)
  return text
}
