/** What the clients of Kysely and of MikroORM, which is built on it, have in common. */
import type { SqlRow } from '../../stores/sql/sql-executor.ts'
import type { Answer } from './answers.ts'

export interface KyselyResult {
  readonly rows: readonly SqlRow[]
  readonly numAffectedRows?: bigint | number | undefined
}

export interface KyselyExecutor {
  readonly adapter: { readonly supportsReturning: boolean }
  provideConnection<T>(consumer: (connection: object) => Promise<T>): Promise<T>
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
