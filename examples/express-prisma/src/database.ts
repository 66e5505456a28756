import { PrismaPg } from '@prisma/adapter-pg'
import { PrismaClient } from './generated/client.js'

export const connectionString =
  process.env.DATABASE_URL ?? 'postgres://postgres:postgres@localhost:5432/postgres'

export const prisma = new PrismaClient({ adapter: new PrismaPg({ connectionString }) })

/** Yours would come from `prisma migrate`. */
export const createTables = async (): Promise<void> => {
  await prisma.$executeRaw`CREATE TABLE IF NOT EXISTS orders (id uuid PRIMARY KEY, item text NOT NULL)`
}
