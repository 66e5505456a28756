/** What an application sees of stages 1 and 2; `transactions-api.ts` implements it. */
import type { Draft } from '../define-event.ts'
import type { Transactions, TxContext } from '../spi/index.ts'
import type { EventSource } from './frame.ts'

/** An object with `pullEvents()`, such as an aggregate that remembers what happened to it. */
export type Aggregate = EventSource<Draft>

/** A transaction begun by hand: `await using tx = await outbox.begin(); … await tx.commit()`. */
export interface OutboxTransaction<Tx> extends AsyncDisposable {
  /** The library's own handle, for the business writes. */
  readonly tx: Tx
  publish(draft: Draft): Promise<string>
  publishMany(drafts: readonly Draft[]): Promise<readonly string[]>
  publishFrom(...aggregates: readonly Aggregate[]): Promise<readonly string[]>
  /** Its events are pulled just before commit. */
  track<A extends Aggregate>(aggregate: A): A
  /** Makes the transaction ambient while `fn` runs. */
  run<T>(fn: (tx: Tx) => T): T
  /** Resolves only after the database confirmed it. */
  commit(): Promise<void>
  rollback(): Promise<void>
}

/** A handle of the library, or a transaction begun by hand. */
export type TxHandle<Tx> = Tx | OutboxTransaction<Tx>

export interface TransactionalPublisher<Tx> {
  /** Stores the event in the transaction of `tx` and resolves to its id; without `tx` in the ambient one. */
  publish(tx: TxHandle<Tx>, draft: Draft): Promise<string>
  publish(draft: Draft): Promise<string>
  /** At most 10,000 events in one statement; ids in the same order. */
  publishMany(tx: TxHandle<Tx>, drafts: readonly Draft[]): Promise<readonly string[]>
  publishMany(drafts: readonly Draft[]): Promise<readonly string[]>
  /** For synchronous drivers, whose transactions do not survive an await. */
  publishSync(tx: TxHandle<Tx>, drafts: readonly Draft[]): readonly string[]
  publishSync(tx: TxHandle<Tx>, draft: Draft): string
  /** Pulls the aggregates' events now and publishes them. */
  publishFrom(tx: TxHandle<Tx>, ...aggregates: readonly Aggregate[]): Promise<readonly string[]>
  /** Inside `transaction()`: the aggregate's events are pulled just before commit. Returns the aggregate. */
  track<A extends Aggregate>(aggregate: A): A
  /** Runs `fn` in a transaction; inside another one, in a savepoint. Ambient while it runs. */
  transaction<T>(fn: (tx: Tx) => T | Promise<T>): Promise<T>
  begin(): Promise<OutboxTransaction<Tx>>
}

export interface Publishing<Tx, E> extends TransactionalPublisher<Tx> {
  /** The same methods for a second data-access library on the same database. */
  via<Other>(transactions: Transactions<Other, E>): TransactionalPublisher<Other>
  readonly txContext: TxContext<Tx>
}
