/** Clients that are made of the same handle again and again, as a factory that runs per request does. */
import { CompiledQuery } from 'kysely'
import { describe, expect, it, onTestFinished } from 'vitest'
import { kyselyTransactions } from '../../src/clients/kysely.ts'
import { mikroOrmTransactions } from '../../src/clients/mikro-orm.ts'
import { prismaTransactions } from '../../src/clients/prisma.ts'
import { sequelizeTransactions } from '../../src/clients/sequelize.ts'
import { typeormTransactions } from '../../src/clients/typeorm.ts'
import type { Transactions } from '../../src/core/spi/index.ts'
import { openDatabase, type TestDatabase } from './databases.ts'
import { kyselyOn } from './libraries/kysely.ts'
import { mikroOrmOn } from './libraries/mikro-orm.ts'
import { prismaOn } from './libraries/prisma.ts'
import { sequelizeOn } from './libraries/sequelize.ts'
import { typeormOn } from './libraries/typeorm.ts'

interface Made {
  /** A client of the handle, made anew. */
  make(): Transactions<never, never>
  /** Functions and subscribers that a client could leave behind. */
  traces(): Promise<readonly unknown[]> | readonly unknown[]
  close(): Promise<unknown>
}

const LIBRARIES: Readonly<Record<string, (database: TestDatabase) => Promise<Made>>> = {
  async kysely(database) {
    const db = kyselyOn(database)
    return {
      make: () => kyselyTransactions(db) as never,
      traces: () =>
        db
          .connection()
          .execute((one) =>
            one.getExecutor().provideConnection(async (connection) => [connection.executeQuery]),
          ),
      close: () => db.destroy(),
    }
  },
  async 'mikro-orm'(database) {
    const orm = await mikroOrmOn(database)
    return {
      make: () => mikroOrmTransactions(orm, { capture: true }) as never,
      traces: () => [...orm.em.getEventManager().getSubscribers()],
      close: () => orm.close(),
    }
  },
  async prisma(database) {
    const prisma = await prismaOn(database)
    const { _engine: engine } = prisma as unknown as { _engine: Record<string, unknown> }
    return {
      make: () => prismaTransactions(prisma) as never,
      traces: () => [engine.request, engine.requestBatch],
      close: () => prisma.$disconnect(),
    }
  },
  async sequelize(database) {
    const sequelize = sequelizeOn(database)
    const { options } = sequelize as unknown as { options: { hooks: Record<string, unknown[]> } }
    return {
      make: () => sequelizeTransactions(sequelize) as never,
      traces: () => options.hooks.beforeQuery ?? [],
      close: () => sequelize.close(),
    }
  },
  async typeorm(database) {
    const source = await typeormOn(database)
    return {
      make: () => typeormTransactions(source, { capture: true }) as never,
      traces: () => [...source.subscribers],
      close: () => source.destroy(),
    }
  },
}

describe.each(Object.keys(LIBRARIES))('%s', (name) => {
  it('is not wrapped again for a client that is made again', async () => {
    const database = await openDatabase(name === 'sequelize' ? 'postgres' : 'sqlite')
    const { make, traces, close } = await (LIBRARIES[name] as (typeof LIBRARIES)['kysely'])(database)
    onTestFinished(async () => {
      await close()
      await database.dispose()
    })
    const before = await traces()
    await make().run(async () => undefined)
    const once = await traces()
    expect(once).not.toEqual(before)
    for (let n = 0; n < 3; n++) await make().run(async () => undefined)
    expect(await traces()).toEqual(once)
  })
})

describe('statements that fail', () => {
  it('are noticed by whichever client runs the transaction', async () => {
    const database = await openDatabase('postgres')
    const db = kyselyOn(database)
    onTestFinished(async () => {
      await db.destroy()
      await database.dispose()
    })
    const clients = [kyselyTransactions(db), kyselyTransactions(db)]
    for (const client of [...clients, ...clients]) {
      const swallowing = client.run(async (tx) => {
        await tx.executeQuery(CompiledQuery.raw('SELECT no_such_column')).catch(() => undefined)
      })
      await expect(swallowing).rejects.toMatchObject({ code: 'POSTHASTE_COMMIT_ROLLED_BACK' })
    }
  })
})
