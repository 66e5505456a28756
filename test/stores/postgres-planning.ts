/** A store whose statements are looked at: what it sends is remembered, and asked for its plan. */
import pg from 'pg'
import type { Store, StoredDelivery } from '../../src/core/spi/index.ts'
import { type PostgresLayout, postgresStore, type SqlExecutor } from '../../src/stores/postgres/index.ts'
import type { StoreHarness } from '../../src/testing/suites/index.ts'
import { StoreFixture } from '../../src/testing/suites/store-fixture.ts'
import { newSchema } from './postgres-harness.ts'
import { type Filled, type Plan, planOf, type Sent, statementsIn } from './postgres-plans.ts'
import { newPostgresUrl } from './servers.ts'
import { testContext } from './sqlite-files.ts'

export const ROWS = Number(process.env.POSTHASTE_TEST_ROWS ?? 20_000)

/** What must not cost more than its rows, whatever else is in the tables. */
export const OPERATIONS = [
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
  'a position',
  'a step of a back-fill',
] as const

export type Operation = (typeof OPERATIONS)[number]

/** By one statement, so that it can be looked at without being run. */
const CHANGES_ROWS: ReadonlySet<Operation> = new Set([
  'a claim',
  'a settle',
  'a hold',
  'an activation',
  'a suspicion',
])

/** What the store sends, and whether it is kept from the server. */
interface Recording {
  readonly sent: Sent[]
  refuse: boolean
}

const recordingClient = (recording: Recording): typeof pg.Client =>
  class extends pg.Client {
    constructor(config?: string | pg.ClientConfig) {
      super(config)
      const query = this.query.bind(this) as (...args: unknown[]) => unknown
      Object.assign(this, {
        query: (...args: unknown[]) => {
          const [config] = args as [{ text?: string; values?: unknown[] }]
          if (typeof config?.text === 'string') {
            recording.sent.push({ text: config.text, values: config.values ?? [] })
            if (recording.refuse) throw new Error('This statement is only looked at.')
          }
          return query(...args)
        },
      })
    }
  }

/** In a database of its own: dead versions that a snapshot of another test keeps would be counted here. */
const databaseUrl = (name: string): string => {
  const url = new URL(newPostgresUrl())
  url.pathname = `/${name}`
  return url.href
}

const inSharedDatabase = async (sql: string): Promise<void> => {
  const client = new pg.Client({ connectionString: newPostgresUrl() })
  await client.connect()
  await client.query(sql)
  await client.end()
}

