/** What `createOutbox` returns: everything an application does with its outbox. */
import type { EventDefinition, Stored } from './define-event.ts'
import type { Tally } from './flow/engine.ts'
import type { TransactionalPublisher } from './flow/publishing.ts'
import type { Batch } from './flow/pull.ts'
import type { Inspect } from './inspection.ts'
import type { Listener, ListenerPattern } from './listeners.ts'
import type { Operator } from './operator.ts'
import type { Schema, Transactions, TxContext } from './spi/index.ts'

export interface Flushed {
  /**
   * Nothing was due any more, in lanes of other processes too, before the time was over; or only what came due after the
   * call, where new events keep coming. What failed waits for its retry.
   */
  readonly drained: boolean
  /** Attempts that failed meanwhile. */
  readonly failed: number
}

export interface ProcessedOnce extends Readonly<Tally> {
  /** Nothing was due, or nothing that this process may take; not so while something waits for its destination. */
  readonly idle: boolean
}

export interface Outbox<Tx, E = unknown, Names extends string = string>
  extends TransactionalPublisher<Tx>,
    AsyncDisposable {
  /** Listens at destination `local`. Returns a function that takes the listener away. */
  on<Input, Output>(
    definition: EventDefinition<string, Input, Output>,
    listener: Listener<Stored<Output>>,
  ): () => void
  on<T = unknown>(pattern: ListenerPattern, listener: Listener<T>): () => void
  /** Listens at a declared destination, which has its own state and its own retries. */
  on<Input, Output>(
    destination: Names,
    definition: EventDefinition<string, Input, Output>,
    listener: Listener<Stored<Output>>,
  ): () => void
  on<T = unknown>(destination: Names, pattern: ListenerPattern, listener: Listener<T>): () => void
  onAny(listener: Listener): () => void

  /** The same publishing methods for a second data-access library on the same database. */
  via<Other>(transactions: Transactions<Other, E>): TransactionalPublisher<Other>
  readonly txContext: TxContext<Tx>

  /** Opens the store, declares the destinations and delivers from now on. */
  start(): Promise<void>
  /** Stops delivering: drains for a bounded time, releases the rest, ends a `processOnce` under way. Can be started again. */
  stop(options?: { readonly drainMs?: number }): Promise<{ readonly clean: boolean }>
  /** Stops, waits for transactions under way as long as `drainMs` allows, and gives everything back. Also `await using`. */
  close(): Promise<void>
  readonly isStarted: boolean

  /** Delivers what is due once and returns what became of it; for cron jobs and tests. */
  processOnce(): Promise<ProcessedOnce>
  /** Delivers what was published, or as much as the time allows; for processes that are frozen after a request. */
  flush(options?: { readonly timeoutMs?: number }): Promise<Flushed>
  /**
   * Pulls a batch instead of being called; see `Batch`. The destination may be left out where there is only
   * one. Refused for a destination that `start` delivers to.
   */
  fetch(options?: { readonly destination?: Names; readonly limit?: number }): Promise<Batch>

  readonly inspect: Inspect
  readonly operator: Operator<Names>
  readonly schema: Schema
}
