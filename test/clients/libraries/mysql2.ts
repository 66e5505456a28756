import mysql from 'mysql2/promise'
import { mysql2Transactions } from '../../../src/clients/mysql2.ts'
import type { TestDatabase } from '../databases.ts'
import type { OpenLibrary } from '../library.ts'

export const openMysql2 = async ({ url }: TestDatabase): Promise<OpenLibrary<mysql.PoolConnection>> => {
  const pool = mysql.createPool({ uri: url, connectionLimit: 6 })
  const idle = await pool.getConnection()
  return {
    transactions: mysql2Transactions(pool),
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
        connection.release()
      }
    },
    outside: [pool, idle],
    async close() {
      idle.release()
      await pool.end()
    },
  }
}
