/** What is special about transactions on SQLite: one connection, synchronous, and easy to end by accident. */
import Database from 'libsql'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Store } from '../../src/core/spi/index.ts'
import type { SqlExecutor, SqliteHandle } from '../../src/stores/sqlite/index.ts'
import { sqliteStore } from '../../src/stores/sqlite/index.ts'
import { type TestFolder, testContext, testFolder } from './sqlite-files.ts'
import { doneSettlements, event, insertRequest, publish, read, settle, worker } from './sqlite-words.ts'

type Handle = InstanceType<typeof Database>

const code = (name: string) => expect.objectContaining({ code: `POSTHASTE_${name}` })
/** Whatever could go on by itself has had many chances then. */
const manyTurns = async (): Promise<void> => {
  for (let turns = 0; turns < 40; turns++) await new Promise((resolve) => setImmediate(resolve))
}

let folder: TestFolder
const closing: (() => Promise<void> | void)[] = []

beforeEach(() => {
  folder = testFolder()
})

afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close()
  folder.remove()
})

const openFile = async (busyTimeoutMs = 5_000): Promise<Store<SqliteHandle, SqlExecutor>> => {
  const store = sqliteStore({ file: folder.file, driver: 'libsql', busyTimeoutMs })
  await store.open(testContext())
  await store.schema.migrate()
  closing.push(() => store.close())
  return store
}

const openBeside = async (file: string, busyTimeoutMs = 5_000) => {
  const database: Handle = new Database(file)
  const store = sqliteStore({ database, busyTimeoutMs })
  await store.open(testContext())
  await store.schema.migrate()
  database.exec('CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, body BLOB) STRICT')
  closing.push(async () => {
    await store.close()
    database.close()
  })
  return { database, store }
}

describe('the handle of a transaction', () => {
  it('is small and the same for every driver, without the oddities of libsql', async () => {
    const store = await openFile()
    await store.transactions.run(async (tx) => {
      tx.exec('CREATE TABLE orders (id INTEGER PRIMARY KEY, body BLOB)')
      const insert = tx.prepare('INSERT INTO orders (body) VALUES (?)')
      expect(Number(insert.run(new Uint8Array([1, 2, 3])).changes)).toBe(1)
      const row = tx.prepare('SELECT id, body FROM orders WHERE id = ?').get(1)
      expect(Object.keys(row ?? {})).toEqual(['id', 'body'])
      expect(tx.prepare('SELECT body FROM orders').all()[0]?.body).toBeInstanceOf(Uint8Array)
      expect(tx.prepare('SELECT id FROM orders WHERE id = @id').all({ id: 1 })).toEqual([{ id: 1 }])
      expect(tx.prepare('SELECT 1 AS one WHERE 0').get()).toBeUndefined()
    })
  })

  it('refuses values that would end the process', async () => {
    const store = await openFile()
    await store.transactions.run(async (tx) => {
      const statement = tx.prepare('SELECT ?')
      expect(() => statement.get(true as never)).toThrow(TypeError)
      expect(() => statement.all({ a: undefined })).toThrow(TypeError)
    })
  })

  it('is the application’s own handle, guarded', async () => {
    const { store, database } = await openBeside(folder.file)
    await store.transactions.run(async (tx) => {
      expect(tx).not.toBe(database)
      expect(tx.inTransaction).toBe(true)
      tx.prepare('INSERT INTO orders (body) VALUES (?)').run([Buffer.from('x')])
      expect(tx.prepare('SELECT count(*) AS n FROM orders').pluck().get([])).toBeTruthy()
    })
    expect(database.prepare('SELECT count(*) FROM orders').raw().all([])).toEqual([[1]])
  })

  it('cannot be used when the transaction is over, nor can its statements', async () => {
    const store = await openFile()
    let kept: SqliteHandle | undefined
    let statement: ReturnType<SqliteHandle['prepare']> | undefined
    await store.transactions.run(async (tx) => {
      kept = tx
      statement = tx.prepare('SELECT 1')
    })
    expect(() => kept?.exec('SELECT 1')).toThrow(code('TRANSACTION_ENDED'))
    expect(() => statement?.get()).toThrow(code('TRANSACTION_ENDED'))
    expect(() => store.transactions.executor(kept as SqliteHandle)).toThrow(code('TRANSACTION_ENDED'))
  })

  it('does not begin or end transactions by hand', async () => {
    const { store } = await openBeside(folder.file)
    await store.transactions.run(async (tx) => {
      for (const sql of [
        'BEGIN',
        'COMMIT',
        'END',
        'ROLLBACK',
        'SAVEPOINT a',
        'RELEASE a',
        'SELECT 1; COMMIT',
      ]) {
        expect(() => tx.exec(sql)).toThrow(code('CONFLICT'))
        expect(() => tx.prepare(sql)).toThrow(code('CONFLICT'))
      }
      expect(() => tx.transaction(() => undefined)).toThrow(code('CONFLICT'))
      expect(() => tx.close()).toThrow(code('CONFLICT'))
    })
  })

  it('waits while a nested one is open, because the savepoint would take its rows along', async () => {
    const store = await openFile()
    await store.transactions.run(async (tx) => {
      await store.transactions.nested?.(tx, async (inner) => {
        expect(() => tx.exec('SELECT 1')).toThrow(code('CONFLICT'))
        expect(() => store.transactions.executor(tx)).toThrow(code('CONFLICT'))
        inner.exec('SELECT 1')
      })
      tx.exec('SELECT 1')
    })
  })
})

