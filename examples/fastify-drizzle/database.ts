import { drizzle } from 'drizzle-orm/node-postgres'
import { pgTable, text, uuid } from 'drizzle-orm/pg-core'
import pg from 'pg'

export const orders = pgTable('orders', {
  id: uuid().primaryKey().defaultRandom(),
  item: text().notNull(),
})

export const pool = new pg.Pool({
  connectionString: process.env.DATABASE_URL ?? 'postgres://postgres:postgres@localhost:5432/postgres',
})

export const db = drizzle({ client: pool })

/** Yours would come from drizzle-kit. */
export const createTables = async (): Promise<void> => {
  await db.execute(
    'CREATE TABLE IF NOT EXISTS orders (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), item text NOT NULL)',
  )
}
