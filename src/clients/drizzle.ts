/**
 * `posthaste/clients/drizzle`: publish in transactions of Drizzle, with the drivers node-postgres, postgres.js, mysql2 and
 * libsql. Statements go through the session of the transaction, so that nothing of Drizzle has to be imported.
 */
import { ERROR_CODES, StoreError } from '../core/errors.ts'
import type { Transactions } from '../core/spi/index.ts'
import type { SqlExecutor, SqlValue } from '../stores/sql/sql-executor.ts'
import { type Answer, answerOf } from './shared/answers.ts'
import { clientOf } from './shared/client.ts'
import { Doubts } from './shared/doubts.ts'
import { requireMethods } from './shared/handles.ts'
import type { PgClient } from './shared/pg-client.ts'
import { watchStatements } from './shared/watch.ts'

/** A transaction of Drizzle, as far as it is used here. */
export interface DrizzleTransaction {
  rollback(): never
}

/** A database of Drizzle; `Tx` is the type of its transactions. */
export interface DrizzleDatabase<Tx> {
  transaction<T>(transaction: (tx: Tx) => Promise<T>): Promise<T>
}

interface PreparedQuery {
  execute(): Promise<unknown>
  /** SQLite alone: its `execute` does what the query says that it is for. */
  all?(): Promise<unknown>
}

/** Nested transactions have the session of the one around them, except with postgres.js. */
interface Session {
  readonly client?: PgClient & {
    /** Of postgres.js. */
    unsafe?(sql: string, params: readonly SqlValue[], options: object): PromiseLike<unknown>
    /** Of mysql2. */
    beginTransaction?(): Promise<unknown>
  }
  /** With libsql. */
  readonly tx?: { readonly closed: boolean }
  prepareQuery(query: object, fields: undefined, method: string | undefined, arrays: boolean): PreparedQuery
}

/** What is there beyond the public types above. */
interface Handle extends DrizzleDatabase<Handle> {
  readonly session: Session
  /** Of SQLite: whether its driver answers at once. */
  readonly resultKind?: string
  rollback?(): never
}

/** `{ rows }` of node-postgres, `[rows, fields]` or `[header, fields]` of mysql2, rows of the others. */
const rowsOf = (result: unknown): Answer => {
  const { rows } = (result ?? {}) as { readonly rows?: unknown }
  if (rows !== undefined) return answerOf(rows)
  const isPair =
    Array.isArray(result) && result.length === 2 && (Array.isArray(result[1]) || result[1] === undefined)
  return answerOf(isPair ? result[0] : Array.isArray(result) ? [...result] : result)
}

const send = async ({ session }: Handle, sql: string, params: readonly SqlValue[]): Promise<Answer> => {
  // Drizzle does not let postgres.js prepare, which then asks for the types every time.
  if (typeof session.client?.unsafe === 'function') {
    return rowsOf(await session.client.unsafe(sql, params, { prepare: true }))
  }
  const isSqlite = 'run' in session
  const prepared = session.prepareQuery({ sql, params }, undefined, isSqlite ? 'all' : undefined, false)
  return rowsOf(await (isSqlite ? prepared.all?.() : prepared.execute()))
}

const statusOf = ({ session }: Handle): string | null | undefined => session.client?.getTransactionStatus?.()

/** Drivers that cannot tell are asked no further: what is sent too late is noticed by the answer, if at all. */
const inTransaction = (handle: object): boolean | undefined => {
  const { session, rollback } = handle as Partial<Handle>
  if (typeof session !== 'object' || typeof rollback !== 'function') return false
  if (session.tx?.closed === true || statusOf(handle as Handle) === 'I') return false
  return session.tx !== undefined || session.client?.getTransactionStatus !== undefined ? true : undefined
}

/** MySQL rolls back by itself after a deadlock, and mysql2 tells only whoever sent the statement. */
const follow = (session: Session, doubts: Doubts): void => {
  const { client } = session
  if (typeof client?.beginTransaction !== 'function') return
  watchStatements(client, ['query', 'execute'], doubts, session)
}

export const drizzleTransactions = <Tx extends DrizzleTransaction>(
  db: DrizzleDatabase<Tx>,
): Transactions<Tx, SqlExecutor> => {
  requireMethods('a database of Drizzle', db, ['transaction', '$with'])
  const handleOf = (tx: object): Handle => tx as unknown as Handle
  if (handleOf(db).resultKind === 'sync') {
    throw new StoreError(
      ERROR_CODES.unsupported,
      'Drizzle runs transactions of this driver without waiting for anything, so an outbox cannot take part. Publish ' +
        'with the database below it: publishSync, and the client of better-sqlite3.',
    )
  }
  const doubts = new Doubts()
  const sessionOf = (tx: Tx): Session => handleOf(tx).session
  return clientOf<Tx>({
    name: 'drizzle',
    doubts,
    subjectOf: sessionOf,
    run: (fn) =>
      db.transaction((tx) => {
        follow(sessionOf(tx), doubts)
        return fn(tx)
      }),
    nested: (tx, fn) => handleOf(tx).transaction((inner) => fn(inner as unknown as Tx)),
    send: (tx, sql, params) => send(handleOf(tx), sql, params),
    pgClient: (tx) => sessionOf(tx).client,
    inTransaction,
  })
}
