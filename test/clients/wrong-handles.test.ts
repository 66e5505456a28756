/** What a client is made of, when it is something else. */
import { createPool } from 'mysql2'
import { DataSource } from 'typeorm'
import { describe, expect, it } from 'vitest'
import { betterSqlite3Transactions } from '../../src/clients/better-sqlite3.ts'
import { drizzleTransactions } from '../../src/clients/drizzle.ts'
import { knexTransactions } from '../../src/clients/knex.ts'
import { kyselyTransactions } from '../../src/clients/kysely.ts'
import { libsqlTransactions } from '../../src/clients/libsql.ts'
import { mariadbTransactions } from '../../src/clients/mariadb.ts'
import { mikroOrmTransactions } from '../../src/clients/mikro-orm.ts'
import { mysql2Transactions } from '../../src/clients/mysql2.ts'
import { nodeSqliteTransactions } from '../../src/clients/node-sqlite.ts'
import { pgTransactions } from '../../src/clients/pg.ts'
import { pgliteTransactions } from '../../src/clients/pglite.ts'
import { postgresJsTransactions } from '../../src/clients/postgres-js.ts'
import { prismaTransactions } from '../../src/clients/prisma.ts'
import { sequelizeTransactions } from '../../src/clients/sequelize.ts'
import { typeormTransactions } from '../../src/clients/typeorm.ts'

const CLIENTS = {
  betterSqlite3Transactions,
  drizzleTransactions,
  knexTransactions,
  kyselyTransactions,
  libsqlTransactions,
  mariadbTransactions,
  mikroOrmTransactions,
  mysql2Transactions,
  nodeSqliteTransactions,
  pgTransactions,
  pgliteTransactions,
  postgresJsTransactions,
  prismaTransactions,
  sequelizeTransactions,
  typeormTransactions,
} as unknown as Readonly<Record<string, (handle: unknown) => unknown>>

describe.each(Object.keys(CLIENTS))('%s', (name) => {
  it.each([undefined, null, {}, 'postgres://localhost', () => undefined, { transaction: () => undefined }])(
    'refuses %s at once',
    (handle) => {
      const refusal = expect.objectContaining({ code: 'POSTHASTE_UNSUPPORTED' })
      expect(() => CLIENTS[name]?.(handle)).toThrow(refusal)
    },
  )
})

it('typeormTransactions says that the data source has to be initialised', async () => {
  const source = new DataSource({ type: 'postgres', url: 'postgres://127.0.0.1:1/none' })
  const running = typeormTransactions(source).run(async () => undefined)
  await expect(running).rejects.toThrow('await dataSource.initialize()')
})

it('mysql2Transactions refuses a pool without promises', async () => {
  const pool = createPool({ host: '127.0.0.1' })
  expect(() => mysql2Transactions(pool as never)).toThrow('pool.promise()')
  await new Promise<void>((resolve) => pool.end(() => resolve()))
})
