/**
 * What a store has to offer to be tested. The suite brings no test runner: it takes `describe` and `it`, and
 * asserts with `node:assert`, so that a third party can run it with whatever it uses.
 */
import type { Store, Transactions } from '../../core/spi/index.ts'
import type { SuiteOptions } from './run-suite.ts'

/** One empty database and a store on it; made anew for every test. */
export interface StoreHarness<Tx = unknown, E = unknown> {
  /** Already open. The suite calls `schema.migrate()` before anything else. */
  readonly store: Store<Tx, E>
  /** A client of another library to publish through; the store's own when absent. */
  readonly transactions?: Transactions<Tx, E>
  /**
   * Moves the database's clock; a negative value steps it back. Absent for real databases: the suite then
   * uses short leases and looks again until the time has come.
   */
  advance?(ms: number): void | Promise<void>
  /** For real databases: as if the clock had been set back, so that every stored time lies so much later. */
  setBack?(ms: number): void | Promise<void>
  /** Another process's handle on the same database, already open. The harness closes it in `dispose`. */
  reopen?(): Promise<Store<Tx, E>>
  /** The next event gets this `seq`, or a higher one. */
  setNextSeq?(seq: bigint): void | Promise<void>
  /** Damages a stored event so that it can no longer be decoded. */
  corruptEvent?(eventId: string): void | Promise<void>
  dispose(): Promise<void>
}

export interface StoreSuiteOptions<Tx = unknown, E = unknown> extends SuiteOptions {
  create(): Promise<StoreHarness<Tx, E>>
}
