import { Inject, Module, type OnApplicationShutdown } from '@nestjs/common'
import { Pool } from 'pg'

const openPool = async (): Promise<Pool> => {
  const pool = new Pool({
    connectionString: process.env.DATABASE_URL ?? 'postgres://postgres:postgres@localhost:5432/postgres',
  })
  await pool.query('CREATE TABLE IF NOT EXISTS orders (id uuid PRIMARY KEY, item text NOT NULL)')
  return pool
}

@Module({ providers: [{ provide: Pool, useFactory: openPool }], exports: [Pool] })
export class DatabaseModule implements OnApplicationShutdown {
  constructor(@Inject(Pool) private readonly pool: Pool) {}

  // The outbox is closed by then: it imports this module.
  async onApplicationShutdown(): Promise<void> {
    await this.pool.end()
  }
}