export class Planning {
  readonly schema = newSchema()
  readonly url = databaseUrl(this.schema)
  readonly hand = new pg.Client({ connectionString: this.url })
  readonly #recording: Recording = { sent: [], refuse: false }
  readonly #pool = new pg.Pool({
    connectionString: this.url,
    max: 4,
    Client: recordingClient(this.#recording),
  } as pg.PoolConfig)
  readonly #store: Store<pg.PoolClient, SqlExecutor>
  readonly t: StoreFixture

  constructor(layout: PostgresLayout) {
    this.#store = postgresStore({ pool: this.#pool, schema: this.schema, layout, listen: false })
    this.t = new StoreFixture({ store: this.#store } as unknown as StoreHarness)
  }

  async open(): Promise<void> {
    await inSharedDatabase(`CREATE DATABASE ${this.schema}`)
    await this.hand.connect()
    await this.#store.open(testContext())
    await this.#store.schema.migrate()
    await this.#keepStatistics()
    await this.t.declare('alpha')
  }

  /** Those of the tests alone count, not what the server gathers by itself in between. */
  async #keepStatistics(): Promise<void> {
    const { rows } = await this.hand.query<{ name: string }>(
      `SELECT oid::regclass::text AS name FROM pg_class WHERE relnamespace = '${this.schema}'::regnamespace AND relkind = 'r'`,
    )
    for (const { name } of rows) await this.hand.query(`ALTER TABLE ${name} SET (autovacuum_enabled = false)`)
  }

  async close(): Promise<void> {
    await this.#store.close()
    await this.#pool.end()
    await this.hand.end()
    await inSharedDatabase(`DROP DATABASE ${this.schema}`)
  }

  /** The plans of everything that `work` sends, without transaction control. */
  async plansOf(
    work: () => Promise<unknown>,
    look: (sent: Sent) => Promise<Plan> = (sent) => planOf(this.hand, sent),
  ): Promise<Plan[]> {
    this.#recording.sent.length = 0
    await work()
    const { sent } = this.#recording
    const statements = sent
      .flatMap(statementsIn)
      .filter(({ text }) => /^\(?(WITH|SELECT|UPDATE|DELETE|INSERT)/.test(text))
    if (statements.length === 0) throw new Error('Nothing was sent whose plan could be looked at.')
    const plans: Plan[] = []
    for (const one of statements) plans.push(await look(one))
    return plans
  }

  /** Pages that each operation looks at; the lesser of two times, because versions that died meanwhile cost extra once. */
  async buffers(filled: Filled, look?: (sent: Sent) => Promise<Plan>): Promise<Map<Operation, number>> {
    const buffers = new Map<Operation, number>()
    for (const name of [...OPERATIONS, ...OPERATIONS]) {
      const plans = await this.plansOf(() => this.show(name, filled), look)
      const pages = plans.reduce((sum, plan) => sum + plan.buffers, 0)
      buffers.set(name, Math.min(pages, buffers.get(name) ?? pages))
    }
    return buffers
  }

  /** As `run`, but what would change rows is kept from the server: they stay as they are for the next look. */
  async show(operation: Operation, filled: Filled): Promise<unknown> {
    if (!CHANGES_ROWS.has(operation)) return await this.run(operation, filled)
    const change = await this.#changeOf(operation, filled)
    this.#recording.sent.length = 0
    this.#recording.refuse = true
    try {
      return await change().catch(() => undefined)
    } finally {
      this.#recording.refuse = false
    }
  }

  /** What holds no key: nearly always everything is so, and takes the quick statement. */
  async #changeOf(operation: Operation, filled: Filled): Promise<() => Promise<unknown>> {
    if (operation !== 'a settle') return () => this.run(operation, filled)
    return await this.#settlement(filled.worker, ({ holdsKey }) => !holdsKey)
  }

  async run(operation: Operation, filled: Filled): Promise<unknown> {
    const { t } = this
    const { queue, inspection, maintenance, registry } = this.#store
    const workerId = filled.worker
    switch (operation) {
      case 'a read with a sweep':
        return await t.read({ after: filled.middleSeq, limit: 500, sweep: true, sweepLimit: 500 })
      case 'a read of some lanes':
        return await t.read({ lanes: [1, 2, 3], limit: 500 })
      case 'a read of ids':
        return await queue.readByIds('alpha', filled.pending)
      case 'a claim':
        return await queue.claim(workerId, filled.keyed, 10)
      case 'a settle':
        return await (await this.#settlement(workerId))()
      case 'a hold':
        return await queue.hold(workerId, 'alpha', filled.keyed)
      case 'an activation':
        return await queue.activate({ workerId, destination: 'alpha', lanes: null, limit: 50 })
      case 'a suspicion':
        return await queue.suspect({ workerId, ids: filled.pending, token: t.newId(), spendFrom: 3 })
      case 'unrouted rows':
        return await queue.readUnrouted(10)
      case 'a page of dead ones':
        return await inspection.list({ status: ['dead'], limit: 20 })
      case 'a page of everything':
        return await inspection.list({ limit: 20 })
      case 'the event of a delivery':
        return await inspection.eventOfDelivery(filled.pending[0]!)
      case 'a step of cleaning':
        return await maintenance.cleanup({
          doneOlderThanMs: 3_600_000_000,
          deadOlderThanMs: 3_600_000_000,
          dedupOlderThanMs: 3_600_000_000,
          limit: 100,
        })
      case 'a position':
        return await registry.eventFrom(filled.middleSeq)
      case 'a step of a back-fill':
        return await registry.findUnheard({
          destination: 'beta',
          after: 0n,
          upTo: filled.middleSeq,
          limit: 100,
        })
    }
  }

  async #settlement(
    workerId: string,
    isWanted: (row: StoredDelivery) => boolean = () => true,
  ): Promise<() => Promise<unknown>> {
    const { fresh } = await this.t.read({ limit: 200 })
    const right = { kind: 'lane', workerId } as const
    const settlements = fresh.filter(isWanted).map((row) => ({
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
    return () => this.#store.queue.settle({ settlements, historyLimit: 5, promoteLimit: 5, workerName: 'x' })
  }
}
