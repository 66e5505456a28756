import pg from 'pg'
import { pgTransactions } from '../../../src/clients/pg.ts'
import type { TestDatabase } from '../databases.ts'
import type { OpenLibrary } from '../library.ts'

/** A pool whose connections may break: without a listener each of them would end the process. */
export const poolOn = ({ url }: TestDatabase): pg.Pool => {
  const pool = new pg.Pool({ connectionString: url, max: 6 })
  pool.on('error', () => undefined)
  pool.on('connect', (client) => void client.on('error', () => undefined))
  return pool
}

export const openPg = async (database: TestDatabase): Promise<OpenLibrary<pg.PoolClient>> => {
  const pool = poolOn(database)
  const idle = await pool.connect()
  return {
    transactions: pgTransactions(pool),
    exec: (tx, sql) => tx.query(sql),
    async own(fn) {
      const client = await pool.connect()
      try {
        await client.query('BEGIN')
        await fn(client)
        await client.query('COMMIT')
      } catch (error) {
        await client.query('ROLLBACK')
        throw error
      } finally {
        client.release()
      }
    },
    outside: [pool, idle],
    async close() {
      idle.release()
      await pool.end()
    },
  }
}
