/** What single libraries do that the suite of all clients does not ask about. */
import { drizzle } from 'drizzle-orm/sql-js'
import pg from 'pg'
import { describe, expect, it, onTestFinished } from 'vitest'
import { drizzleTransactions } from '../../src/clients/drizzle.ts'
import { mikroOrmTransactions } from '../../src/clients/mikro-orm.ts'
import { pgTransactions } from '../../src/clients/pg.ts'
import { sequelizeTransactions } from '../../src/clients/sequelize.ts'
import { createOutbox, type Draft, defineEvent } from '../../src/index.ts'
import { postgresStore } from '../../src/stores/postgres/index.ts'
import { deferred, until } from '../publish/fixture.ts'
import { openDatabase, type TestDatabase } from './databases.ts'
import { openKnex } from './libraries/knex.ts'
import { openKysely } from './libraries/kysely.ts'
import { mikroOrmOn } from './libraries/mikro-orm.ts'
import { openPg } from './libraries/pg.ts'
import { openPostgresJs } from './libraries/postgres-js.ts'
import { sequelizeOn } from './libraries/sequelize.ts'
import { open, openOutbox } from './outbox-on.ts'

const event: Draft = { type: 'a', payload: 1 }

describe('postgres.js', () => {
  it('rolls back because of a value that it could not send: that is no lost connection', async () => {
    const { outbox, stored } = await open('postgres', openPostgresJs)
    const running = outbox.transaction(async (tx) => {
      await outbox.publish(tx, event)
      await tx`SELECT ${undefined as never}`.catch(() => undefined)
    })
    await expect(running).rejects.toMatchObject({ code: 'POSTHASTE_COMMIT_ROLLED_BACK' })
    expect(await stored()).toBe(0)
  })
})

describe('Sequelize', () => {
  const openSequelize = async () => {
    const database = await openDatabase('postgres')
    const sequelize = sequelizeOn(database)
    const { outbox, stored } = await openOutbox(database, sequelizeTransactions(sequelize))
    onTestFinished(async () => {
      await outbox.close()
      await sequelize.close()
      await database.dispose()
    })
    return { sequelize, outbox, stored }
  }

  it('has savepoints that outlive their transaction; their handles are refused', async () => {
    const { sequelize, outbox, stored } = await openSequelize()
    const kept = await sequelize.transaction((transaction) => sequelize.transaction({ transaction }))
    await expect(outbox.publish(kept, event)).rejects.toMatchObject({ code: 'POSTHASTE_NO_TRANSACTION' })
    expect(await stored()).toBe(0)
  })

  it('has hooks that fail after the commit: it is never said to be rolled back', async () => {
    const { sequelize, outbox, stored } = await openSequelize()
    const running = outbox.transaction(async (tx) => {
      await outbox.publish(tx, event)
      tx.afterCommit(async () => void (await sequelize.query('SELECT no_such_column')))
    })
    await expect(running).rejects.toMatchObject({ code: 'POSTHASTE_COMMIT_UNKNOWN' })
    expect(await stored()).toBe(1)
  })

  it('ends a transaction while a publish is on its way: that is said in our words', async () => {
    const { sequelize, outbox, stored } = await openSequelize()
    const tx = await sequelize.transaction()
    sequelize.addHook('beforeQuery', async (options) => {
      const { transaction, completesTransaction } = options as {
        transaction?: typeof tx
        completesTransaction?: boolean
      }
      if (transaction === tx && completesTransaction !== true) await tx.rollback()
    })
    await expect(outbox.publish(tx, event)).rejects.toMatchObject({ code: 'POSTHASTE_TRANSACTION_ENDED' })
    expect(await stored()).toBe(0)
  })

  it('is told of a BEGIN that fails as such', async () => {
    const sequelize = sequelizeOn({
      name: 'postgres',
      url: 'postgres://nobody@127.0.0.1:1/none',
    } as TestDatabase)
    const running = sequelizeTransactions(sequelize).run(async () => undefined)
    await expect(running).rejects.toMatchObject({ code: 'POSTHASTE_STORE_UNAVAILABLE' })
    await sequelize.close()
  })
})

describe('Knex', () => {
  it('has one listener on a transaction, however many savepoints publish', async () => {
    const { library, stored, outbox } = await open('sqlite', openKnex)
    const warnings: string[] = []
    const warn = ({ name }: Error): void => void warnings.push(name)
    process.on('warning', warn)
    onTestFinished(() => void process.off('warning', warn))
    await library.own(async (tx) => {
      for (let n = 0; n < 12; n++)
        await library.ownNested?.(tx, async (inner) => void (await outbox.publish(inner, event)))
    })
    expect(await stored()).toBe(12)
    await new Promise(setImmediate)
    expect(warnings).not.toContain('MaxListenersExceededWarning')
  })
})

