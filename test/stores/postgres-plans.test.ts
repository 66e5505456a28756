/**
 * Which indexes the statements use, and what they cost when the history grows. Plans are those of prepared
 * statements, made for any parameters, because that is what the server uses after a few calls.
 */
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { PostgresLayout } from '../../src/stores/postgres/index.ts'
import { OPERATIONS, Planning, ROWS } from './postgres-planning.ts'
import {
  type Filled,
  fill,
  KeptPlans,
  pairsInVain,
  planOf,
  type Sent,
  tablesScanned,
} from './postgres-plans.ts'
import { createWorld } from './postgres-words.ts'
import { newPostgresUrl } from './servers.ts'

/** So many times the history at the second look. */
const GROWTH = 4

/** Sorting what seems to be empty looks as good as a walk, and nobody waits for it but who asks. */
const FOR_PEOPLE = 'a page of everything'

/** Rows of a queue that fills again, with their history. */
const REFILLED = 20_000

const TABLES = ['events', 'finished', 'deliveries', 'dedup']

const analyze = (schema: string): string => TABLES.map((table) => `ANALYZE ${schema}.${table}`).join('; ')

const layouts: readonly PostgresLayout[] = ['plain', 'partitioned']

/** A tail is small or empty, and then reading it from end to end is the best way. */
const isBig = (table: string): boolean =>
  /^(events|deliveries|finished|attempts|dedup)/.test(table) && !table.endsWith('_tail')

/** What costs more, but for a tree that is one level higher: that is a page more for every row looked up in it. */
const dearer = (before: ReadonlyMap<string, number>, after: ReadonlyMap<string, number>): string[] =>
  [...after].flatMap(([name, buffers]) => {
    const earlier = before.get(name) ?? 0
    return buffers > earlier * 1.6 + 60 ? [`${name}: ${earlier} → ${buffers}`] : []
  })

describe.each(layouts)('plans, %s', (layout) => {
  const planning = new Planning(layout)
  const { schema, hand, t } = planning
  let filled: Filled

  beforeAll(async () => {
    await planning.open()
    filled = await fill(hand, schema, ROWS)
    await hand.query(analyze(schema))
  }, 300_000)

  afterAll(() => planning.close())

  it.each(OPERATIONS)('%s reads no table from end to end', async (name) => {
    const plans = await planning.plansOf(() => planning.show(name, filled))
    expect(plans.flatMap((plan) => tablesScanned(plan)).filter(isBig)).toEqual([])
  })

  it.each(OPERATIONS)('%s compares no row with all others', async (name) => {
    const plans = await planning.plansOf(() => planning.show(name, filled))
    // Each of at most a hundred rows may be compared with one that is not its own.
    expect(Math.max(...plans.map(pairsInVain))).toBeLessThan(100)
  })

  it('[32] a read past the cursor does not go through what an old snapshot keeps', async () => {
    const old = new pg.Client({ connectionString: planning.url })
    await old.connect()
    try {
      await old.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
      await old.query(`SELECT count(*) FROM ${schema}.migrations`)
      for (let n = 0; n < 5; n += 1) await planning.run('a settle', filled)
      // Retries that are due share the limit.
      const [first] = (await t.read({ limit: 500 })).fresh
      const cost = async (after: bigint): Promise<number> => {
        const plans = await planning.plansOf(() => t.read({ after, limit: 500 }))
        return plans.reduce((sum, { buffers }) => sum + buffers, 0)
      }
      const [fromTheStart, pastTheCursor] = [await cost(0n), await cost(first!.seq - 1n)]
      // The pages of a thousand rows that are done, and of their entries in the index.
      expect(fromTheStart - pastTheCursor).toBeGreaterThan(20)
    } finally {
      await old.end()
    }
  })

  it(`cost the same with ${GROWTH + 1} times the history`, { timeout: 300_000 }, async () => {
    const before = await planning.buffers(filled)
    await fill(hand, schema, ROWS * GROWTH, { historyOnly: true })
    await hand.query(analyze(schema))
    expect(dearer(before, await planning.buffers(filled))).toEqual([])
  })
})

describe.each(layouts)('plans from statistics that were taken before a large commit, %s', (layout) => {
  const planning = new Planning(layout)
  const { schema, hand } = planning
  let filled: Filled

  beforeAll(async () => {
    await planning.open()
    await hand.query('BEGIN')
    filled = await fill(hand, schema, ROWS)
    const other = new pg.Client({ connectionString: planning.url })
    await other.connect()
    // There are pages by now, and no row that can be seen on them: the planner counts on finding none.
    await other.query(`VACUUM (ANALYZE) ${TABLES.map((table) => `${schema}.${table}`).join(', ')}`)
    await other.end()
    await hand.query('COMMIT')
  }, 300_000)

  afterAll(() => planning.close())

  it('cost no more than those from statistics that are right', { timeout: 300_000 }, async () => {
    // The first step has to find out where the next ones begin.
    await planning.run('a step of cleaning', filled)
    const misled = await planning.buffers(filled)
    if (layout === 'partitioned') misled.delete(FOR_PEOPLE)
    await hand.query(analyze(schema))
    expect(dearer(await planning.buffers(filled), misled)).toEqual([])
  })
})

describe.each(layouts)('plans that were made while the queue was empty again, %s', (layout) => {
  const planning = new Planning(layout)
  const { schema, hand } = planning
  const other = new pg.Client({ connectionString: planning.url })

  beforeAll(async () => {
    await planning.open()
    await other.connect()
  })

  afterAll(async () => {
    await other.end()
    await planning.close()
  })

  it('cost no more than those of a full one', { timeout: 300_000 }, async () => {
    const earlier = await fill(hand, schema, REFILLED)
    await hand.query(analyze(schema))
    const statements: Sent[] = []
    await planning.buffers(earlier, (sent) => {
      statements.push(sent)
      return planOf(hand, sent)
    })
    // A new partition has no history yet.
    const emptied = layout === 'plain' ? ['deliveries'] : ['deliveries', 'events', 'finished']
    for (const table of emptied) await hand.query(`DELETE FROM ${schema}.${table}`)
    await hand.query(`VACUUM (ANALYZE) ${TABLES.map((table) => `${schema}.${table}`).join(', ')}`)
    const kept = new KeptPlans(other)
    for (const sent of statements) await kept.planOf(sent)
    const filled = await fill(hand, schema, REFILLED)
    // The first step has to find out where the next ones begin.
    await planning.run('a step of cleaning', filled)
    const remembered = await planning.buffers(filled, kept.planOf)
    remembered.delete(FOR_PEOPLE)
    await hand.query(analyze(schema))
    expect(dearer(await planning.buffers(filled), remembered)).toEqual([])
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
        // An activation looks for what is due first.
        const looksUpById = /\bid = ANY/.test(text) && !text.includes('due AS MATERIALIZED')
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
