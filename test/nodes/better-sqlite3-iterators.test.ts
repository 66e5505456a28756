/** Iterators of better-sqlite3, which refuses COMMIT, ROLLBACK and savepoints while one is open. */
import Database from 'better-sqlite3'
import { expect, it, onTestFinished } from 'vitest'
import { sqliteStore } from '../../src/stores/sqlite/index.ts'
import { testContext, testFolder } from '../stores/sqlite-files.ts'
import { event, insertRequest, publish, read } from '../stores/sqlite-words.ts'

const ROWS = 'SELECT value FROM json_each(?)'

const open = async () => {
  const folder = testFolder()
  const database = new Database(folder.file)
  const store = sqliteStore({ database, busyTimeoutMs: 50 })
  await store.open(testContext())
  await store.schema.migrate()
  onTestFinished(async () => {
    await store.close()
    database.close()
    folder.remove()
  })
  const insert = (tx: typeof database) =>
    store.insert(store.transactions.executor(tx), insertRequest(event()))
  const stored = async (): Promise<number> => (await read(store)).fresh.length
  /** Begins to read, and does not finish. */
  const leaveOpen = (handle: typeof database) => {
    const iterator = handle.prepare(ROWS).iterate('[1,2,3]')
    iterator.next()
    return iterator
  }
  return { database, store, insert, stored, leaveOpen }
}

it('one that was left open does not keep its transaction from being committed', async () => {
  const { database, store, insert, stored, leaveOpen } = await open()
  let kept: Iterator<unknown> | undefined
  await store.transactions.run(async (tx) => {
    await insert(tx)
    kept = leaveOpen(tx)
  })
  expect([database.inTransaction, await stored()]).toEqual([false, 1])
  expect(() => kept?.next()).toThrow(expect.objectContaining({ code: 'POSTHASTE_TRANSACTION_ENDED' }))
})

it('nor from being rolled back, with the error that led to it', async () => {
  const { database, store, insert, stored, leaveOpen } = await open()
  const running = store.transactions.run(async (tx) => {
    await insert(tx)
    leaveOpen(tx)
    throw new Error('no')
  })
  await expect(running).rejects.toThrow('no')
  expect([database.inTransaction, await stored()]).toEqual([false, 0])
})

it.each(['commits', 'fails'])('nor a nested one that %s', async (how) => {
  const { store, insert, stored, leaveOpen } = await open()
  await store.transactions.run(async (tx) => {
    const nested = store.transactions.nested!(tx, async (inner) => {
      await insert(inner)
      leaveOpen(inner)
      if (how === 'fails') throw new Error('no')
    })
    if (how === 'fails') await expect(nested).rejects.toThrow('no')
    else await nested
  })
  expect(await stored()).toBe(how === 'fails' ? 0 : 1)
})

it('one on the raw handle fails the transaction, and the outbox goes on when it is closed', async () => {
  const { database, store, insert, stored, leaveOpen } = await open()
  let kept: Iterator<unknown> | undefined
  const running = store.transactions.run(async (tx) => {
    await insert(tx)
    kept = leaveOpen(database)
  })
  await expect(running).rejects.toMatchObject({ code: 'POSTHASTE_COMMIT_ROLLED_BACK' })
  kept?.return?.()
  await publish(store)
  expect(await stored()).toBe(1)
})
