/** How many statements an operation costs, and which indexes they use. Both are easy to lose by a small change. */
import Database from 'libsql'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Outcome } from '../../src/core/model/delivery.ts'
import type { Store } from '../../src/core/spi/index.ts'
import { type SqlExecutor, type SqliteHandle, sqliteStore } from '../../src/stores/sqlite/index.ts'
import { type TestFolder, testContext, testFolder } from './sqlite-files.ts'
import {
  delivery,
  doneSettlements,
  event,
  insertRequest,
  newId,
  publish,
  read,
  settle,
  worker,
} from './sqlite-words.ts'

let folder: TestFolder
let store: Store<SqliteHandle, SqlExecutor>
let statements: string[] = []

beforeEach(async () => {
  folder = testFolder()
  store = sqliteStore({ file: folder.file, driver: 'libsql', onStatement: (sql) => statements.push(sql) })
  await store.open(testContext())
  await store.schema.migrate()
})

afterEach(async () => {
  await store.close()
  folder.remove()
})

/** Statements that `work` ran, without the BEGIN and COMMIT around them. */
const counted = async (work: () => Promise<unknown>): Promise<number> => {
  statements = []
  await work()
  return statements.filter((sql) => !/^(BEGIN|COMMIT)/.test(sql)).length
}

const insert = (count: number, over = {}): Promise<number> =>
  counted(() =>
    store.transactions.run((tx) => {
      const events = Array.from({ length: count }, (_, i) => event({ key: `k${i}`, ...over }))
      return store.insert(store.transactions.executor(tx), insertRequest(...events))
    }),
  )

describe('statements per operation', () => {
  it('an insert is two, however many events there are, and three with an idempotency key', async () => {
    expect(await insert(1)).toBe(2)
    expect(await insert(200)).toBe(2)
    expect(await insert(1, { idempotencyKey: 'once' })).toBe(3)
    expect(await insert(50, { idempotencyKey: 'again' })).toBe(3)
  })

  it('a settle of five hundred deliveries is a handful', async () => {
    await insert(500)
    const right = await worker(store)
    const { fresh } = await read(store)
    expect(await counted(() => settle(store, doneSettlements(fresh, right)))).toBeLessThanOrEqual(5)
  })

  it('a settle with every outcome is still a handful, and so is its repetition', async () => {
    await insert(400)
    const right = await worker(store)
    const failure = { attempt: 30, durationMs: 1, code: null, message: 'no', stack: null }
    const outcomes: Outcome[] = [
      { kind: 'done' },
      { kind: 'retry', delayMs: 60_000, counted: true, failure },
      { kind: 'dead', failure },
      { kind: 'released' },
    ]
    const settlements = doneSettlements((await read(store)).fresh, right).map((one, i) => ({
      ...one,
      outcome: outcomes[i % 4]!,
      attempts: 30,
    }))
    expect(await counted(() => settle(store, settlements))).toBeLessThanOrEqual(10)
    expect(await counted(() => settle(store, settlements))).toBeLessThanOrEqual(12)
    const [counts] = await store.inspection.counts()
    expect(counts?.counts).toMatchObject({ done: 100, retry: 100, dead: 100, pending: 100 })
  })

  it('draining costs less than one statement for twenty events', async () => {
    for (let i = 0; i < 4; i++) await insert(500)
    const right = await worker(store)
    statements = []
    let drained = 0
    for (;;) {
      const { fresh } = await read(store, 500)
      if (fresh.length === 0) break
      await settle(store, doneSettlements(fresh, right))
      drained += fresh.length
    }
    expect(drained).toBe(2_000)
    expect(statements.length / drained).toBeLessThan(0.05)
  })

  it('prepared statements are kept: reading other lanes needs no new text', async () => {
    const request = {
      destination: 'alpha',
      after: 0n,
      limit: 5,
      dueLimit: 5,
      maxBytes: 1,
      skipRecentMs: 0,
      windowMs: 0,
    }
    const texts = new Set<string>()
    for (const lanes of [null, [], [0], [63], [1, 2, 3]]) {
      statements = []
      await store.queue.read({ ...request, lanes, sweep: true, sweepFrom: 0n, sweepLimit: 1 })
      texts.add(statements.join())
    }
    expect(texts.size).toBe(1)
  })
})

// -------------------------------------------------------------------------------------------------- plans

