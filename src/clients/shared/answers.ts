/** What libraries hand back for a statement, as the stores understand it. */
import { Buffer } from 'node:buffer'
import { type MysqlHeader, saysInTransaction } from '../../stores/mysql/driver.ts'
import type { SqlRow, SqlValue } from '../../stores/sql/sql-executor.ts'
import { notInTransaction } from '../../stores/sql/transaction-scope.ts'

export type Answer = readonly SqlRow[] | undefined

const isRow = (value: unknown): value is SqlRow => typeof value === 'object' && value !== null

/**
 * Rows as they are; of what MySQL says about a statement without rows, how many it wrote. That also says whether
 * there is a transaction, which nobody can ask beforehand.
 */
export const answerOf = (result: unknown): Answer => {
  if (Array.isArray(result)) return result.every(isRow) ? result : undefined
  const { affectedRows, serverStatus } = (isRow(result) ? result : {}) as Partial<MysqlHeader>
  if (typeof affectedRows !== 'number') return undefined
  if (typeof serverStatus === 'number' && !saysInTransaction({ affectedRows, serverStatus })) {
    throw notInTransaction('The connection')
  }
  return [{ affectedRows }]
}

/** Drivers know bytes as Buffer only; some would take a plain Uint8Array apart. */
export const boundValues = (params: readonly SqlValue[]): SqlValue[] =>
  params.map((value) =>
    value instanceof Uint8Array && !Buffer.isBuffer(value)
      ? Buffer.from(value.buffer, value.byteOffset, value.byteLength)
      : value,
  )

export interface BoundText {
  readonly sql: string
  readonly params: readonly SqlValue[]
}

/**
 * For libraries that count question marks whatever the database: `$2 … $1 … $2` becomes `? … ? … ?`, each with its
 * value. Texts of the stores have a dollar sign or a question mark for nothing else.
 */
export const withQuestionMarks = (sql: string, params: readonly SqlValue[]): BoundText => {
  if (!/\$\d/.test(sql)) return { sql, params }
  const bound: SqlValue[] = []
  const text = sql.replace(/\$(\d+)/g, (_, place: string) => {
    bound.push(params[Number(place) - 1] ?? null)
    return '?'
  })
  return { sql: text, params: bound }
}
