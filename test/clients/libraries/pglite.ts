import type { Transaction } from '@electric-sql/pglite'
import { pgliteTransactions } from '../../../src/clients/pglite.ts'
import { pglite } from '../databases.ts'
import type { OpenLibrary } from '../library.ts'

export const openPglite = async (): Promise<OpenLibrary<Transaction>> => {
  const db = await pglite()
  return {
    transactions: pgliteTransactions(db),
    exec: (tx, sql) => tx.exec(sql),
    own: (fn) => db.transaction(fn),
    outside: [db],
    close: async () => undefined,
  }
}
