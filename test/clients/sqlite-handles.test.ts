/** Clients of SQLite on a handle of the application's: its own transactions, and the store's door. */
import Database from 'libsql'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { betterSqlite3Transactions } from '../../src/clients/better-sqlite3.ts'
import { libsqlTransactions } from '../../src/clients/libsql.ts'
import { createOutbox } from '../../src/core/outbox.ts'
import { sqliteStore } from '../../src/stores/sqlite/index.ts'
import { type TestFolder, testFolder } from '../stores/sqlite-files.ts'

let folder: TestFolder
let database: InstanceType<typeof Database>

beforeEach(() => {
  folder = testFolder()
  database = new Database(folder.file)
})

afterEach(() => {
  database.close()
  folder.remove()
})

const open = async () => {
  const outbox = createOutbox({
    store: sqliteStore({ file: folder.file, driver: 'libsql' }),
    transactions: libsqlTransactions(database),
  })
  const heard: string[] = []
  outbox.onAny(({ type }) => void heard.push(type))
  await outbox.start()
  return { outbox, heard, [Symbol.asyncDispose]: () => outbox.close() }
}

const event = (type: string) => ({ type, payload: 1 })

describe('a client of SQLite', () => {
  it('publishes in the library’s own synchronous transaction, and with it takes the event back', async () => {
    await using world = await open()
    const { outbox } = world
    database.exec('CREATE TABLE orders (n int)')
    const place = database.transaction((type: string, fails: boolean) => {
      database.exec('INSERT INTO orders VALUES (1)')
      outbox.publishSync(database, event(type))
      if (fails) throw new Error('no')
    })
    place('kept', false)
    expect(() => place('undone', true)).toThrow('no')
    expect(() => outbox.publishSync(database, event('outside'))).toThrow(/transaction/)
    await outbox.flush()
    expect(world.heard).toEqual(['kept'])
    expect(database.prepare('SELECT count(*) AS n FROM orders').get([])).toMatchObject({ n: 1 })
  })

  it('waits at the same door as the store of its file', async () => {
    await using world = await open()
    const { outbox } = world
    const beside = sqliteStore({ file: folder.file, driver: 'libsql' })
    const second = createOutbox({ store: beside })
    await second.start()
    const order: string[] = []
    let began: () => void = () => undefined
    const hasBegun = new Promise<void>((resolve) => {
      began = resolve
    })
    let finish: () => void = () => undefined
    const mayFinish = new Promise<void>((resolve) => {
      finish = resolve
    })
    const ofClient = outbox.transaction(async (tx) => {
      await outbox.publish(tx, event('client'))
      began()
      await mayFinish
      order.push('client')
    })
    await hasBegun
    const ofStore = second.transaction(async (tx) => {
      order.push('store')
      await second.publish(tx, event('store'))
    })
    finish()
    await Promise.all([ofClient, ofStore])
    expect(order).toEqual(['client', 'store'])
    await second.close()
  })

  it('of another database than the store is noticed: nobody would deliver what it stores', async () => {
    const elsewhere = testFolder()
    const told: string[] = []
    const outbox = createOutbox({
      store: sqliteStore({ file: elsewhere.file, driver: 'libsql' }),
      transactions: libsqlTransactions(database),
      logger: { log: (level, message) => void (level === 'error' && told.push(message)) },
    })
    const beside = createOutbox({
      store: sqliteStore({ file: folder.file, driver: 'libsql' }),
      migrate: true,
    })
    await beside.schema.migrate()
    for (let n = 0; n < 4; n++) await outbox.transaction((tx) => outbox.publish(tx, event('lost')))
    await vi.waitUntil(() => told.length > 0, { timeout: 60_000 })
    expect(told).toEqual([expect.stringContaining('two databases')])
    await outbox.close()
    await beside.close()
    elsewhere.remove()
  })

  it('refuses the database of another library, and one of another file', async () => {
    expect(() => betterSqlite3Transactions(database)).toThrow(/better-sqlite3/)
    expect(() => libsqlTransactions({} as never)).toThrow(/libsql/)
    await using world = await open()
    const other = new Database(':memory:')
    other.exec('BEGIN')
    await expect(world.outbox.publish(other, event('a'))).rejects.toMatchObject({
      code: 'POSTHASTE_NO_TRANSACTION',
    })
    other.close()
  })
})
