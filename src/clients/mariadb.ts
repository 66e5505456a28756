/** `posthaste/clients/mariadb`: publish in transactions of MariaDB's own connector, on MariaDB and MySQL. */
import type { Transactions } from '../core/spi/index.ts'
import type { SqlExecutor } from '../stores/sql/sql-executor.ts'
import { notInTransaction } from '../stores/sql/transaction-scope.ts'
import { answerOf } from './shared/answers.ts'
import { clientOf } from './shared/client.ts'
import { Doubts } from './shared/doubts.ts'
import { requireMethods } from './shared/handles.ts'
import { watchStatements } from './shared/watch.ts'

/** A connection of `mariadb`, as far as it is used here. */
export interface MariadbConnection {
  beginTransaction(): Promise<void>
  commit(): Promise<void>
  rollback(): Promise<void>
}

/** A pool of `mariadb`; `Connection` is what its `getConnection` gives. */
export interface MariadbPool<Connection> {
  getConnection(): Promise<Connection>
}

/** What is there beyond the public types above. */
interface Handle extends MariadbConnection {
  readonly info: { readonly status?: number } | null
  query(sql: string, values: readonly unknown[]): Promise<unknown>
  release?(): Promise<void>
  destroy(): void
}

const IN_TRANSACTION = 1

/** What an application sends statements with. */
const SENDING = ['query', 'execute', 'batch'] as const

const isHandle = (handle: object): handle is Handle => {
  const { query, beginTransaction } = handle as Partial<Handle>
  return typeof query === 'function' && typeof beginTransaction === 'function'
}

/** As the server said with its last answer; undefined when the connection does not keep that. */
const inTransaction = (handle: object): boolean | undefined => {
  if (!isHandle(handle)) return false
  const status = handle.info?.status
  return typeof status === 'number' ? (status & IN_TRANSACTION) !== 0 : undefined
}

export const mariadbTransactions = <Connection extends MariadbConnection>(
  pool: MariadbPool<Connection>,
): Transactions<Connection, SqlExecutor> => {
  requireMethods('a pool of mariadb', pool, ['getConnection', 'end'])
  const doubts = new Doubts()
  const handleOf = (tx: Connection): Handle => tx as unknown as Handle
  return clientOf<Connection>({
    name: 'mariadb',
    doubts,
    async run(fn) {
      const connection = await pool.getConnection()
      const handle = handleOf(connection)
      try {
        await connection.beginTransaction()
        // The server rolls back by itself after a deadlock, which the connection does not notice.
        watchStatements(connection, SENDING, doubts, connection)
        const result = await fn(connection)
        await connection.commit()
        await handle.release?.()
        return result
      } catch (error) {
        await connection.rollback().then(
          () => handle.release?.(),
          () => handle.destroy(),
        )
        throw error
      }
    },
    async send(tx, sql, params) {
      const answer = answerOf(await handleOf(tx).query(sql, params))
      if (inTransaction(tx) === false) throw notInTransaction('The connection')
      return answer
    },
    inTransaction,
  })
}
