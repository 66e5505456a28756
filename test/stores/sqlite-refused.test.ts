/**
 * A connection that refuses COMMIT and ROLLBACK for a while, as one of better-sqlite3 does under an open iterator: nobody
 * else may have to wait for that longer than it lasts.
 */
import Database from 'libsql'
import { expect, it, onTestFinished } from 'vitest'
import { createOutbox } from '../../src/index.ts'
import { sqliteStore } from '../../src/stores/sqlite/index.ts'
import { testContext } from './sqlite-files.ts'
import { event, insertRequest, publish, read } from './sqlite-words.ts'

const REFUSAL = 'This database connection is busy executing a query'
const ROLLED_BACK = { code: 'POSTHASTE_COMMIT_ROLLED_BACK' }

const open = async () => {
  const database = new Database(':memory:')
  const store = sqliteStore({ database, busyTimeoutMs: 20 })
  await store.open(testContext())
  await store.schema.migrate()
  onTestFinished(async () => {
    await store.close()
    database.close()
  })
  const exec = database.exec.bind(database)
  const state = { refuses: false }
  database.exec = (sql: string) => {
    if (state.refuses) throw new TypeError(REFUSAL)
    return exec(sql)
  }
  const insert = (tx: typeof database) =>
    store.insert(store.transactions.executor(tx), insertRequest(event()))
  /** A transaction that its ROLLBACK leaves open. */
  const leave = async (): Promise<void> => {
    const begun = await store.transactions.begin!()
    await insert(begun.tx)
    state.refuses = true
    await expect(begun.rollback()).rejects.toThrow(REFUSAL)
    state.refuses = false
  }
  return { database, store, state, insert, leave }
}

it('a COMMIT and a ROLLBACK that are refused give the turn back, and what was left is rolled back by the next', async () => {
  const { database, store, state, insert } = await open()
  const running = store.transactions.run(async (tx) => {
    await insert(tx)
    state.refuses = true
  })
  await expect(running).rejects.toMatchObject({ ...ROLLED_BACK, cause: { message: REFUSAL } })
  expect(database.inTransaction).toBe(true)
  await expect(publish(store)).rejects.toMatchObject({ code: 'POSTHASTE_STORE_BUSY' })
  state.refuses = false
  await publish(store)
  expect((await read(store)).fresh).toHaveLength(1)
})

it('a ROLLBACK that is refused does not hide the error that led to it', async () => {
  const { store, state, insert } = await open()
  const thrown = new Error('no')
  const running = store.transactions.run(async (tx) => {
    await insert(tx)
    state.refuses = true
    throw thrown
  })
  await expect(running).rejects.toBe(thrown)
  state.refuses = false
  await publish(store)
  expect((await read(store)).fresh).toHaveLength(1)
})

it('a ROLLBACK by hand that is refused says so, and gives the turn back', async () => {
  const { store, leave } = await open()
  await leave()
  await publish(store)
  expect((await read(store)).fresh).toHaveLength(1)
})

it('an event on the database itself does not go with what is left', async () => {
  const { database, store, leave } = await open()
  await leave()
  expect(store.transactions.inTransaction?.(database)).toBe(false)
  expect(() => store.transactions.executor(database)).toThrow(
    expect.objectContaining({ code: 'POSTHASTE_NO_TRANSACTION' }),
  )
  await publish(store)
  expect((await read(store)).fresh).toHaveLength(1)
})

it('what was left and has been ended by hand is not rolled back again', async () => {
  const { database, store, leave } = await open()
  await leave()
  database.exec('ROLLBACK')
  await publish(store)
  expect((await read(store)).fresh).toHaveLength(1)
})

it('a savepoint that cannot be undone keeps its error, and nothing of the transaction is committed', async () => {
  const { store, state, insert } = await open()
  const thrown = new Error('no')
  const running = store.transactions.run(async (tx) => {
    await insert(tx)
    const nested = store.transactions.nested!(tx, async (inner) => {
      await insert(inner)
      state.refuses = true
      throw thrown
    })
    await expect(nested).rejects.toBe(thrown)
    state.refuses = false
  })
  await expect(running).rejects.toMatchObject(ROLLED_BACK)
  expect((await read(store)).fresh).toEqual([])
})

it('an iterator of a transaction that is over says so instead of going on', async () => {
  const { store } = await open()
  let kept: Iterator<unknown> | undefined
  let left: Iterator<unknown> | undefined
  await store.transactions.run(async (tx) => {
    const numbers = tx.prepare('SELECT value FROM json_each(?)')
    expect([...numbers.iterate('[1,2]')]).toHaveLength(2)
    kept = numbers.iterate('[1,2]')[Symbol.iterator]()
    expect(kept.next().done).toBe(false)
    await store.transactions.nested!(tx, async (inner) => {
      left = inner.prepare('SELECT 1').iterate()
      // One that was begun outside may go on.
      expect(kept?.next().done).toBe(false)
    })
    expect(() => left?.next()).toThrow(expect.objectContaining({ code: 'POSTHASTE_TRANSACTION_ENDED' }))
  })
  expect(() => kept?.next()).toThrow(expect.objectContaining({ code: 'POSTHASTE_TRANSACTION_ENDED' }))
})

it('an event without its deliveries that cannot be removed again is not committed', async () => {
  const { database, store } = await open()
  await using outbox = createOutbox({ store, destinations: { alpha: { events: ['*'] } } })
  database.exec(`CREATE TABLE shop (id INTEGER);
    CREATE TRIGGER refused BEFORE INSERT ON outbox_deliveries BEGIN SELECT RAISE(ABORT, 'refused'); END;
    CREATE TRIGGER kept BEFORE DELETE ON outbox_events BEGIN SELECT RAISE(ABORT, 'kept'); END`)
  const running = outbox.transaction(async (tx) => {
    tx.exec('INSERT INTO shop VALUES (1)')
    await expect(outbox.publish(tx, { type: 'order.placed', payload: {} })).rejects.toMatchObject({
      detail: { isHalfStored: true },
      message: expect.stringMatching(/refused.*could not be removed/s),
    })
  })
  await expect(running).rejects.toMatchObject(ROLLED_BACK)
  const counts = database.prepare(
    'SELECT (SELECT COUNT(*) FROM shop) AS shop, (SELECT COUNT(*) FROM outbox_events) AS events',
  )
  expect(counts.get()).toMatchObject({ shop: 0, events: 0 })
})
