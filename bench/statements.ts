/** Counts statements by the transaction they were in, so that what a settle costs can be told from what a read costs. */
export interface StatementCounts {
  readonly all: number
  /** In transactions that moved deliveries to `finished`, with their BEGIN and COMMIT. */
  readonly settling: number
}

export const createStatementCounter = () => {
  let all = 0
  let settling = 0
  let current = 0
  let settles = false
  return {
    onStatement(sql: string): void {
      all += 1
      if (sql.startsWith('BEGIN')) {
        current = 0
        settles = false
      }
      current += 1
      settles ||= sql.startsWith('INSERT INTO "outbox_finished"')
      if (sql === 'COMMIT' && settles) settling += current
    },
    read: (): StatementCounts => ({ all, settling }),
  }
}
