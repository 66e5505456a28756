/**
 * A savepoint that SQLite is sent without a transaction begins one, and its release commits. So a nested transaction must
 * not run when the one around it is over, however that came about; and nobody pays for that who does not nest.
 */
import { Kysely, SqliteDialect, sql } from 'kysely'
import Database from 'libsql'
import { describe, expect, it, onTestFinished } from 'vitest'
import { kyselyTransactions } from '../../src/clients/kysely.ts'
import type { Transactions } from '../../src/core/spi/index.ts'
import { createOutbox } from '../../src/index.ts'
import { type SqlExecutor, sqliteStore } from '../../src/stores/sqlite/index.ts'
import { openTypeorm } from './libraries/typeorm.ts'
import { ENDED, event, libraries, type Open, open, ROLLED_BACK, UNKNOWN } from './sqlite-lost.ts'

const LOSE = 'INSERT OR ROLLBACK INTO client_parents VALUES (1)'

/** One statement ends the transaction; it is swallowed. */
const opened = async (openLibrary: Open) => {
  const world = await open(openLibrary)
  const { library, outbox, hand } = world
  hand.exec('INSERT INTO client_parents VALUES (1)')
  const send = (tx: never, sql: string): Promise<unknown> => library.exec(tx, sql).catch(() => undefined)
  let began = false
  const nest = (): Promise<void> =>
    outbox.transaction(async (inner) => {
      began = true
      await library.exec(inner, 'INSERT INTO client_rows VALUES (2)')
      await outbox.publish(inner, event)
    })
  const remains = async () => ({
    began,
    stored: await world.stored(),
    rows: await world.database.numbers(),
    marks: world.left(),
  })
  return { ...world, send, nest, remains }
}

const NOTHING = { began: false, stored: 0, rows: [], marks: 0 }

/** Somebody else, who writes. */
const otherOn = (url: string) => {
  const other = new Database(url)
  onTestFinished(() => void other.close())
  return other
}

describe.each(libraries)('nested in a transaction that is over: %s', (_, openLibrary) => {
  it.each([
    ['before it', true],
    ['after it', false],
  ])('a statement that ends it is under way, and was sent %s', async (_when, isFirst) => {
    const { outbox, send, nest, stored, left } = await opened(openLibrary)
    const running = outbox.transaction(async (tx) => {
      const steps = [() => send(tx, LOSE), nest]
      await Promise.all((isFirst ? steps : steps.reverse()).map((step) => step()))
    })
    await expect(running).rejects.toThrow()
    expect([await stored(), left()]).toEqual([0, 0])
  })

  it('a statement ends it just before the savepoint, and the error of the nested one is swallowed', async () => {
    const { outbox, library, send, nest, remains } = await opened(openLibrary)
    const transactions = library.transactions as Transactions<never, SqlExecutor>
    const nested = transactions.nested?.bind(transactions)
    transactions.nested = async (tx, fn) => {
      await send(tx, LOSE)
      return await (nested as NonNullable<typeof nested>)(tx, fn)
    }
    const running = outbox.transaction(async () => {
      await expect(nest()).rejects.toMatchObject(ROLLED_BACK)
    })
    await expect(running).rejects.toMatchObject(ROLLED_BACK)
    expect(await remains()).toEqual(NOTHING)
  })

  it('a statement on the handle around a nested one ends it', async () => {
    const { outbox, send, nest, remains } = await opened(openLibrary)
    const running = outbox.transaction(async (tx) => {
      await outbox.transaction(async () => {
        await send(tx, LOSE)
        await nest()
      })
    })
    await expect(running).rejects.toMatchObject(ROLLED_BACK)
    expect(await remains()).toEqual(NOTHING)
  })

  it.each(['ROLLBACK', 'COMMIT'])('%s by hand', async (sql) => {
    const { outbox, library, nest, remains } = await opened(openLibrary)
    const running = outbox.transaction(async (tx) => {
      await library.exec(tx, sql)
      await expect(nest()).rejects.toMatchObject(ENDED)
    })
    await expect(running).rejects.toMatchObject(ENDED)
    expect(await remains()).toEqual(NOTHING)
  })

  it('leaves no mark behind where it is not over, whatever becomes of the nested one', async () => {
    const { outbox, nest, remains } = await opened(openLibrary)
    await outbox.transaction(async () => {
      await nest()
      const undone = outbox.transaction(async () => {
        await nest()
        throw new Error('undone')
      })
      await expect(undone).rejects.toThrow('undone')
    })
    expect(await remains()).toEqual({ began: true, stored: 1, rows: [2], marks: 0 })
  })
})

