/** A client of node-postgres under another library: it knows what the server said last of the transaction. */
export interface PgClient {
  /** Older ones have none. */
  getTransactionStatus?(): string | null
  readonly readyForQuery?: boolean
}

export const hasFailed = (client: PgClient | undefined): boolean => client?.getTransactionStatus?.() === 'E'

/** There is no transaction, and no statement under way that could begin one. */
export const isIdle = (client: PgClient | undefined): boolean =>
  client?.getTransactionStatus?.() === 'I' && client.readyForQuery !== false

/**
 * A statement fails before the server says what it has left of the transaction. Until then the status is that of before,
 * and so it is while a statement is under way that nobody waits for. An older one never knows.
 */
export const isUncertain = (client: PgClient | undefined): boolean =>
  client?.readyForQuery === false ||
  (client?.readyForQuery === true && client.getTransactionStatus === undefined)
