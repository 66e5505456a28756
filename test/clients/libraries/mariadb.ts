import mariadb, { type PoolConnection } from 'mariadb'
import { mariadbTransactions } from '../../../src/clients/mariadb.ts'
import type { TestDatabase } from '../databases.ts'
import type { OpenLibrary } from '../library.ts'

export const openMariadb = async ({ url }: TestDatabase): Promise<OpenLibrary<PoolConnection>> => {
  const pool = mariadb.createPool(
    `${url.replace('mysql:', 'mariadb:')}?connectionLimit=6&allowPublicKeyRetrieval=true`,
  )
  const idle = await pool.getConnection()
  return {
    transactions: mariadbTransactions(pool),
    exec: (tx, sql) => tx.query(sql),
    async own(fn) {
      const connection = await pool.getConnection()
      try {
        await connection.beginTransaction()
        await fn(connection)
        await connection.commit()
      } catch (error) {
        await connection.rollback()
        throw error
      } finally {
        await connection.release()
      }
    },
    outside: [pool, idle],
    async close() {
      await idle.release()
      await pool.end()
    },
  }
}
