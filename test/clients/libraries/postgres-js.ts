import postgres from 'postgres'
import { postgresJsTransactions } from '../../../src/clients/postgres-js.ts'
import type { TestDatabase } from '../databases.ts'
import type { OpenLibrary } from '../library.ts'

export const openPostgresJs = async ({
  url,
}: TestDatabase): Promise<OpenLibrary<postgres.TransactionSql>> => {
  const sql = postgres(url, { max: 6, onnotice: () => undefined })
  return {
    transactions: postgresJsTransactions(sql),
    exec: (tx, text) => tx.unsafe(text),
    own: (fn) => sql.begin(fn),
    ownNested: (tx, fn) => tx.savepoint(fn),
    outside: [sql],
    keepsLateStatements: true,
    commitText: 'commit',
    close: () => sql.end({ timeout: 0 }),
  }
}
