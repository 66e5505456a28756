/**
 * The one thing that a store needs from a transaction of somebody else's library in order to insert. Drivers
 * and ORMs implement it in a few lines; results differ wildly between them, so rows are optional and only
 * ever used to learn about duplicates.
 */
export type SqlValue = string | number | bigint | Uint8Array | null

export type SqlRow = Readonly<Record<string, unknown>>

export interface SqlStatement {
  readonly sql: string
  readonly params: readonly SqlValue[]
}

export interface SqlExecutor {
  /**
   * Undefined when the library does not hand rows back. The answer to a statement without rows may be one row
   * with `affectedRows`, which spares the MySQL store a question.
   */
  run(sql: string, params: readonly SqlValue[]): Promise<readonly SqlRow[] | undefined>
  /** Only synchronous drivers have it; an await would leave their transaction. */
  runSync?(sql: string, params: readonly SqlValue[]): readonly SqlRow[] | undefined
  /** Where a driver wants one statement at a time: after those of ours that are under way. */
  readonly line?: StatementLine
  /** The library keeps statements waiting for each other, and its rollback does not wait for them. */
  readonly rollbackOvertakes?: boolean
  /** Present when a statement of the transaction has failed, so that it may be over: asks, and rejects when it is. */
  ask?(): Promise<void>
}

export interface StatementInLine extends SqlStatement {
  /** What stands in the transaction once it has run. */
  readonly leaves: string
}

/**
 * Who waits for others comes later than it was called, and in between the application may have rolled back, to a
 * savepoint or altogether. So each statement says what it leaves, and the next one looks whether that still stands.
 */
export interface StatementLine {
  /** What the statement before leaves; null when there is none, and the next one is sent at once. */
  readonly behind: string | null
  run(statement: StatementInLine): Promise<readonly SqlRow[] | undefined>
}
