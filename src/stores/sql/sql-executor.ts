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
  /**
   * For a statement whose answer nobody needs: it may be kept until the transaction sends something else, or is committed,
   * and fail with that.
   */
  defer?(sql: string, params: readonly SqlValue[]): Promise<void>
  /** Only synchronous drivers have it; an await would leave their transaction. */
  runSync?(sql: string, params: readonly SqlValue[]): readonly SqlRow[] | undefined
  /** A text that comes again finds what the connection has prepared of it, and values go as the texts they are, whatever type a parameter has. */
  readonly isPrepared?: boolean
  /** Nothing is rolled back while a statement of ours is on its way, and no savepoint without our knowing. */
  readonly isGuarded?: boolean
  /** The transaction may be over: one of its statements has failed, or is still on its way. Undefined: nobody knows. */
  readonly isDoubtful?: boolean
  /** Of a doubtful one: asks, and rejects when it is over. */
  ask?(): Promise<void>
}
