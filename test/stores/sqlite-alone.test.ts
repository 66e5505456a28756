/** What an asynchronous client stored without a transaction is removed again, and nothing else. */
import Database from 'libsql'
import { afterEach, beforeEach, expect, it } from 'vitest'
import type { Store } from '../../src/core/spi/index.ts'
import type { SqlExecutor, SqliteHandle } from '../../src/stores/sqlite/index.ts'
import { sqliteStore } from '../../src/stores/sqlite/index.ts'
import { type TestFolder, testContext, testFolder } from './sqlite-files.ts'
import { event, insertRequest } from './sqlite-words.ts'

const ENDED = { code: 'POSTHASTE_TRANSACTION_ENDED' }

let folder: TestFolder
let store: Store<SqliteHandle, SqlExecutor>
let hand: InstanceType<typeof Database>

beforeEach(async () => {
  folder = testFolder()
  store = sqliteStore({ file: folder.file, driver: 'libsql', busyTimeoutMs: 50 })
  await store.open(testContext())
  await store.schema.migrate()
  hand = new Database(folder.file)
})

afterEach(async () => {
  await store.close()
  hand.close()
  folder.remove()
})

/** Sends on a connection of its own; `meanwhile` happens between the first statement and its answer. */
const sending = (meanwhile: () => unknown): SqlExecutor => {
  let isFirst = true
  return {
    run: async (sql, params) => {
      const statement = hand.prepare(sql)
      const rows = statement.reader ? statement.all(...params) : []
      if (!statement.reader) statement.run(...params)
      if (isFirst) await meanwhile()
      isFirst = false
      return rows as Record<string, unknown>[]
    },
  }
}

const stored = (): number => hand.prepare('SELECT 1 FROM outbox_events').all().length

it('also when somebody else has got its idempotency key by then', async () => {
  const taken =
    "INSERT INTO outbox_dedup (type, idempotency_key, event_id, created_at) VALUES (?, 'k', x'00', 0)"
  const one = event({ idempotencyKey: 'k' })
  const alone = store.insert(
    sending(() => hand.prepare(taken).run(one.type)),
    insertRequest(one),
  )
  await expect(alone).rejects.toMatchObject(ENDED)
  expect(stored()).toBe(0)
  expect(hand.prepare("SELECT 1 FROM outbox_dedup WHERE idempotency_key = 'k'").all()).toHaveLength(1)
})

it('and where that cannot be done the error says so', async () => {
  const other = new Database(folder.file)
  const alone = store.insert(
    sending(() => other.exec('BEGIN IMMEDIATE')),
    insertRequest(event()),
  )
  await expect(alone).rejects.toMatchObject({
    ...ENDED,
    message: expect.stringContaining('may be delivered'),
  })
  other.close()
})

it('is stored as it is when the store was closed meanwhile, because nobody can tell', async () => {
  hand.exec('BEGIN')
  await store.insert(
    sending(() => store.close()),
    insertRequest(event()),
  )
  hand.exec('COMMIT')
  expect(stored()).toBe(1)
})

const inside = (): SqlExecutor => sending(() => undefined)

const marks = (): number => hand.prepare("SELECT 1 FROM outbox_dedup WHERE type = ''").all().length

it('nor is a savepoint taken for one in a transaction, when there is none', async () => {
  await expect(store.markOuter?.(inside())).rejects.toMatchObject(ENDED)
  await expect(store.markOuter?.({ ...inside(), isDoubtful: true })).rejects.toMatchObject({
    code: 'POSTHASTE_COMMIT_ROLLED_BACK',
  })
  expect(marks()).toBe(0)
})

it.each(['ROLLBACK', 'COMMIT'])('nor when it was ended by %s just before', async (sql) => {
  hand.exec('BEGIN')
  const mark = await store.markOuter?.(inside())
  hand.exec(`${sql}; SAVEPOINT one`)
  await expect(mark?.require(inside())).rejects.toMatchObject(ENDED)
  hand.exec('ROLLBACK TO one; RELEASE one')
  await mark?.drop()
  expect(marks()).toBe(0)
})

it('and one in a transaction is, without a trace', async () => {
  hand.exec('BEGIN')
  const mark = await store.markOuter?.(inside())
  hand.exec('SAVEPOINT one')
  await mark?.require(inside())
  hand.exec('ROLLBACK TO one')
  await mark?.drop()
  hand.exec('COMMIT')
  expect(marks()).toBe(0)
})

it('which a synchronous driver need not ask', async () => {
  expect(await store.markOuter?.({ ...inside(), runSync: () => [] })).toBeNull()
  expect(marks()).toBe(0)
})

it('and a mark that cannot be looked for or taken away hides nothing', async () => {
  hand.exec('BEGIN')
  const executor = inside()
  const mark = await store.markOuter?.(executor)
  hand.exec('COMMIT; DROP TABLE outbox_dedup')
  await mark?.drop()
  const run = (): never => {
    throw new Error('this handle is over')
  }
  Object.assign(executor, { run })
  await mark?.drop()
})
