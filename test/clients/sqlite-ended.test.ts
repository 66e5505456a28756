/** SQLite rolls a transaction back by itself and stores what comes next on its own: an event of it must not be. */
import { Kysely, SqliteDialect, sql } from 'kysely'
import Database from 'libsql'
import { describe, expect, it, onTestFinished } from 'vitest'
import { kyselyTransactions } from '../../src/clients/kysely.ts'
import { createOutbox } from '../../src/index.ts'
import { sqliteStore } from '../../src/stores/sqlite/index.ts'
import { deferred } from '../publish/fixture.ts'
import { ENDED, event, lateEvent, libraries, losses, open, ROLLED_BACK, UNKNOWN } from './sqlite-lost.ts'

describe.each(libraries)('a transaction that SQLite has rolled back, swallowed: %s', (_, openLibrary) => {
  it.each(losses)('%s: what is published afterwards is refused, and nothing is stored', async (how) => {
    const { outbox, database, stored, lose } = await open(openLibrary)
    const running = outbox.transaction(async (tx) => {
      await outbox.publish(tx, event)
      await lose(tx, how)
      await expect(outbox.publish(tx, event)).rejects.toMatchObject(ENDED)
      await outbox.publish(tx, { ...event, idempotencyKey: 'k' })
    })
    await expect(running).rejects.toMatchObject(ENDED)
    expect(await stored()).toBe(0)
    expect(await database.numbers()).toEqual([])
  })

  it('nor is an idempotency key used up, or a mark left', async () => {
    const { outbox, stored, lose, left } = await open(openLibrary)
    const { promise, resolve } = deferred()
    const running = outbox.transaction(async (tx) => {
      await lose(tx, 'INSERT OR ROLLBACK')
      await expect(outbox.publish(tx, { ...event, idempotencyKey: 'k' })).rejects.toMatchObject(ENDED)
      const late = outbox.publish(tx, lateEvent(promise))
      resolve()
      await late
    })
    await expect(running).rejects.toMatchObject(ENDED)
    expect([await stored(), left()]).toEqual([0, 0])
  })

  it('while a publish waits for its schema', async () => {
    const { outbox, stored, lose, left } = await open(openLibrary)
    const { promise, resolve } = deferred()
    const running = outbox.transaction(async (tx) => {
      const late = outbox.publish(tx, lateEvent(promise))
      await lose(tx, 'INSERT OR ROLLBACK')
      resolve()
      await late
    })
    await expect(running).rejects.toMatchObject(ENDED)
    expect([await stored(), left()]).toEqual([0, 0])
  })

  it('beside a publish that nobody has awaited yet', async () => {
    const { outbox, stored, lose } = await open(openLibrary)
    const running = outbox.transaction(async (tx) => {
      await Promise.allSettled([
        lose(tx, 'INSERT OR ROLLBACK'),
        outbox.publish(tx, event),
        outbox.publish(tx, event),
      ])
    })
    await expect(running).rejects.toMatchObject(ROLLED_BACK)
    expect(await stored()).toBe(0)
  })

  it('the commit of outbox.transaction is known to be none', async () => {
    const { outbox, stored, lose } = await open(openLibrary)
    const running = outbox.transaction(async (tx) => {
      await outbox.publish(tx, event)
      await lose(tx, 'INSERT OR ROLLBACK')
    })
    await expect(running).rejects.toMatchObject(ROLLED_BACK)
    expect(await stored()).toBe(0)
  })

  it('a nested transaction does not begin, because it would be one of its own', async () => {
    const { outbox, database, library, stored, lose } = await open(openLibrary)
    let began = false
    const running = outbox.transaction(async (tx) => {
      await lose(tx, 'INSERT OR ROLLBACK')
      const nested = outbox.transaction(async (inner) => {
        began = true
        await library.exec(inner, 'INSERT INTO client_rows VALUES (2)')
        await outbox.publish(inner, event)
      })
      await expect(nested).rejects.toMatchObject(ROLLED_BACK)
    })
    await expect(running).rejects.toMatchObject(ROLLED_BACK)
    expect([began, await stored(), await database.numbers()]).toEqual([false, 0, []])
  })

  it('a COMMIT by hand leaves the outcome unknown', async () => {
    const { outbox, library, stored } = await open(openLibrary)
    const running = outbox.transaction(async (tx) => {
      await outbox.publish(tx, event)
      await library.exec(tx, 'COMMIT')
    })
    await expect(running).rejects.toMatchObject(UNKNOWN)
    expect(await stored()).toBe(1)
  })

  it.each(losses)('%s, in a transaction of the application', async (how) => {
    const { outbox, library, stored, lose } = await open(openLibrary)
    const running = library.own(async (tx) => {
      await outbox.publish(tx, event)
      await lose(tx, how)
      await expect(outbox.publish(tx, event)).rejects.toMatchObject(ENDED)
    })
    await expect(running).rejects.toThrow('no transaction is active')
    expect(await stored()).toBe(0)
  })
})

const onHandles = (ofStore: Database.Database, ofLibrary: Database.Database) => {
  const db = new Kysely<Record<string, never>>({
    dialect: new SqliteDialect({ database: ofLibrary as never }),
  })
  const store = sqliteStore({ database: ofStore })
  return { db, outbox: createOutbox({ store, transactions: kyselyTransactions(db), migrate: true }) }
}

describe('a database in memory, which the store shares with Kysely', () => {
  it('has events with their data, and none after SQLite has rolled back', async () => {
    const handle = new Database(':memory:')
    const { db, outbox } = onHandles(handle, handle)
    const heard: string[] = []
    outbox.onAny(({ type }) => void heard.push(type))
    await outbox.start()
    onTestFinished(async () => {
      await outbox.close()
      await db.destroy()
    })
    await outbox.transaction((tx) => outbox.publish(tx, event))
    const running = outbox.transaction(async (tx) => {
      await sql`CREATE TABLE once (n integer PRIMARY KEY)`.execute(tx)
      await sql`INSERT INTO once VALUES (1)`.execute(tx)
      await sql`INSERT OR ROLLBACK INTO once VALUES (1)`.execute(tx).catch(() => undefined)
      await outbox.publish(tx, { ...event, type: 'b' })
    })
    await expect(running).rejects.toMatchObject(ENDED)
    await outbox.flush()
    expect(heard).toEqual(['a'])
    expect((await outbox.inspect.list()).deliveries).toHaveLength(1)
  })
})

it('a database in memory whose cache connections share: each has its own transaction', async () => {
  const at = 'file:shared-by-two?mode=memory&cache=shared'
  const [ofStore, ofLibrary] = [new Database(at), new Database(at)]
  const { db, outbox } = onHandles(ofStore, ofLibrary)
  outbox.onAny(() => undefined)
  await outbox.start()
  onTestFinished(async () => {
    await outbox.close()
    await db.destroy()
    ofStore.close()
  })
  await outbox.transaction((tx) => outbox.publish(tx, event))
  expect((await outbox.inspect.list()).deliveries).toHaveLength(1)
})