describe('Kysely', () => {
  it('sends ROLLBACK past what waits: an idempotency key is not used up by it, not even for a moment', async () => {
    const { outbox, library, stored } = await open('mariadb', openKysely)
    const late: Promise<unknown>[] = []
    for (let n = 0; n < 20; n++) {
      const once = { ...event, idempotencyKey: `k${n}` }
      const failing = library.own(async (tx) => {
        const slow = library.exec(tx, 'SELECT SLEEP(0.01)')
        late.push(outbox.publish(tx, once))
        await Promise.all([slow, late.at(-1), Promise.reject(new Error('business'))])
      })
      await expect(failing).rejects.toThrow('business')
      await library.own(async (tx) => void (await outbox.publish(tx, once)))
    }
    await Promise.allSettled(late)
    expect(await stored()).toBe(20)
  })
})

describe('node-postgres', () => {
  const refusing = (after: Promise<void>): Draft => {
    const validate = async () => {
      await after
      return { issues: [{ message: 'no' }] }
    }
    return defineEvent('a', { schema: { '~standard': { version: 1, vendor: 'test', validate } } })(1)
  }

  // What nobody hears of ends a process, and fails this run.
  it('with a transaction that has failed: a schema that refuses afterwards is not heard of a second time', async () => {
    const { outbox, library } = await open('postgres', openPg)
    await library.own(async (tx) => {
      await library.exec(tx, 'SELECT nothing').catch(() => undefined)
      // The error comes before the word that the transaction has failed.
      await until(() => tx.getTransactionStatus() === 'E')
      const { promise, resolve } = deferred()
      const publish = outbox.publish(tx, refusing(promise))
      await expect(publish).rejects.toMatchObject({ code: 'POSTHASTE_NO_TRANSACTION' })
      resolve()
      await new Promise(setImmediate)
    })
  })

  it.each(['first', 'last'])(
    'with a store that cannot be opened, and a schema that refuses %s',
    async (when) => {
      const { library, database } = await open('postgres', openPg)
      const store = postgresStore({ connectionString: 'postgres://nobody@127.0.0.1:1/none' })
      const away = createOutbox({
        store,
        transactions: pgTransactions(new pg.Pool({ connectionString: database.url })),
      })
      onTestFinished(() => away.close())
      const opened = away.start().catch(() => undefined)
      await library.own(async (tx) => {
        const publish = away.publish(
          tx,
          refusing(when === 'first' ? Promise.resolve() : opened.then(() => undefined)),
        )
        await expect(publish).rejects.toBeDefined()
        await opened
        await new Promise(setImmediate)
      })
    },
  )
})

describe('Drizzle', () => {
  it('is refused with a driver that cannot wait', () => {
    expect(() => drizzleTransactions(drizzle({} as never) as never)).toThrow(/publishSync/)
  })
})

describe('MikroORM', () => {
  const openOrm = async () => {
    const database = await openDatabase('postgres')
    const orm = await mikroOrmOn(database)
    const transactions = mikroOrmTransactions(orm)
    const { outbox, stored } = await openOutbox(database, transactions)
    onTestFinished(async () => {
      await outbox.close()
      await orm.close()
      await database.dispose()
    })
    return { orm, transactions, outbox, stored }
  }

  it('does not tell of entity managers with an event manager of their own: the poller finds their events', async () => {
    const { orm, transactions, outbox, stored } = await openOrm()
    const ended = { committed: () => undefined, rolledBack: () => undefined }
    await orm.em.fork({ freshEventManager: true }).transactional(async (em) => {
      expect(transactions.observe?.(em as never, ended)).toBe(false)
      await outbox.publish(em as never, event)
    })
    await orm.em.fork().transactional(async (em) => {
      expect(transactions.observe?.(em as never, ended)).toBe(true)
      await em.transactional(async (inner) =>
        expect(transactions.observe?.(inner as never, ended)).toBe(true),
      )
    })
    expect(await stored()).toBe(1)
  })

  it('has subscribers that fail after the commit: it is never said to be rolled back', async () => {
    const { orm, outbox, stored } = await openOrm()
    let fails = true
    orm.em.getEventManager().registerSubscriber({
      afterTransactionCommit: async () => {
        if (!fails) return
        fails = false
        throw Object.assign(new Error('no'), { code: '23505', severity: 'ERROR' })
      },
    })
    const running = outbox.transaction((em) => outbox.publish(em, event))
    await expect(running).rejects.toMatchObject({ code: 'POSTHASTE_COMMIT_UNKNOWN' })
    expect(await stored()).toBe(1)
  })
})
