/**
 * `posthaste/clients/kysely`: publish in transactions of Kysely, on PostgreSQL, MySQL, MariaDB and SQLite.
 *
 * Kysely hides what COMMIT answered and which statements failed, and a plugin sees answers only. A connection can be
 * watched, though, the way that Kysely's own logging does it.
 */
import type { Transactions } from '../core/spi/index.ts'
import type { SqlExecutor } from '../stores/sql/sql-executor.ts'
import { clientOf } from './shared/client.ts'
import { Doubts } from './shared/doubts.ts'

interface KyselyResult {
  readonly rows: readonly unknown[]
  readonly numAffectedRows?: bigint | undefined
}

interface KyselyConnection {
  executeQuery(query: never): Promise<KyselyResult>
}

/** A `Transaction` of Kysely, as far as it is used here. */
export interface KyselyTransaction {
  readonly isTransaction: true
}

/** A `Kysely` instance; `Tx` is the type of its transactions. */
export interface KyselyDatabase<Tx> {
  transaction(): { execute<T>(callback: (trx: Tx) => Promise<T>): Promise<T> }
}

/** What is there beyond the public types above. */
interface Handle {
  readonly isTransaction?: boolean
  withoutPlugins(): Handle
  executeQuery(query: object): Promise<KyselyResult>
  getExecutor(): {
    provideConnection<T>(consumer: (connection: KyselyConnection) => Promise<T>): Promise<T>
  }
}

const isHandle = (handle: object): handle is Handle =>
  typeof (handle as Partial<Handle>).executeQuery === 'function'

/** A compiled query, as Kysely itself makes one of plain SQL. */
const queryOf = (sql: string, parameters: readonly unknown[]): object => ({
  sql,
  parameters,
  query: { kind: 'RawNode', sqlFragments: [sql], parameters: [] },
  queryId: { queryId: 'posthaste' },
})

/** Tells of statements that fail; connections go from one transaction to the next. */
const connectionWatch = (doubts: Doubts): ((connection: KyselyConnection, tx: object) => void) => {
  const current = new WeakMap<KyselyConnection, object>()
  return (connection, tx) => {
    const isWatched = current.has(connection)
    current.set(connection, tx)
    if (isWatched) return
    const send = connection.executeQuery.bind(connection)
    connection.executeQuery = async (query) => {
      try {
        return await send(query)
      } catch (error) {
        doubts.raise(current.get(connection) ?? connection)
        throw error
      }
    }
  }
}

const saysEnded = (error: unknown): boolean =>
  error instanceof Error && /^Transaction is already (?:committed|rolled back)/.test(error.message)

/** Transactions of this Kysely instance; its plugins are left out of what the outbox sends. */
export const kyselyTransactions = <Tx extends KyselyTransaction>(
  db: KyselyDatabase<Tx>,
): Transactions<Tx, SqlExecutor> => {
  const doubts = new Doubts()
  const watch = connectionWatch(doubts)
  const handleOf = (tx: Tx): Handle => tx as unknown as Handle
  return clientOf<Tx>({
    name: 'kysely',
    doubts,
    saysEnded,
    run: (fn) =>
      db.transaction().execute(async (tx) => {
        await handleOf(tx)
          .getExecutor()
          .provideConnection(async (connection) => watch(connection, tx))
        return await fn(tx)
      }),
    async send(tx, sql, params) {
      const { rows, numAffectedRows } = await handleOf(tx).withoutPlugins().executeQuery(queryOf(sql, params))
      if (rows.length > 0 || numAffectedRows === undefined) return rows as readonly Record<string, unknown>[]
      return [{ affectedRows: Number(numAffectedRows) }]
    },
    inTransaction: (handle) => isHandle(handle) && handle.isTransaction === true,
  })
}
