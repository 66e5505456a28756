/**
 * Which indexes the statements use, and what they cost when the history grows. Plans are those of prepared
 * statements, made for any parameters, because that is what the server uses after a few calls.
 */
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Store } from '../../src/core/spi/index.ts'
import { type PostgresLayout, postgresStore, type SqlExecutor } from '../../src/stores/postgres/index.ts'
import type { StoreHarness } from '../../src/testing/suites/index.ts'
import { StoreFixture } from '../../src/testing/suites/store-fixture.ts'
import { newSchema } from './postgres-harness.ts'
import { type Filled, fill, type Plan, planOf, type Sent, tablesScanned } from './postgres-plans.ts'
import { createWorld } from './postgres-words.ts'
import { newPostgresUrl } from './servers.ts'
import { testContext } from './sqlite-files.ts'

const ROWS = Number(process.env.POSTHASTE_TEST_ROWS ?? 20_000)
/** So many times the history at the second look. */
const GROWTH = 4

const layouts: readonly PostgresLayout[] = ['plain', 'partitioned']

describe.each(layouts)('plans, %s', (layout) => {
  const schema = newSchema()
  const sent: Sent[] = []
  let pool: pg.Pool
  let hand: pg.Client
  let store: Store<pg.PoolClient, SqlExecutor>
  let t: StoreFixture
  let filled: Filled

  /** Remembers what the store sends. */
  class RecordingClient extends pg.Client {
    constructor(config?: string | pg.ClientConfig) {
      super(config)
      const query = this.query.bind(this) as (...args: unknown[]) => unknown
      Object.assign(this, {
        query: (...args: unknown[]) => {
          const [config] = args as [{ text?: string; values?: unknown[] }]
          if (typeof config?.text === 'string') sent.push({ text: config.text, values: config.values ?? [] })
          return query(...args)
        },
      })
    }
  }

  beforeAll(async () => {
    pool = new pg.Pool({
      connectionString: newPostgresUrl(),
      max: 4,
      Client: RecordingClient,
    } as pg.PoolConfig)
    hand = new pg.Client({ connectionString: newPostgresUrl() })
    await hand.connect()
    store = postgresStore({ pool, schema, layout, listen: false })
    await store.open(testContext())
    await store.schema.migrate()
    t = new StoreFixture({ store } as unknown as StoreHarness)
    await t.declare('alpha')
    filled = await fill(hand, schema, ROWS)
  }, 300_000)

  afterAll(async () => {
    await store.close()
    await pool.end()
    await hand.query(`DROP SCHEMA ${schema} CASCADE`)
    await hand.end()
  })

  /** The plans of everything that `work` sends, without transaction control. */
  const plansOf = async (work: () => Promise<unknown>): Promise<Plan[]> => {
    sent.length = 0
    await work()
    const statements = sent.filter(({ text }) => /^\(?(WITH|SELECT|UPDATE|DELETE|INSERT)/.test(text))
    const plans: Plan[] = []
    for (const one of statements) plans.push(await planOf(hand, one))
    return plans
  }

  const operations = (): Record<string, () => Promise<unknown>> => ({
    'a read with a sweep': () =>
      t.read({ after: filled.middleSeq, limit: 500, sweep: true, sweepLimit: 500 }),
    'a read of some lanes': () => t.read({ lanes: [1, 2, 3], limit: 500 }),
    'a read of ids': () => store.queue.readByIds('alpha', filled.pending),
    'a claim': () => store.queue.claim(filled.worker, filled.keyed, 10),
    'a settle': async () => {
      const { fresh } = await t.read({ limit: 200 })
      sent.length = 0
      const right = { kind: 'lane', workerId: filled.worker } as const
      const done = fresh.map((row) => ({
        delivery: {
          ...row,
          event: row.event!,
          right,
          attemptSpent: false,
          alone: false,
          source: 'cold' as const,
        },
        outcome: { kind: 'done' } as const,
        attempts: 0,
        deadHoldsKey: false,
        deadParked: false,
      }))
      await store.queue.settle({ settlements: done, historyLimit: 5, promoteLimit: 5, workerName: 'x' })
    },
    'a hold': () => store.queue.hold(filled.worker, 'alpha', filled.keyed),
    'an activation': () =>
      store.queue.activate({ workerId: filled.worker, destination: 'alpha', lanes: null, limit: 10 }),
    'a suspicion': () =>
      store.queue.suspect({ workerId: filled.worker, ids: filled.pending, token: t.newId(), spendFrom: 3 }),
    'unrouted rows': () => store.queue.readUnrouted(10),
    'a page of dead ones': () => store.inspection.list({ status: ['dead'], limit: 20 }),
    'a page of everything': () => store.inspection.list({ limit: 20 }),
    'the event of a delivery': () => store.inspection.eventOfDelivery(filled.pending[0]!),
    'a step of cleaning': () =>
      store.maintenance.cleanup({
        doneOlderThanMs: 3_600_000_000,
        deadOlderThanMs: 3_600_000_000,
        dedupOlderThanMs: 3_600_000_000,
        limit: 100,
      }),
  })

  const names = [
    'a read with a sweep',
    'a read of some lanes',
    'a read of ids',
    'a claim',
    'a settle',
    'a hold',
    'an activation',
    'a suspicion',
    'unrouted rows',
    'a page of dead ones',
    'a page of everything',
    'the event of a delivery',
    'a step of cleaning',
  ]
  /** A tail is small or empty, and then reading it from end to end is the best way. */
  const isBig = (table: string): boolean =>
    /^(events|deliveries|finished|attempts)/.test(table) && !table.endsWith('_tail')

  const buffersOf = async (): Promise<Map<string, number>> => {
    const buffers = new Map<string, number>()
    for (const name of names) {
      const plans = await plansOf(operations()[name]!)
      buffers.set(
        name,
        plans.reduce((sum, plan) => sum + plan.buffers, 0),
      )
    }
    return buffers
  }

  it.each(names)('%s reads no table from end to end', async (name) => {
    const plans = await plansOf(operations()[name]!)
    expect(plans.length).toBeGreaterThan(0)
    expect(plans.flatMap((plan) => tablesScanned(plan)).filter(isBig)).toEqual([])
  })

  it('[32] a read past the cursor does not go through what an old snapshot keeps', async () => {
    const old = new pg.Client({ connectionString: newPostgresUrl() })
    await old.connect()
    try {
      await old.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
      await old.query(`SELECT count(*) FROM ${schema}.migrations`)
      for (let n = 0; n < 5; n += 1) await operations()['a settle']!()
      // Retries that are due share the limit.
      const [first] = (await t.read({ limit: 500 })).fresh
      const cost = async (after: bigint): Promise<number> => {
        const plans = await plansOf(() => t.read({ after, limit: 500 }))
        return plans.reduce((sum, { buffers }) => sum + buffers, 0)
      }
      const [fromTheStart, pastTheCursor] = [await cost(0n), await cost(first!.seq - 1n)]
      // The pages of a thousand rows that are done, and of their entries in the index.
      expect(fromTheStart - pastTheCursor).toBeGreaterThan(20)
    } finally {
      await old.end()
    }
  })

  it(`costs the same with ${GROWTH + 1} times the history`, { timeout: 300_000 }, async () => {
    const before = await buffersOf()
    await fill(hand, schema, ROWS * GROWTH, { historyOnly: true })
    const grown: string[] = []
    for (const [name, buffers] of await buffersOf()) {
      const earlier = before.get(name) ?? 0
      // A tree that is one level higher costs a page more for every row that is looked up in it.
      if (buffers > earlier * 1.6 + 60) grown.push(`${name}: ${earlier} → ${buffers}`)
    }
    expect(grown).toEqual([])
  })
})

describe('plans that were made while the tables were empty', () => {
  it('use the same indexes, because they are remembered when the tables are full', async () => {
    const texts: string[] = []
    const world = await createWorld(newPostgresUrl(), { onStatement: (sql) => texts.push(sql) })
    const { t, hand, schema } = world
    try {
      for (const table of ['events', 'deliveries', 'finished']) await hand.query(`ANALYZE ${schema}.${table}`)
      const [workerId, ids] = [t.newId(), [t.newId()]]
      const { queue } = t.store
      const published = t.prepare()
      const right = { kind: 'lane', workerId } as const
      texts.length = 0
      await t.read()
      await queue.readByIds('alpha', ids)
      await queue.claim(workerId, ids, 5)
      await queue.hold(workerId, 'alpha', ids)
      await queue.suspect({ workerId, ids, token: t.newId(), spendFrom: 1 })
      await queue.extend([{ id: t.newId(), token: 'x' }], 1)
      await queue.activate({ workerId, destination: 'alpha', lanes: null, limit: 1 })
      await queue.readUnrouted(1)
      await t.done(published, right)
      const wrong: string[] = []
      const statements = texts.filter((text) => text.includes('$1'))
      for (const text of statements) {
        const { rows } = await hand.query(`EXPLAIN (GENERIC_PLAN) ${text}`)
        for (const { 'QUERY PLAN': line } of rows as { 'QUERY PLAN': string }[]) {
          if (/Seq Scan on (events|deliveries|finished)/.test(line)) wrong.push(`${line} in ${text}`)
        }
        const looksUpById = /\bid = ANY/.test(text)
        const plan = rows.map((row) => row['QUERY PLAN']).join('\n')
        if (looksUpById && /using deliveries_(fresh|hot|due)\b/.test(plan)) wrong.push(plan)
      }
      expect(statements.length).toBe(9)
      expect(wrong).toEqual([])
    } finally {
      await world.close()
    }
  })
})