/** Small tables and lists that are meant to be gone through. */
const MAY_BE_SCANNED =
  /^SCAN (?:CONSTANT ROW|\(subquery|json_each|sqlite_sequence|outbox_(?:destinations|workers|lanes|stats|audit)|[jslmnw]\b|target|versions|v\b)/

const planOf = (database: InstanceType<typeof Database>, sql: string): string[] => {
  const params = Array.from({ length: (sql.match(/\?/g) ?? []).length }, () => null)
  const rows = database.prepare(`EXPLAIN QUERY PLAN ${sql}`).raw().all(params) as [
    number,
    number,
    number,
    string,
  ][]
  return rows.map(([, , , detail]) => detail)
}

/** Runs everything once that may meet large tables. */
const useEverything = async (): Promise<void> => {
  const act = { actor: 'test', reason: null }
  const { workerId, ...right } = await worker(store)
  const state = await store.registry.declare([{ name: 'alpha', patterns: ['*'] }])
  const keyed = await publish(store, { key: 'k', idempotencyKey: 'once' })
  await publish(store)
  const { fresh } = await store.queue.read({
    destination: 'alpha',
    lanes: [0],
    after: 0n,
    limit: 10,
    dueLimit: 10,
    maxBytes: 1_000,
    skipRecentMs: 0,
    windowMs: 0,
    sweep: true,
    sweepFrom: 0n,
    sweepLimit: 10,
  })
  const ids = fresh.map(({ id }) => id)
  const delayed = event()
  const deliveries = [delivery(delayed, { due: { afterMs: 1 } })]
  const request = { ...insertRequest(delayed), deliveries }
  await store.transactions.run((tx) => store.insert(store.transactions.executor(tx), request))
  const due = { workerId, destination: 'alpha', lanes: null, limit: 10 }
  await expect.poll(() => store.queue.activate(due), { interval: 1 }).toBe(1)
  await store.queue.readByIds('alpha', ids)
  await store.queue.claim(workerId, ids, 10)
  await store.queue.suspect({ workerId, ids, token: 't', spendFrom: 3 })
  await store.queue.extend([{ id: newId(), token: 't' }], 1_000)
  await store.queue.hold(workerId, 'alpha', ids)
  const settlements = doneSettlements(fresh, { ...right, workerId } as never)
  const failure = { attempt: 30, durationMs: 1, code: null, message: 'no', stack: null }
  await settle(
    store,
    settlements.map((one) => ({ ...one, outcome: { kind: 'retry', delayMs: 0, counted: true, failure } })),
  )
  await settle(store, settlements)
  await settle(store, settlements)
  await store.queue.readUnrouted(10)
  const { due: _due, token: _token, ...missing } = delivery(keyed)
  await store.queue.expand({
    workerId,
    registryVersion: state.version,
    expansions: [{ unroutedId: newId(), deliveries: [missing] }],
  })
  await store.registry.findUnreconciled('alpha', 10)
  await store.registry.reconcile('alpha', [{ ...missing, seq: 1n }], 1n)
  for (const status of ['pending', 'retry', 'dead', 'held', 'scheduled', 'done', 'discarded'] as const) {
    await store.inspection.list({ status: [status], limit: 10 })
  }
  await store.inspection.list({ limit: 10, order: 'oldest' })
  await store.inspection.event(keyed.id)
  await store.inspection.eventOfDelivery(ids[0] as string)
  await store.inspection.blockedKeys({ limit: 10 })
  await store.operations.redrive({ destination: 'alpha', limit: 10 }, act)
  await store.operations.replay({ deliveryIds: ids, limit: 10 }, act)
  await store.operations.replay({ eventIds: [keyed.id], limit: 10 }, act)
  await store.operations.discard({ eventIds: [keyed.id], limit: 10 }, act)
  await store.maintenance.cleanup({ doneOlderThanMs: 0, deadOlderThanMs: 0, dedupOlderThanMs: 0, limit: 10 })
}

describe('query plans', () => {
  it('no statement goes through a whole large table', async () => {
    statements = []
    await useEverything()
    const database = new Database(folder.file)
    const bad: string[] = []
    for (const sql of new Set(statements)) {
      if (!/^(SELECT|INSERT|UPDATE|DELETE|WITH)/.test(sql)) continue
      const scans = planOf(database, sql).filter(
        (step) => step.startsWith('SCAN') && !MAY_BE_SCANNED.test(step),
      )
      if (scans.length > 0) bad.push(`${scans.join('; ')}\n${sql}`)
    }
    database.close()
    expect(bad).toEqual([])
  })

  it('the hot statements use the index that was made for them', async () => {
    statements = []
    await useEverything()
    const database = new Database(folder.file)
    const texts = [...new Set(statements)]
    const expectIndex = (pattern: RegExp, index: string): void => {
      const sql = texts.find((text) => pattern.test(text))
      expect(sql, String(pattern)).toBeDefined()
      expect(planOf(database, sql as string).join('\n')).toContain(index)
    }
    expectIndex(
      /row_number[\s\S]*status = 0 AND seq > \?/,
      'outbox_deliveries_fresh (destination=? AND seq>?)',
    )
    expectIndex(/row_number[\s\S]*status = 2 /, 'outbox_deliveries_due (destination=? AND available_at<?)')
    expectIndex(/seq <= \?/, 'COVERING INDEX outbox_deliveries_fresh (destination=? AND seq>? AND seq<?)')
    expectIndex(/^UPDATE[\s\S]*row_number/, 'outbox_deliveries_scheduled (destination=? AND available_at<?)')
    expectIndex(/group_concat/, 'outbox_deliveries_keys (destination=? AND key=? AND seq<?)')
    expectIndex(/^UPDATE[\s\S]*j\.kind/, 'SEARCH d USING PRIMARY KEY (id=?)')
    expectIndex(/^INSERT INTO "outbox_finished"/, 'SEARCH d USING PRIMARY KEY (id=?)')
    expectIndex(/d\.status = 3 AND[\s\S]*ORDER BY d\.id DESC/, 'outbox_deliveries_aside (status=? AND id<?)')
    expectIndex(/d\.status = 4[\s\S]*ORDER BY d\.id DESC/, 'outbox_finished_discarded (id<?)')
    expectIndex(/^DELETE FROM "outbox_finished"/, 'outbox_finished_at (finished_at<?)')
    expectIndex(/^DELETE FROM "outbox_deliveries"[\s\S]*status = 3/, 'outbox_deliveries_dead (settled_at<?)')
    expectIndex(/^WITH RECURSIVE target/, 'outbox_events_routes (routes_version=? AND rowid>?)')
    database.close()
  })
})