describe('publishing on the application’s raw handle', () => {
  it('works inside a transaction that the application began', async () => {
    const { store, database } = await openBeside(folder.file)
    const { transactions } = store
    database.exec('BEGIN IMMEDIATE')
    expect(transactions.inTransaction(database)).toBe(true)
    store.insertSync?.(transactions.executor(database), insertRequest(event()))
    database.exec('COMMIT')
    expect((await read(store)).fresh).toHaveLength(1)
  })

  it('is refused outside of one', async () => {
    const { store, database } = await openBeside(folder.file)
    expect(store.transactions.inTransaction(database)).toBe(false)
    expect(() => store.transactions.executor(database)).toThrow(code('NO_TRANSACTION'))
  })

  it('is refused while a transaction of ours is open on it, which would take the event along', async () => {
    const { store, database } = await openBeside(folder.file)
    await store.transactions.run(async () => {
      expect(() => store.transactions.executor(database)).toThrow(code('NO_TRANSACTION'))
      expect(store.transactions.inTransaction(database)).toBe(false)
    })
  })

  it('is refused for a handle of another database', async () => {
    const { store } = await openBeside(folder.file)
    const elsewhere = new Database(':memory:')
    elsewhere.exec('BEGIN')
    expect(() => store.transactions.executor(elsewhere)).toThrow(code('NO_TRANSACTION'))
    elsewhere.close()
  })

  it('is accepted for another connection to the same file', async () => {
    const store = await openFile()
    const other = new Database(folder.file)
    other.exec('BEGIN IMMEDIATE')
    const executor = store.transactions.executor(other as never)
    store.insertSync?.(executor, insertRequest(event()))
    other.exec('COMMIT')
    other.close()
    expect((await read(store)).fresh).toHaveLength(1)
  })
})

