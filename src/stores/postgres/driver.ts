/**
 * The package `pg`, seen through the few members that we use. Nothing is imported statically: it is an optional
 * peer, and an application that passes its own pool has loaded it already.
 */
import { ERROR_CODES, StoreError } from '../../core/errors.ts'

export interface PostgresResult {
  readonly rows: readonly unknown[]
  /** The command's tag: `COMMIT`, `ROLLBACK`, `SELECT` … */
  readonly command: string
}

/** Of several statements in one text, several. */
export type PostgresAnswer = PostgresResult | readonly PostgresResult[]

/** A query in the form that `pg` takes. */
export interface PostgresQuery {
  readonly text: string
  readonly values?: readonly unknown[]
  readonly name?: string
  readonly rowMode?: 'array'
  readonly types?: { getTypeParser(oid: number, format?: string): (value: string) => unknown }
  readonly query_timeout?: number
}

/** What the store needs of a connection. */
export interface PostgresConnection {
  query(query: PostgresQuery | string): Promise<PostgresAnswer>
  /** Of `pg` itself; in the form in which its pools ask, which those who wrap connections know. */
  query(
    query: PostgresQuery,
    values: undefined,
    callback: (error: Error | null, answer: PostgresAnswer) => void,
  ): unknown
  /** Of `pg` itself: a query of another kind, which writes its messages when its turn comes. */
  query(query: { submit(wire: never): null }): unknown
  on(event: 'error' | 'notification' | 'end', listener: (argument: never) => void): unknown
  removeListener(event: 'error' | 'notification' | 'end', listener: (argument: never) => void): unknown
  /** A truthy argument takes the connection out of the pool. */
  release?(destroy?: boolean): void
  end?(): Promise<unknown>
  /** The process may end although the connection has not. */
  unref?(): void
  /** `I` idle, `T` in a transaction, `E` in one that failed; since pg 8.21. */
  getTransactionStatus?(): string | null
  /** False while a statement is on its way. */
  readonly readyForQuery?: boolean
  /** What is behind a client of `pg`. */
  readonly connection?: object
  /** Sends statements before those in front of them are answered; since pg 8.23. */
  readonly pipeline?: boolean
  /** Of `pg`: what its promises are made of. */
  readonly _Promise?: unknown
  /** As the server, or a pooler in its place, said when the connection was made. */
  readonly processID?: number | null
}

/** Those of `pg` itself, and whoever stands in for them with the same parameters; others may know promises alone. */
export const knowsCallbacks = (connection: PostgresConnection): boolean => connection.query.length === 3

/**
 * By a callback where that is known, because for a promise `pg` assigns a function to the query: V8 takes that for a method
 * and allocates it among old objects, where it keeps the query with all its rows in memory until those are collected. A
 * pool with a `query_timeout` of its own has that either way. The price is that a driver's error does not name who asked.
 */
export const ask = (connection: PostgresConnection, query: PostgresQuery): Promise<PostgresAnswer> => {
  if (!knowsCallbacks(connection)) return connection.query(query)
  return new Promise((resolve, reject) => {
    const returned = connection.query(query, undefined, (error, answer) => {
      if (error) reject(error)
      else resolve(answer)
    })
    // `pg` returns nothing then. An asynchronous function around it may fail, or answer in the place of the callback.
    if (returned instanceof Promise)
      returned.then((answer) => {
        if (answer !== undefined) resolve(answer)
      }, reject)
  })
}

/** A connection that is not of a pool. */
export interface PostgresSoleConnection extends PostgresConnection {
  connect(): Promise<unknown>
  end(): Promise<unknown>
}

/** A `Pool` of pg; `Client` is what its `connect` gives. */
export interface PostgresPool<Client extends object> {
  /** A database inside this process, with one session for everybody. */
  readonly embedded?: true
  connect(): Promise<Client>
  on(event: 'error', listener: (error: Error) => void): unknown
  removeListener(event: 'error', listener: (error: Error) => void): unknown
  end(): Promise<void>
}

/** Of `connect` with and without a callback the form without; inference alone would look at the last one. */
type OverloadedClient<Pool> = Pool extends {
  readonly connect: { (): Promise<infer Client>; (...args: never[]): unknown }
}
  ? Client
  : never

/** What a pool's `connect` gives. */
export type ClientOf<Pool> =
  unknown extends OverloadedClient<Pool>
    ? Pool extends { connect(): Promise<infer Client> }
      ? Client
      : never
    : OverloadedClient<Pool>

/** What `pg` exports, as far as we use it. */
interface PostgresDriver {
  readonly Pool: new (options: object) => PostgresPool<PostgresConnection>
  readonly Client: new (options: object) => PostgresSoleConnection
}

export const loadDriver = async (): Promise<PostgresDriver> => {
  // A variable keeps bundlers and the type checker from resolving a package that may not be there.
  const specifier: string = 'pg'
  let module: { readonly default?: PostgresDriver } & PostgresDriver
  try {
    module = (await import(specifier)) as typeof module
  } catch (cause) {
    throw new StoreError(
      ERROR_CODES.missingPeer,
      'The package pg could not be loaded. Install it: npm install pg',
      { cause },
    )
  }
  return module.default ?? module
}

/** Every column as the text that the server sent, whatever parsers the application has installed in `pg`. */
export const RAW_TYPES = {
  getTypeParser:
    () =>
    (value: string): unknown =>
      value,
}
