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
import { requireMethods } from './shared/handles.ts'
import {
  answerOfKysely,
  directlyTo,
  type KyselyExecutor,
  type KyselyResult,
  queryOf,
  SENDING,
} from './shared/kysely.ts'
import { watchStatements } from './shared/watch.ts'

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
  getExecutor(): KyselyExecutor
}

const isHandle = (handle: object): handle is Handle =>
  typeof (handle as Partial<Handle>).executeQuery === 'function'

const saysEnded = (error: unknown): boolean =>
  error instanceof Error && /^Transaction is already (?:committed|rolled back)/.test(error.message)

/** About connections, and of all clients: what happens on a connection concerns whoever has a transaction on it. */
const doubts = new Doubts()

interface Seen {
  readonly connection: object
  readonly send: ReturnType<typeof directlyTo>
}

/** By their handles, of which a transaction has several: `tx.withSchema()` makes another one. */
const handles = new WeakMap<object, Seen>()

const see = async (handle: Handle): Promise<object> => {
  const connection = await handle.getExecutor().provideConnection(async (one) => one)
  watchStatements(connection, SENDING, doubts, connection)
  handles.set(handle, { connection, send: directlyTo(connection) })
  return connection
}

/**
 * Of a transaction that nobody watched: MySQL may have rolled it back, and stores what comes next on its own, and Kysely
 * may be rolling it back right now, because its statements wait for each other and its rollback does not.
 */
const join = async (handle: Handle): Promise<void> => {
  if (!handles.has(handle)) doubts.raise(await see(handle))
}

/** Transactions of this Kysely instance; its plugins are left out of what the outbox sends. */
export const kyselyTransactions = <Tx extends KyselyTransaction>(
  db: KyselyDatabase<Tx>,
): Transactions<Tx, SqlExecutor> => {
  requireMethods('an instance of Kysely', db, ['transaction', 'withPlugin'])
  const handleOf = (tx: Tx): Handle => tx as unknown as Handle
  return clientOf<Tx>({
    name: 'kysely',
    doubts,
    saysEnded,
    subjectOf: (tx) => handles.get(tx)?.connection ?? tx,
    run: (fn) =>
      db.transaction().execute(async (tx) => {
        // What failed before BEGIN was another transaction's.
        doubts.clear(await see(handleOf(tx)))
        return await fn(tx)
      }),
    isUnseen: (tx) => !handles.has(tx),
    join: (tx) => join(handleOf(tx)),
    send: async (tx, sql, params) =>
      handles.get(tx)?.send(sql, params) ??
      answerOfKysely(await handleOf(tx).withoutPlugins().executeQuery(queryOf(sql, params))),
    inTransaction: (handle) => isHandle(handle) && handle.isTransaction === true,
  })
}
