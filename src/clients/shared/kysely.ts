/** What the clients of Kysely and of MikroORM, which is built on it, have in common. */
import type { SqlRow } from '../../stores/sql/sql-executor.ts'
import { transactionOver } from '../../stores/sql/transaction-scope.ts'
import type { Answer } from './answers.ts'

export interface KyselyResult {
  readonly rows: readonly SqlRow[]
  readonly numAffectedRows?: bigint | number | undefined
}

export interface KyselyConnection {
  executeQuery(query: object): Promise<KyselyResult>
}

export interface KyselyExecutor {
  provideConnection<T>(consumer: (connection: KyselyConnection) => Promise<T>): Promise<T>
}

/** What statements of a connection go through. */
export const SENDING = ['executeQuery', 'streamQuery'] as const

/** A compiled query, as Kysely itself makes one of plain SQL. */
export const queryOf = (sql: string, parameters: readonly unknown[]): object => ({
  sql,
  parameters,
  query: { kind: 'RawNode', sqlFragments: [sql], parameters: [] },
  queryId: { queryId: 'posthaste' },
})

export const answerOfKysely = ({ rows, numAffectedRows }: KyselyResult): Answer =>
  rows.length > 0 || numAffectedRows === undefined ? rows : [{ affectedRows: Number(numAffectedRows) }]

const ENDS = /^\s*(?:commit|rollback)\s*;?\s*$/i

/** How many transactions have ended on each connection. */
const endings = new WeakMap<KyselyConnection, { count: number }>()

const endingsOf = (connection: KyselyConnection): { count: number } => {
  const known = endings.get(connection)
  if (known !== undefined) return known
  const ended = { count: 0 }
  endings.set(connection, ended)
  const execute = connection.executeQuery
  connection.executeQuery = (query) => {
    if (ENDS.test(String((query as { readonly sql?: unknown }).sql))) ended.count++
    return execute.call(connection, query)
  }
  return ended
}

/**
 * Kysely keeps the statements of a transaction waiting for each other, but not its rollback, which overtakes them. So ours
 * go straight to the connection, as long as the transaction is that of now.
 */
export const directlyTo = (
  connection: KyselyConnection,
): ((sql: string, params: readonly unknown[]) => Promise<Answer>) => {
  const ended = endingsOf(connection)
  const before = ended.count
  return async (sql, params) => {
    if (ended.count !== before) throw transactionOver()
    return answerOfKysely(await connection.executeQuery(queryOf(sql, params)))
  }
}
