/** Files that are missing, damaged, locked or not to be written; and what the schema looks like inside. */
import { copyFileSync, existsSync, statSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import Database from 'libsql'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { sqliteStore } from '../../src/stores/sqlite/index.ts'
import { type TestFolder, testContext, testFolder } from './sqlite-files.ts'
import { doneSettlements, publish, read, settle, worker } from './sqlite-words.ts'

let folder: TestFolder

beforeEach(() => {
  folder = testFolder()
})

afterEach(() => folder.remove())

const open = async (file: string, over = {}) => {
  const store = sqliteStore({ file, driver: 'libsql', ...over })
  await store.open(testContext())
  return store
}

describe('a file', () => {
  it('is not touched before the store is opened', () => {
    sqliteStore({ file: folder.file, driver: 'libsql' })
    expect(existsSync(folder.file)).toBe(false)
  })

  it('is named in the log when it is made', async () => {
    const said: unknown[] = []
    const logger = { log: (...line: unknown[]) => void said.push(line) }
    for (const _ of [1, 2]) {
      const store = sqliteStore({ file: relative(process.cwd(), folder.file), driver: 'libsql' })
      await store.open({ ...testContext(), logger })
      await store.close()
    }
    expect(said).toEqual([['info', 'the SQLite database was not there and is made', { file: folder.file }]])
  })

  it('is whole by itself once the store is closed', async () => {
    const store = await open(folder.file)
    await store.schema.migrate()
    await publish(store)
    expect(statSync(`${folder.file}-wal`).size).toBeGreaterThan(0)
    await store.close()
    const copy = join(folder.path, 'copy.db')
    copyFileSync(folder.file, copy)
    expect((await read(await open(copy))).fresh).toHaveLength(1)
  })

  it('is closed, too, while somebody else reads or writes it', async () => {
    for (const begin of ['BEGIN; SELECT count(*) FROM outbox_events', 'BEGIN IMMEDIATE']) {
      const store = await open(folder.file)
      await store.schema.migrate()
      await publish(store)
      const other = new Database(folder.file)
      other.exec(begin)
      await store.close()
      other.exec('ROLLBACK')
      other.close()
    }
  })

  it('in a folder that does not exist is refused with the folder’s name', async () => {
    const file = join(folder.path, 'nowhere', 'x.db')
    await expect(open(file)).rejects.toMatchObject({
      code: 'POSTHASTE_STORE_UNAVAILABLE',
      message: expect.stringContaining(join(folder.path, 'nowhere')),
    })
  })

  it('that is a folder cannot be opened', async () => {
    await expect(open(folder.path)).rejects.toMatchObject({
      code: 'POSTHASTE_STORE_UNAVAILABLE',
      message: expect.stringContaining(`${folder.path} cannot be opened: it is a directory`),
    })
  })

  it('that is no database is refused', async () => {
    writeFileSync(folder.file, 'hello, I am a text '.repeat(300))
    await expect(open(folder.file)).rejects.toMatchObject({
      code: 'POSTHASTE_STORE_UNAVAILABLE',
      message: expect.stringContaining('not a SQLite database'),
    })
  })

  it('that may only be read can be read, and a write says what is wrong', async () => {
    const writer = await open(folder.file)
    await writer.schema.migrate()
    await publish(writer)
    const reader = await open(`file:${folder.file}?mode=ro`)
    expect((await read(reader)).fresh).toHaveLength(1)
    await expect(worker(reader)).rejects.toMatchObject({
      code: 'POSTHASTE_STORE_READ_ONLY',
      transient: false,
    })
    await expect(publish(reader)).rejects.toMatchObject({ code: 'POSTHASTE_STORE_READ_ONLY' })
    await reader.close()
    await writer.close()
  })

  it('that another process keeps locked is busy, and free again afterwards', async () => {
    const store = await open(folder.file, { busyTimeoutMs: 50 })
    await store.schema.migrate()
    const other = new Database(folder.file)
    other.exec('BEGIN EXCLUSIVE')
    await expect(worker(store)).rejects.toMatchObject({ code: 'POSTHASTE_STORE_BUSY', transient: true })
    other.exec('COMMIT')
    await worker(store)
    other.close()
    await store.close()
  })

  it('without tables says that it has to be migrated', async () => {
    const store = await open(folder.file)
    await expect(read(store)).rejects.toMatchObject({ code: 'POSTHASTE_SCHEMA_BEHIND' })
    await store.close()
  })

  it('can be opened twice and closed twice; afterwards the store says that it is closed', async () => {
    const store = await open(folder.file)
    await store.open(testContext())
    await store.close()
    await store.close()
    await expect(read(store)).rejects.toMatchObject({ code: 'POSTHASTE_CLOSED' })
    await store.open(testContext())
    await store.schema.migrate()
    await store.close()
  })

  it('with a driver that is not installed names the package', async () => {
    await expect(open(folder.file, { driver: 'better-sqlite3' })).rejects.toMatchObject({
      code: 'POSTHASTE_MISSING_PEER',
      message: expect.stringContaining('npm install better-sqlite3'),
    })
  })
})

describe('the schema', () => {
  it('is refused when a newer library has migrated it', async () => {
    const store = await open(folder.file)
    const { latest } = await store.schema.migrate()
    await store.transactions.run(async (tx) => {
      tx.exec(`INSERT INTO outbox_migrations VALUES (${latest + 1}, 'from_the_future', 0)`)
    })
    await expect(store.schema.migrate()).rejects.toMatchObject({ code: 'POSTHASTE_SCHEMA_AHEAD' })
    expect((await store.schema.status()).current).toBe(latest + 1)
    await store.close()
  })

  it('can be printed and run by hand, with the same result', async () => {
    const store = await open(folder.file, { prefix: 'shop_' })
    const byHand = new Database(folder.file)
    byHand.exec(store.schema.sql())
    byHand.close()
    const status = await store.schema.status()
    expect(status.current).toBe(status.latest)
    await publish(store)
    expect((await read(store)).fresh).toHaveLength(1)
    await store.close()
  })

  it('holds two outboxes with different prefixes in one file', async () => {
    const [one, two] = [await open(folder.file, { prefix: 'a_' }), await open(folder.file, { prefix: 'b_' })]
    await one.schema.migrate()
    await two.schema.migrate()
    await publish(one)
    expect((await read(one)).fresh).toHaveLength(1)
    expect((await read(two)).fresh).toHaveLength(0)
    await one.close()
    await two.close()
  })

  it('[22] has no state that no sweep looks for', async () => {
    const store = await open(folder.file)
    await store.schema.migrate()
    await publish(store)
    const refused = [
      'status = 1',
      'status = 7',
      'status = 6',
      'holds_key = 1',
      'lane = 64',
      'run = 0',
      "id = x'00'",
    ]
    for (const change of refused) {
      const changing = store.transactions.run(async (tx) => tx.exec(`UPDATE outbox_deliveries SET ${change}`))
      await expect(changing, change).rejects.toMatchObject({
        code: expect.stringContaining('SQLITE_CONSTRAINT'),
      })
    }
    await store.close()
  })

  it('shows unfinished and finished work in one view', async () => {
    const store = await open(folder.file)
    await store.schema.migrate()
    const right = await worker(store)
    const first = await publish(store, { key: 'k' })
    const { fresh } = await read(store)
    await settle(store, doneSettlements(fresh, right))
    const second = await publish(store, { tenantId: 'acme' })
    const rows = await store.transactions.run(async (tx) =>
      tx.prepare('SELECT * FROM outbox_all ORDER BY seq').all(),
    )
    expect(rows).toMatchObject([
      {
        event_id: first.id,
        type: 'order.placed',
        destination: 'alpha',
        status: 'done',
        key: 'k',
        last_error: null,
      },
      { event_id: second.id, status: 'pending', tenant_id: 'acme', done_at: null, attempts: 0 },
    ])
    expect(rows[0]?.done_at).toEqual(expect.any(Number))
    await store.close()
  })
})
