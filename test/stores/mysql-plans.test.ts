/**
 * Every statement finds its rows by an index, and what it reads does not grow with the history. The store is kept
 * from sending a text, which is then run by hand, where the server tells what it did.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createIdGenerator } from '../../src/core/model/index.ts'
import type { Store } from '../../src/core/spi/index.ts'
import { mysqlStore } from '../../src/stores/mysql/index.ts'
import { type Published, tokenRight } from '../../src/testing/suites/store-fixture.ts'
import { createWorld, rowsOf, SERVERS, type World } from './mysql-words.ts'
import { serverUrl } from './servers.ts'
import { testContext } from './sqlite-files.ts'

const ROWS = Number(process.env.POSTHASTE_TEST_ROWS ?? 20_000)
const LAYOUTS = ['plain', 'partitioned'] as const

/** Asks for something else first. */
const AFTER_ONE = 'a step of a back-fill'

const newId = createIdGenerator({
  wallNow: () => Date.now(),
  randomBytes: (size) => crypto.getRandomValues(new Uint8Array(size)),
})

const digits = (id: string): string => id.replaceAll('-', '')

/** Finished deliveries with their events, as if they had been sent a while ago; every hundredth was discarded. */
const addHistory = async (world: World, count: number): Promise<void> => {
  for (let done = 0; done < count; done += 1_000) {
    const ids = Array.from({ length: Math.min(1_000, count - done) }, () => [
      digits(newId()),
      digits(newId()),
    ])
    const events = ids.map(
      ([event]) =>
        `(X'${event}', 'order.placed', 1, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) - INTERVAL 1 HOUR, 1, 7, 'application/json', '{"n":1}')`,
    )
    await world.hand.query(
      `INSERT INTO ${world.table('events')} (id, type, version, occurred_at, created_at, routes_version, size, content_type, payload) VALUES ${events.join(',')}`,
    )
    const rows = ids.map(
      ([event, delivery], i) =>
        `(X'${delivery}', X'${event}', ${done + i}, 'alpha', 1, ${i % 64}, ${i % 3 === 0 ? `'k${i % 50}'` : 'NULL'}, ${i % 100 === 0 ? 4 : 1}, 0, 0, 7, UTC_TIMESTAMP(6) - INTERVAL 1 HOUR, UTC_TIMESTAMP(6) - INTERVAL 30 MINUTE)`,
    )
    await world.hand.query(
      `INSERT INTO ${world.table('finished')} (id, event_id, seq, destination, run, lane, \`key\`, status, attempts, suspicions, size, created_at, finished_at) VALUES ${rows.join(',')}`,
    )
  }
  await world.hand.query(
    `ANALYZE TABLE ${['events', 'deliveries', 'finished'].map((name) => world.table(name)).join(', ')}`,
  )
}

class Kept extends Error {
  readonly text: string

  constructor(text: string) {
    super('kept')
    this.text = text
  }
}

/** A second store on the same tables that sends nothing while it is told not to. */
const keepingStore = async (world: World, layout: (typeof LAYOUTS)[number]) => {
  const state = { keeping: false, before: 0 }
  const store = mysqlStore({
    connectionString: serverUrl(world.server),
    prefix: world.harness.prefix,
    layout,
    onStatement: (sql) => {
      if (state.keeping && state.before-- <= 0) throw new Kept(sql)
    },
  })
  await store.open(testContext())
  /** The first text that it sends, or the one after so many others, which are sent. */
  const textOf = async (
    work: (store: Store<never, never>) => Promise<unknown>,
    before = 0,
  ): Promise<string> => {
    state.keeping = true
    state.before = before
    try {
      await work(store as never)
    } catch (error) {
      if (error instanceof Kept) return error.text
      throw error
    } finally {
      state.keeping = false
    }
    throw new Error('nothing was sent')
  }
  return { store, textOf }
}