describe.each(libraries)('the end of a transaction: %s', (_, openLibrary) => {
  it.each(['writes', 'has written'])('that only reads is well while somebody else %s', async (what) => {
    const { outbox, database, library, send } = await opened(openLibrary)
    const other = otherOn(database.url)
    await outbox.transaction(async (tx) => {
      await library.exec(tx, 'SELECT n FROM client_rows')
      await send(tx, 'SELECT nothing FROM client_rows')
      other.exec('BEGIN IMMEDIATE; INSERT INTO client_rows VALUES (9)')
      if (what === 'has written') other.exec('COMMIT')
    })
  })

  it.each([
    ['ROLLBACK by hand', 'ROLLBACK'],
    ['a statement that nobody awaits', LOSE],
  ])('that had events, and was ended by %s', async (_how, sql) => {
    const { outbox, send, remains } = await opened(openLibrary)
    const running = outbox.transaction(async (tx) => {
      await outbox.publish(tx, event)
      void send(tx, sql)
    })
    await expect(running).rejects.toMatchObject(ROLLED_BACK)
    expect(await remains()).toEqual(NOTHING)
  })

  it('that was committed by hand after an error in it is not said to be rolled back', async () => {
    const { outbox, library, send, stored } = await opened(openLibrary)
    const running = outbox.transaction(async (tx) => {
      await outbox.publish(tx, event)
      await send(tx, 'SELECT nothing FROM client_rows')
      await library.exec(tx, 'COMMIT')
    })
    await expect(running).rejects.toMatchObject({
      code: expect.stringMatching(/^POSTHASTE_(?:COMMIT_UNKNOWN|TRANSACTION_ENDED)$/),
    })
    expect(await stored()).toBe(1)
  })

  it('that had no events, and was ended by hand, is unknown, and no connection was lost', async () => {
    const { outbox, library } = await opened(openLibrary)
    const running = outbox.transaction((tx) => library.exec(tx, 'ROLLBACK'))
    await expect(running).rejects.toMatchObject({
      ...UNKNOWN,
      message: expect.stringContaining('ended before its COMMIT'),
    })
  })

  it('that had no events, and in which an error was swallowed, is known to be none', async () => {
    const { outbox, send } = await opened(openLibrary)
    await expect(outbox.transaction((tx) => send(tx, LOSE))).rejects.toMatchObject(ROLLED_BACK)
  })
})

it('an error outside of any transaction is not one of the next, with the one connection of TypeORM', async () => {
  const { outbox, library } = await opened(openTypeorm as unknown as Open)
  const [source] = library.outside as readonly { query(sql: string): Promise<unknown> }[]
  await expect(source?.query('SELECT nothing')).rejects.toThrow()
  await expect(outbox.transaction((tx) => library.exec(tx, 'ROLLBACK'))).rejects.toMatchObject(UNKNOWN)
})

it('nor does one run in memory, on the connection that the store shares with Kysely', async () => {
  const handle = new Database(':memory:')
  const db = new Kysely<Record<string, never>>({ dialect: new SqliteDialect({ database: handle as never }) })
  const transactions = kyselyTransactions(db)
  const outbox = createOutbox({ store: sqliteStore({ database: handle }), transactions, migrate: true })
  outbox.onAny(() => undefined)
  await outbox.start()
  onTestFinished(async () => {
    await outbox.close()
    await db.destroy()
  })
  const nest = () => outbox.transaction((inner) => outbox.publish(inner, event))
  await outbox.transaction(nest)
  const running = outbox.transaction(async (tx) => {
    await sql`CREATE TABLE once (n integer PRIMARY KEY)`.execute(tx)
    await sql`INSERT INTO once VALUES (1)`.execute(tx)
    await sql`INSERT OR ROLLBACK INTO once VALUES (1)`.execute(tx).catch(() => undefined)
    await nest()
  })
  await expect(running).rejects.toMatchObject(ROLLED_BACK)
  expect((await outbox.inspect.list()).deliveries).toHaveLength(1)
})
