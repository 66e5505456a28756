/**
 * What a client of a library has to offer to be tested. The suite speaks to the library only through these words, so
 * that the same cases run on all of them.
 */
import type { Store, Transactions } from '../../core/spi/index.ts'
import type { SuiteOptions } from './run-suite.ts'

/** One empty database, a store on it and a library beside it; made anew for every test. */
export interface ClientHarness<Tx = unknown, E = unknown> {
  /** Not opened yet; the suite opens it, and closes it before `dispose`. */
  readonly store: Omit<Store<unknown, E>, 'transactions'>
  /** The client under test. */
  readonly transactions: Transactions<Tx, E>

  /** The application's own work: writes a row with this number, with the library, in the transaction. */
  write(tx: Tx, n: number): Promise<unknown>
  /** The numbers that are committed, in ascending order. */
  written(): Promise<readonly number[]>
  /** Runs a statement that the database refuses; rejects with what the library says. */
  fail(tx: Tx): Promise<unknown>
  /** PostgreSQL gives the whole transaction up after a statement that failed; others go on. */
  readonly failureEndsTransaction: boolean

  /** A transaction that the application opens itself, as the library's documentation shows it. */
  own(fn: (tx: Tx) => Promise<void>): Promise<unknown>
  /** A nested one likewise; absent where the library has none. */
  ownNested?(tx: Tx, fn: (tx: Tx) => Promise<void>): Promise<unknown>
  /** The library keeps statements on a handle of a transaction that is over, and never sends nor refuses them. */
  readonly keepsLateStatements?: boolean
  /** What people pass by mistake: handles of the library that are in no transaction. */
  readonly outside: readonly unknown[]
  /** Transactions may overlap. Databases with one writer say false. */
  readonly overlaps: boolean

  /** Does something in the transaction that makes the database refuse to commit it. Absent where there is nothing. */
  spoilCommit?(tx: Tx): Promise<unknown>
  /**
   * Once: the connection on which the next COMMIT is sent is cut, before the database sees it or before the library
   * hears the answer. Resolves when that has happened. Absent where there is no connection.
   */
  loseCommit?(when: 'before' | 'after'): Promise<void>
  /**
   * Meets a deadlock, or what else makes the database roll this whole transaction back by itself, as `INSERT OR
   * ROLLBACK` does on SQLite; rejects with what the library says. Absent where that does not happen.
   */
  deadlock?(tx: Tx): Promise<unknown>
  /** How often the library waited for the database while `fn` ran; absent where nobody can see that. */
  roundTrips?(fn: () => Promise<unknown>): Promise<number>
  dispose(): Promise<void>
}

export interface ClientSuiteOptions<Tx = unknown, E = unknown> extends SuiteOptions {
  create(): Promise<ClientHarness<Tx, E>>
}
