/** What a store leaves in a transaction to find out whether it still stands: a rollback takes it back. */

export interface Mark {
  /** For `InsertRequest.mark`; the insert takes it away. */
  readonly id: string
  /** When there will be no insert. */
  drop(): Promise<void>
}

export interface OuterMark<E> {
  /** The first thing inside the savepoint, with an executor there: rejects with a TransactionError when the mark does not stand. */
  require(inner: E): Promise<void>
  /** When the savepoint is over, well or not. Never rejects. */
  drop(): Promise<void>
}