describe('a transaction that SQLite rolled back by itself', () => {
  it('is noticed at the next statement and at the commit', async () => {
    const { store } = await openBeside(folder.file)
    const running = store.transactions.run(async (tx) => {
      tx.exec("INSERT INTO orders (id, body) VALUES (1, x'00')")
      await store.insert(store.transactions.executor(tx), insertRequest(event()))
      expect(() => tx.exec("INSERT OR ROLLBACK INTO orders (id, body) VALUES (1, x'00')")).toThrow()
      expect(() => tx.exec("INSERT INTO orders (id, body) VALUES (2, x'00')")).toThrow(
        code('COMMIT_ROLLED_BACK'),
      )
    })
    await expect(running).rejects.toThrow(code('COMMIT_ROLLED_BACK'))
    expect((await read(store)).fresh).toEqual([])
    await publish(store)
    expect((await read(store)).fresh).toHaveLength(1)
  })

  it.each([
    ['commit', undefined],
    ['rollback', new Error('no')],
  ])('is not taken for one that somebody began since, at its %s', async (_end, thrown) => {
    const { store, database } = await openBeside(folder.file)
    const running = store.transactions.run(async (tx) => {
      const { transactions } = store
      tx.exec("INSERT INTO orders (id, body) VALUES (1, x'00')")
      await store.insert(transactions.executor(tx), insertRequest(event()))
      const again = tx.prepare("INSERT OR ROLLBACK INTO orders (id, body) VALUES (1, x'00')")
      expect(() => again.run()).toThrow()
      database.exec("BEGIN; INSERT INTO orders (id, body) VALUES (77, x'00')")
      expect(transactions.inTransaction(tx)).toBe(false)
      expect(() => tx.exec('SELECT 1')).toThrow(code('COMMIT_ROLLED_BACK'))
      expect(() => transactions.executor(tx)).toThrow(code('COMMIT_ROLLED_BACK'))
      await expect(transactions.nested!(tx, async () => undefined)).rejects.toEqual(
        code('COMMIT_ROLLED_BACK'),
      )
      if (thrown !== undefined) throw thrown
    })
    await expect(running).rejects.toEqual(thrown ?? code('COMMIT_ROLLED_BACK'))
    // That one is as its owner left it.
    expect(database.inTransaction).toBe(true)
    database.exec('COMMIT')
    expect(database.prepare('SELECT id FROM orders').raw().all([])).toEqual([[77]])
    expect((await read(store)).fresh).toEqual([])
  })

  it('is noticed when it was a publish that ended it', async () => {
    const { store, database } = await openBeside(folder.file)
    database.exec(
      "CREATE TRIGGER no_events BEFORE INSERT ON outbox_deliveries BEGIN SELECT RAISE(ROLLBACK, 'no'); END",
    )
    const running = store.transactions.run(async (tx) => {
      const insert = store.insert(store.transactions.executor(tx), insertRequest(event()))
      await expect(insert).rejects.toThrow()
      database.exec('BEGIN')
    })
    await expect(running).rejects.toEqual(code('COMMIT_ROLLED_BACK'))
    database.exec('ROLLBACK')
  })

  it('[52] survives a full database and goes on when there is room again', async () => {
    const { store, database } = await openBeside(':memory:')
    const [[pages]] = database.prepare('PRAGMA page_count').raw().all([]) as [[number]]
    database.exec(`PRAGMA max_page_count = ${pages + 4}`)
    const big = { data: JSON.stringify('x'.repeat(100_000)) }
    await expect(publish(store, big)).rejects.toThrow(code('STORE_UNAVAILABLE'))
    expect((await read(store)).fresh).toEqual([])
    database.exec('PRAGMA max_page_count = 100000')
    await publish(store, big)
    expect((await read(store)).fresh).toHaveLength(1)
  })
})

describe('a loop of transactions', () => {
  const ticking = async (work: () => Promise<unknown>): Promise<number> => {
    let turns = 0
    const timer = setInterval(() => {
      turns += 1
    }, 1)
    await work()
    clearInterval(timer)
    return turns
  }

  /** Long enough for the mutex to notice, however fast the machine is. */
  const busy = (): void => {
    const until = performance.now() + 2
    while (performance.now() < until);
  }

  const publishSlowly = (store: Store<SqliteHandle, SqlExecutor>) =>
    store.transactions.run(async (tx) => {
      busy()
      await store.insert(store.transactions.executor(tx), insertRequest(event()))
    })

  it('leaves timers their turn, one after another', async () => {
    const store = await openFile()
    const turns = await ticking(async () => {
      for (let i = 0; i < 50; i++) await publishSlowly(store)
    })
    expect(turns).toBeGreaterThan(0)
  })

  it('leaves timers their turn, all at once', async () => {
    const store = await openFile()
    const turns = await ticking(() => Promise.all(Array.from({ length: 50 }, () => publishSlowly(store))))
    expect(turns).toBeGreaterThan(0)
  })
})

