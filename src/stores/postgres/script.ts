/**
 * Several statements as one text, so that they are one round trip and one transaction that never waits for us:
 * a process that is suspended halfway must not keep its worker row locked. Only the simple protocol takes more
 * than one statement, and it takes no parameters, so values are written into the text.
 */
import { Buffer } from 'node:buffer'
import type { SqlStatement, SqlValue } from '../sql/sql-executor.ts'

/** Quoted like a parameter without a type: what it is follows from the cast behind it. */
const literal = (value: SqlValue): string => {
  if (value === null) return 'NULL'
  if (value instanceof Uint8Array) return `'\\x${Buffer.from(value).toString('hex')}'`
  const text = String(value)
  if (text.includes('\0')) throw new TypeError('a text with a zero byte cannot be stored')
  const quoted = `'${text.replaceAll("'", "''")}'`
  // E'' means the same under every setting of standard_conforming_strings.
  return text.includes('\\') ? ` E${quoted.replaceAll('\\', '\\\\')}` : quoted
}

const filled = ({ sql, params }: SqlStatement): string =>
  sql.replace(/\$(\d+)/g, (_, number: string) => {
    const value = params[Number(number) - 1]
    if (value === undefined) throw new RangeError(`the statement has no parameter ${number}`)
    return literal(value)
  })

export const scriptOf = (statements: readonly SqlStatement[]): string => statements.map(filled).join(';\n')