/** Statements of a text that look for rows; a text in quotes may hold a semicolon. */
const statementsOf = (text: string): string[] =>
  (text.match(/(?:'(?:[^'\\]|\\[\s\S]|'')*'|[^;'])+/g) ?? [])
    .map((statement) => statement.trim())
    .filter((statement) => /^(\(?SELECT|UPDATE|DELETE|INSERT)/.test(statement))
    .map((statement) => statement.replace(/\sINTO @\w+(, @\w+)*/, ''))

interface Plan {
  readonly table: string
  readonly type: string
  readonly key: string | null
}

const plansOf = async (world: World, text: string): Promise<Plan[]> => {
  const plans: Plan[] = []
  for (const statement of statementsOf(text)) {
    for (const row of await rowsOf(world.hand, `EXPLAIN ${statement}`))
      plans.push({
        table: String(row.table),
        type: String(row.type),
        key: row.key === null ? null : String(row.key),
      })
  }
  return plans
}

/** Aliases and names of the three tables that grow. */
const LARGE = /^([deuahrfxblo]|.*_(events|deliveries|finished))$/

const scans = (plans: readonly Plan[]): Plan[] =>
  plans.filter(({ table, type }) => LARGE.test(table) && (type === 'ALL' || type === 'index'))

/** Rows that the server touched for it; nothing is kept of what it wrote. */
const readsOf = async (world: World, text: string): Promise<number> => {
  await world.hand.query('SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; FLUSH STATUS')
  await world.hand.query(text.replaceAll(/^COMMIT;?$/gm, 'ROLLBACK;'))
  const rows = await rowsOf(world.hand, "SHOW SESSION STATUS LIKE 'Handler_read%'")
  return rows.reduce((sum, row) => sum + Number(row.Value), 0)
}

describe.each(SERVERS.flatMap((server) => LAYOUTS.map((layout) => ({ server, layout }))))(
  '$server, $layout',
  ({ server, layout }) => {
    let world: World
    let keeping: Awaited<ReturnType<typeof keepingStore>>
    let worker: Awaited<ReturnType<World['t']['worker']>>
    let pending: Published[]
    const before = new Map<string, number>()

    type Work = (store: Store<never, never>) => Promise<unknown>

    const ids = (count: number): string[] => pending.slice(0, count).map(({ delivery }) => delivery.id)

    const readRequest = {
      destination: 'alpha',
      lanes: null,
      after: 0n,
      limit: 100,
      dueLimit: 50,
      maxBytes: 1_000_000,
      skipRecentMs: 0,
      windowMs: 0,
      sweep: true,
      sweepFrom: 0n,
      sweepLimit: 100,
    }

    const unheard = { destination: 'beta', after: 0n, upTo: 1_000_000n, limit: 20 }

    const works: Readonly<Record<string, Work>> = {
      read: (store) => store.queue.read(readRequest),
      'read of some lanes': (store) => store.queue.read({ ...readRequest, lanes: [0, 5, 9] }),
      'read by ids': (store) => store.queue.readByIds('alpha', ids(20)),
      claim: (store) => store.queue.claim(worker.id, ids(20), 16),
      hold: (store) => store.queue.hold(worker.id, 'alpha', ids(20)),
      suspect: (store) =>
        store.queue.suspect({ workerId: worker.id, ids: ids(20), token: newId(), spendFrom: 3 }),
      extend: (store) => store.queue.extend([{ id: ids(1)[0]!, token: 'x' }], 1_000),
      activate: (store) =>
        store.queue.activate({ workerId: worker.id, destination: 'alpha', lanes: null, limit: 10 }),
      'read unrouted': (store) => store.queue.readUnrouted(50),
      'settle as done': (store) =>
        store.queue.settle({
          settlements: pending
            .slice(0, 20)
            .map((each) => world.t.settlement(each, worker.right, { kind: 'done' })),
          historyLimit: 20,
          promoteLimit: 100,
          workerName: 'w',
        }),
      'settle as done, without keys': (store) =>
        store.queue.settle({
          settlements: pending
            .filter(({ event }) => event.key === null)
            .slice(0, 20)
            .map((each, i) =>
              world.t.settlement(each, i % 2 === 0 ? worker.right : tokenRight('x'), { kind: 'done' }),
            ),
          historyLimit: 20,
          promoteLimit: 100,
          workerName: 'w',
        }),
      'settle as retry': (store) =>
        store.queue.settle({
          settlements: pending.slice(0, 20).map((each) =>
            world.t.settlement(each, worker.right, {
              kind: 'retry',
              delayMs: 1_000,
              counted: true,
              failure: world.t.failure(1),
            }),
          ),
          historyLimit: 20,
          promoteLimit: 100,
          workerName: 'w',
        }),
      'page of dead': (store) => store.inspection.list({ status: ['dead'], limit: 20 }),
      'page of discarded': (store) => store.inspection.list({ status: ['discarded'], limit: 20 }),
      'page of all': (store) => store.inspection.list({ limit: 20 }),
      'page of retries, oldest first': (store) =>
        store.inspection.list({ status: ['retry'], limit: 20, order: 'oldest' }),
      event: (store) => store.inspection.event(pending[0]!.event.id),
      'event of delivery': (store) => store.inspection.eventOfDelivery(pending[0]!.delivery.id),
      'blocked keys': (store) => store.inspection.blockedKeys({ limit: 20 }),
      'unreconciled events': (store) => store.registry.findUnreconciled('alpha', 20),
      'a position': (store) => store.registry.eventFrom(10n),
      'what was drawn': (store) => store.registry.findUnheard(unheard),
      [AFTER_ONE]: (store) => store.registry.findUnheard(unheard),
      statistics: (store) => store.maintenance.recordStatistics(60),
      survey: (store) => store.lanes.survey(worker.id, ['alpha']),
    }

    beforeAll(async () => {
      world = await createWorld(server, { layout, period: 'month' })
      const { t } = world
      await t.declare('alpha')
      worker = await t.worker()
      const all = Array.from({ length: 300 }, (_, i) =>
        t.prepare({ key: i % 2 === 0 ? `k${i % 20}` : null, lane: i % 64 }),
      )
      await t.insert({
        events: all.map(({ event }) => event),
        deliveries: all.map(({ delivery }) => delivery),
      })
      const failure = t.failure(1)
      await t.settle(
        all
          .slice(0, 40)
          .map((each, i) =>
            t.settlement(
              each,
              worker.right,
              i % 2 === 0 ? { kind: 'dead', failure } : { kind: 'retry', delayMs: 0, counted: true, failure },
            ),
          ),
      )
      for (let i = 0; i < 10; i++) await t.publish({ due: { afterMs: 1 } })
      pending = all.slice(40)
      keeping = await keepingStore(world, layout)
      await addHistory(world, ROWS / 10)
    }, 900_000)

    afterAll(async () => {
      await keeping.store.close()
      await world.close()
    })

    it.each(Object.keys(works))('[48] %s looks for its rows in an index', async (name) => {
      const text = await keeping.textOf(works[name]!, name === AFTER_ONE ? 1 : 0)
      const plans = await plansOf(world, text)
      expect(plans.length).toBeGreaterThan(0)
      expect(scans(plans), text).toEqual([])
      before.set(name, await readsOf(world, text))
    })

    it('a history ten times as long changes none of these', { timeout: 900_000 }, async () => {
      await addHistory(world, ROWS - ROWS / 10)
      const grown: Record<string, [number, number]> = {}
      for (const [name, work] of Object.entries(works)) {
        const text = await keeping.textOf(work, name === AFTER_ONE ? 1 : 0)
        const [few, many] = [before.get(name) ?? 0, await readsOf(world, text)]
        // Deeper trees and other estimates may cost a little; a walk through the history would cost thousands.
        if (many > few * 1.5 + 100) grown[name] = [few, many]
        expect(scans(await plansOf(world, text)), name).toEqual([])
      }
      expect(grown).toEqual({})
    })

    it('cleaning reads about what it removes, however much there is', async () => {
      const request = { doneOlderThanMs: 0, deadOlderThanMs: 0, dedupOlderThanMs: 0, limit: 50 }
      const sent: string[] = []
      const store = mysqlStore({
        connectionString: serverUrl(server),
        prefix: world.harness.prefix,
        layout,
        onStatement: (sql) => sent.push(sql),
      })
      await store.open(testContext())
      sent.length = 0
      await store.maintenance.cleanup(request)
      await store.close()
      const found: Plan[] = []
      for (const text of sent) found.push(...scans(await plansOf(world, text)))
      // There are few destinations, `r`, and how far each is reconciled is asked of all of them.
      expect(found.filter(({ key, table }) => key !== 'fresh' && table !== 'r')).toEqual([])
      let reads = 0
      for (const text of sent.filter((sql) => sql.startsWith('SELECT'))) reads += await readsOf(world, text)
      expect(reads).toBeLessThan(3_000)
    })
  },
)