describe('the store beside the application', () => {
  it('never writes inside a transaction that the application began, also in memory', async () => {
    const { store, database } = await openBeside(':memory:')
    await publish(store)
    const right = await worker(store)
    const { fresh } = await read(store)
    database.exec('BEGIN')
    const settling = settle(store, doneSettlements(fresh, right))
    await manyTurns()
    database.exec('ROLLBACK')
    expect((await settling).lost).toEqual([])
    const [counts] = await store.inspection.counts()
    expect(counts?.counts).toMatchObject({ done: 1, pending: 0 })
  })

  it('waits for a transaction of the application without stopping the event loop, and loses nothing', async () => {
    const { store, database } = await openBeside(folder.file)
    await publish(store)
    const right = await worker(store)
    const { fresh } = await read(store)
    database.exec('BEGIN IMMEDIATE')
    store.insertSync?.(store.transactions.executor(database), insertRequest(event()))
    const settling = settle(store, doneSettlements(fresh, right))
    let settled = false
    void settling.then(() => {
      settled = true
    })
    // A wait inside a synchronous call could never see the COMMIT below, which runs on the same thread.
    await manyTurns()
    expect(settled).toBe(false)
    database.exec('COMMIT')
    expect((await settling).lost).toEqual([])
    expect((await read(store)).fresh).toHaveLength(1)
  })

  it('says busy when the lock is not given back in time, and works again afterwards', async () => {
    const { store, database } = await openBeside(folder.file, 60)
    database.exec('BEGIN IMMEDIATE')
    await expect(worker(store)).rejects.toMatchObject({
      code: 'POSTHASTE_STORE_BUSY',
      transient: true,
    })
    database.exec('COMMIT')
    await worker(store)
  })

  it('says busy when a transaction waits for a second one, instead of waiting for ever', async () => {
    const store = await openFile(60)
    const outer = store.transactions.run(() => store.transactions.run(async () => undefined))
    await expect(outer).rejects.toMatchObject({ code: 'POSTHASTE_STORE_BUSY' })
    await publish(store)
  })

  it('restores the patience of the application’s handle', async () => {
    const { store, database } = await openBeside(folder.file)
    database.exec('PRAGMA busy_timeout = 1234')
    await publish(store)
    expect(database.prepare('PRAGMA busy_timeout').raw().all([])).toEqual([[1234]])
  })

  it('[12] commits durably on its own connections, and warns when the application does not', async () => {
    const store = await openFile()
    await store.transactions.run(async (tx) => {
      expect(tx.prepare('PRAGMA synchronous').all()).toEqual([{ synchronous: 2 }])
      expect(tx.prepare('PRAGMA journal_mode').all()).toEqual([{ journal_mode: 'wal' }])
    })
    const lines: { level: string; message: string }[] = []
    const database = new Database(folder.file)
    database.exec('PRAGMA synchronous = NORMAL')
    const beside = sqliteStore({ database })
    await beside.open(testContext(lines as never))
    expect(lines.some(({ level, message }) => level === 'warn' && message.includes('synchronous'))).toBe(true)
    await beside.close()
    database.close()
  })
})

describe('a database that is closed under an open transaction', () => {
  it.each(['commit', 'rollback'] as const)('does not end the process at its %s', async (ending) => {
    const store = await openFile(20)
    const open = await store.transactions.begin!()
    await store.close()
    expect(() => open.tx.exec('SELECT 1')).toThrow(code('COMMIT_ROLLED_BACK'))
    if (ending === 'rollback') await open.rollback()
    else await expect(open.commit()).rejects.toEqual(code('COMMIT_ROLLED_BACK'))
  })

  it('may be the own one of the application, closed before the outbox', async () => {
    const { database, store } = await openBeside(':memory:', 20)
    database.close()
    await expect(store.lanes.renew('nobody', 1_000)).rejects.toThrow(/not open/)
    expect(store.transactions.inTransaction(database)).toBe(false)
  })
})
