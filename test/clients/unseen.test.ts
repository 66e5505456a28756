/** What takes a transaction away without the client being told: an event of it must not be stored on its own. */
import { createRequire } from 'node:module'
import { Kysely, PostgresDialect, sql } from 'kysely'
import { DataSource, type DataSourceOptions } from 'typeorm'
import { describe, expect, it, onTestFinished } from 'vitest'
import { kyselyTransactions } from '../../src/clients/kysely.ts'
import { mikroOrmTransactions } from '../../src/clients/mikro-orm.ts'
import { typeormTransactions } from '../../src/clients/typeorm.ts'
import { createOutbox, type Draft } from '../../src/index.ts'
import { openDatabase, type TestDatabase } from './databases.ts'
import { openDrizzle } from './libraries/drizzle.ts'
import { openKnex } from './libraries/knex.ts'
import { openKysely } from './libraries/kysely.ts'
import { mikroOrmOn } from './libraries/mikro-orm.ts'
import { poolOn } from './libraries/pg.ts'
import { openSequelize } from './libraries/sequelize.ts'
import { openTypeorm } from './libraries/typeorm.ts'
import type { OpenLibrary } from './library.ts'
import { open, openOutbox } from './outbox-on.ts'

const event: Draft = { type: 'a', payload: 1 }
const ROLLED_BACK = { code: 'POSTHASTE_COMMIT_ROLLED_BACK' }
const ENDED = { code: 'POSTHASTE_TRANSACTION_ENDED' }

const readAll = async (rows: AsyncIterable<unknown>): Promise<void> => {
  for await (const _ of rows);
}

/** MikroORM brings it along. */
const cursorOf = () =>
  createRequire(createRequire(import.meta.url).resolve('@mikro-orm/postgresql'))('pg-cursor')

describe('a streamed query that fails, swallowed: the commit that says ROLLBACK is an error', () => {
  it('with Kysely', async () => {
    const database = await openDatabase('postgres')
    const db = new Kysely<Record<string, never>>({
      dialect: new PostgresDialect({ pool: poolOn(database), cursor: cursorOf() }),
    })
    const { outbox, stored } = await openOutbox(database, kyselyTransactions(db))
    onTestFinished(async () => {
      await outbox.close()
      await db.destroy()
      await database.dispose()
    })
    const stream = (text: string) =>
      outbox.transaction(async (tx) => {
        await outbox.publish(tx, event)
        await readAll(tx.selectNoFrom(sql.raw(text).as('x')).stream()).catch(() => undefined)
      })
    await expect(stream('1 / 0')).rejects.toMatchObject(ROLLED_BACK)
    expect(await stored()).toBe(0)
    await stream('1')
    expect(await stored()).toBe(1)
  })

  it('with MikroORM', async () => {
    const database = await openDatabase('postgres')
    const orm = await mikroOrmOn(database)
    const { outbox, stored } = await openOutbox(database, mikroOrmTransactions(orm))
    onTestFinished(async () => {
      await outbox.close()
      await orm.close()
      await database.dispose()
    })
    const running = outbox.transaction(async (em) => {
      await outbox.publish(em, event)
      // Its table was never made.
      await expect(readAll(em.stream('Unused' as never))).rejects.toThrow('does not exist')
    })
    await expect(running).rejects.toMatchObject(ROLLED_BACK)
    expect(await stored()).toBe(0)
  })
})

type Open = (database: TestDatabase) => Promise<OpenLibrary<never>>

describe.each(
  Object.entries({ openDrizzle, openKnex, openSequelize, openTypeorm }) as unknown as [string, Open][],
)('ROLLBACK and COMMIT sent by hand on PostgreSQL: %s', (_, openLibrary) => {
  it.each(['ROLLBACK', 'COMMIT'])(
    'nothing is published after %s, and the transaction is not said to be well',
    async (text) => {
      const { library, outbox, stored } = await open('postgres', openLibrary)
      const running = outbox.transaction(async (tx) => {
        await library.exec(tx, text)
        await expect(outbox.publish(tx, event)).rejects.toMatchObject(ENDED)
      })
      await expect(running).rejects.toMatchObject(ENDED)
      expect(await stored()).toBe(0)
    },
  )

  it('nor in a transaction of the application', async () => {
    const { library, outbox, stored } = await open('postgres', openLibrary)
    await library.own(async (tx) => {
      await library.exec(tx, 'ROLLBACK')
      // Before it is sent, or because of what is left of its place, where the connection was not known yet.
      const code = expect.stringMatching(/^POSTHASTE_(?:NO_TRANSACTION|TRANSACTION_ENDED)$/)
      await expect(outbox.publish(tx, event)).rejects.toMatchObject({ code })
    })
    expect(await stored()).toBe(0)
  })
})

describe('a deadlock that was swallowed', () => {
  it('is seen with a handle that Kysely made of another', async () => {
    const { database, library, outbox, stored } = await open('mariadb', openKysely)
    const running = outbox.transaction(async (tx) => {
      await expect(database.deadlock?.((text) => library.exec(tx, text))).rejects.toThrow()
      await expect(outbox.publish(tx.withoutPlugins(), event)).rejects.toMatchObject(ROLLED_BACK)
    })
    await expect(running).rejects.toMatchObject(ROLLED_BACK)
    expect(await stored()).toBe(0)
  })

  it.each(['outer', 'inner'])(
    'is seen with entity managers of MikroORM that have an event manager of their own: %s',
    async (which) => {
      const database = await openDatabase('mariadb')
      const orm = await mikroOrmOn(database)
      const { outbox, stored } = await openOutbox(database, mikroOrmTransactions(orm))
      onTestFinished(async () => {
        await outbox.close()
        await orm.close()
        await database.dispose()
      })
      const meet = async (em: object): Promise<void> => {
        const { execute } = em as { execute(text: string): Promise<unknown> }
        await expect(database.deadlock?.((text) => execute.call(em, text))).rejects.toThrow()
        await expect(outbox.publish(em as never, event)).rejects.toMatchObject(ROLLED_BACK)
      }
      const fork = orm.em.fork({ freshEventManager: true })
      const running = fork.transactional(async (em) => {
        await em.transactional((inner) => outbox.publish(inner as never, event))
        await outbox.publish(em as never, event)
        await em.transactional((inner) => outbox.publish(inner as never, event))
        await (which === 'outer' ? meet(em) : em.transactional(meet))
      })
      await running.catch(() => undefined)
      expect(await stored()).toBe(0)
    },
  )

  it('is seen with a data source of TypeORM that was initialised after the client was made', async () => {
    const database = await openDatabase('mariadb')
    const source = new DataSource({ type: 'mariadb', url: database.url } as DataSourceOptions)
    const outbox = createOutbox({
      store: database.store,
      transactions: typeormTransactions(source),
      migrate: true,
    })
    await source.initialize()
    onTestFinished(async () => {
      await outbox.close()
      await source.destroy()
      await database.dispose()
    })
    await source.transaction(async (manager) => {
      await expect(database.deadlock?.((text) => manager.query(text))).rejects.toThrow()
      await expect(outbox.publish(manager, event)).rejects.toMatchObject(ROLLED_BACK)
    })
    expect((await outbox.inspect.list()).deliveries).toEqual([])
  })
})
