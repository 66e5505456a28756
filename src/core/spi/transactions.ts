/**
 * How Posthaste takes part in the transactions of a data-access library. A client (`posthaste/clients/…`)
 * or a store's own driver implements it; the core never sees a connection.
 */
export interface Transactions<Tx, E> {
  /** Named in messages: "better-sqlite3", "prisma", … */
  readonly library: string

  /**
   * The application holds a raw handle of the same connection, so a savepoint can be undone behind our back.
   * What was published is then looked up before it is sent.
   */
  readonly savepointsUnseen?: boolean

  /**
   * Runs `fn` in a new transaction. Resolves only after the database confirmed the commit. Rejects with
   * what `fn` threw after a rollback; with code POSTHASTE_COMMIT_ROLLED_BACK when COMMIT answered ROLLBACK;
   * with POSTHASTE_COMMIT_UNKNOWN when the answer was lost, or when the transaction had ended before: then `detail` has
   * `hadEnded`, so that its events are looked for, and `hadFailures` if one of its statements failed. The handle is
   * unusable afterwards.
   */
  run<T>(fn: (tx: Tx) => Promise<T>): Promise<T>

  /** The manual form of the same; absent where the library only knows callbacks. */
  begin?(): Promise<OpenTransaction<Tx>>

  /** A savepoint (or the library's nested transaction) around `fn`, rolled back when it throws. */
  nested?<T>(tx: Tx, fn: (tx: Tx) => Promise<T>): Promise<T>

  /** What the store's statements run on. Throws a TransactionError when the transaction is over. */
  executor(tx: Tx): E

  /** Whether the handle is inside a transaction; undefined when the library cannot tell. */
  inTransaction(tx: Tx): boolean | undefined

  /**
   * The handle that this one stands for, where a library has one that is another in each asynchronous context; anything
   * else as it is. Asked when a publish begins, before all the others here.
   */
  standsFor?(handle: Tx): Tx

  /** Writes what the library holds back until COMMIT; called when the application's function has ended well. */
  flush?(tx: Tx): Promise<void>

  /**
   * Libraries that know what they write: `written` is told of each object with `pullEvents()`, and how to recognise
   * the transaction. It answers how to take that back when a savepoint is undone; null when there is no need.
   */
  capture?(
    written: (source: { pullEvents(): unknown }, isOf: (tx: unknown) => boolean) => (() => void) | null,
  ): void

  /**
   * Commit hooks of the library for a transaction that the user opened. Returns false when there are none:
   * the commit cannot be observed, the event is inserted unclaimed and the poller finds it.
   */
  observe?(tx: Tx, ended: { committed(): void; rolledBack(): void }): boolean
}

export interface OpenTransaction<Tx> {
  readonly tx: Tx
  commit(): Promise<void>
  rollback(): Promise<void>
}

/** The manual form, made from the form with a function, which every library gives back its connection after. */
export const beginByCallback = <Tx>(
  transactions: Pick<Transactions<Tx, unknown>, 'run'>,
): Promise<OpenTransaction<Tx>> =>
  new Promise((opened, failed) => {
    const rolledBack = new Error('rolled back by hand')
    const finished = transactions.run(
      (tx) =>
        new Promise<void>((commit, rollback) => {
          opened({
            tx,
            commit: () => {
              commit()
              return finished
            },
            rollback: async () => {
              rollback(rolledBack)
              await finished.catch((error: unknown) => {
                if (error !== rolledBack) throw error
              })
            },
          })
        }),
    )
    finished.catch(failed)
  })

/** Seed-style access to the ambient transaction, for code that is handed no transaction object. */
export interface TxContext<Tx = unknown> {
  isTransactionActive(): boolean
  /** The very handle that the business writes use. */
  currentConnection(): Tx
  /** Runs only after a successful commit of the whole transaction; a throwing callback is logged, not raised. */
  afterCommit(callback: () => void): void
  afterRollback(callback: () => void): void
}
