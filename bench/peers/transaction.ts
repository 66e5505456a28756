/** A business transaction as applications write it with `pg`. */
import type { ClientBase, Pool } from 'pg'

export const inTransaction = async (
  pool: Pool,
  work: (client: ClientBase) => Promise<void>,
): Promise<void> => {
  const client = await pool.connect()
  let failed = true
  try {
    await client.query('BEGIN')
    await work(client)
    await client.query('COMMIT')
    failed = false
  } finally {
    client.release(failed)
  }
}

export const insertOrder = async (client: ClientBase, n: number): Promise<void> => {
  const values = [`customer-${n % 5_000}`, 1_000 + (n % 900), 'placed']
  await client.query('INSERT INTO shop.orders (customer, total, status) VALUES ($1, $2, $3)', values)
}

export const analyse = async (client: ClientBase, tables: readonly string[]): Promise<void> => {
  await client.query(`ANALYZE ${tables.join(', ')}`)
}

const STEP = 1_000

/** The numbers from 0 to `count`, in steps that fit one statement. */
export function* steps(count: number): Generator<readonly number[]> {
  for (let from = 0; from < count; from += STEP)
    yield Array.from({ length: Math.min(STEP, count - from) }, (_, i) => from + i)
}
