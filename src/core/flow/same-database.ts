/**
 * A client of another library has a connection of its own, and nothing says that it leads to the database of the store:
 * with two addresses in two variables every publish succeeds, and nobody ever delivers. So what was committed first
 * through a client is looked for in the store, once.
 */
import type { Logger, Store, Transactions } from '../spi/index.ts'
import type { Place } from './scopes.ts'

/** A store may answer from a server that lags behind, and a library may have undone a part of its transaction unseen. */
const MISSES = 3

export class SameDatabase<E> {
  readonly #store: Store<never, E>
  readonly #logger: Logger
  /** How many of a client's events were missed in a row; null when nothing needs to be looked for any more. */
  readonly #missed = new WeakMap<Transactions<unknown, E>, number | null>()

  constructor(store: Store<never, E>, logger: Logger) {
    this.#store = store
    this.#logger = logger
  }

  /** Looks after the commit, which nothing here can turn into a failure. */
  watch({ transactions, frame }: Place<unknown, E>, eventId: string | undefined): void {
    if (eventId === undefined || this.#missed.get(transactions) === null) return
    if (transactions === (this.#store.transactions as unknown)) return
    frame.owner?.afterCommit.push(() => {
      void this.#look(transactions, eventId).catch(() => undefined)
    })
  }

  async #look(transactions: Transactions<unknown, E>, eventId: string): Promise<void> {
    if (this.#missed.get(transactions) === null) return
    const isThere = (await this.#store.inspection.event(eventId)) !== null
    // Asked for only now: several may have looked meanwhile.
    const before = this.#missed.get(transactions)
    if (before === null) return
    const missed = isThere ? null : (before ?? 0) + 1
    this.#missed.set(transactions, missed === MISSES ? null : missed)
    if (missed !== MISSES) return
    this.#logger.log(
      'error',
      `events committed through ${transactions.library} are not in the store: they are two databases, and nothing of ` +
        'this client will be delivered. Give both the address of the same database.',
      { library: transactions.library, eventId },
    )
  }
}
