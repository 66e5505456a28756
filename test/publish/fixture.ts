/**
 * A database of a few lines, so that these tests can break exactly what they are about: it has one connection,
 * savepoints, COMMITs that lie, and handles that are used again. Rows become visible at commit.
 */
import { ERROR_CODES, TransactionError } from '../../src/core/errors.ts'
import type { HotDelivery, HotIntake } from '../../src/core/flow/hot-intake.ts'
import { createPublishing, type PublishingParts } from '../../src/core/flow/transactions-api.ts'
import { UnderWay } from '../../src/core/flow/under-way.ts'
import { type OutboxOptions, resolveOptions } from '../../src/core/options.ts'
import { createCountingMetrics } from '../../src/core/runtime/metrics.ts'
import type {
  InsertRequest,
  InsertResult,
  Logger,
  NewDelivery,
  NewEvent,
  Runtime,
  Store,
  Transactions,
} from '../../src/core/spi/index.ts'

export interface Row {
  readonly event: NewEvent
  readonly deliveries: readonly NewDelivery[]
}

export interface FakeTx {
  rows: Row[]
  active: boolean
}

/** What the next COMMIT answers. */
type CommitAnswer = 'ok' | 'rolledBack' | 'unknown'

export class FakeDatabase {
  rows: Row[] = []
  commitAnswer: CommitAnswer = 'ok'
  inserts: InsertRequest[] = []
  /** Awaited by every insert before it writes. */
  gate: Promise<void> | null = null
  /** Inserts that were asked for, whether or not the gate let them write. */
  sent = 0
  /** Awaited by every savepoint before it is released. */
  releaseGate: Promise<void> | null = null
  failInsert: Error | null = null
  log: string[] = []

  commit(tx: FakeTx): void {
    tx.active = false
    this.log.push('commit')
    const answer = this.commitAnswer
    if (answer === 'rolledBack')
      throw new TransactionError(ERROR_CODES.commitRolledBack, 'COMMIT answered ROLLBACK')
    this.rows.push(...tx.rows)
    if (answer === 'unknown') throw new TransactionError(ERROR_CODES.commitUnknown, 'the answer was lost')
  }

  rollback(tx: FakeTx): void {
    tx.active = false
    this.log.push('rollback')
  }

  insert(tx: FakeTx, request: InsertRequest): InsertResult {
    this.inserts.push(request)
    this.log.push(`insert ${request.events.map((event) => event.type).join(',')}`)
    if (this.failInsert !== null) throw this.failInsert
    const duplicates = new Map<string, string>()
    const deliveries = new Map<string, NewDelivery[]>()
    for (const delivery of request.deliveries) {
      deliveries.set(delivery.eventId, [...(deliveries.get(delivery.eventId) ?? []), delivery])
    }
    for (const event of request.events) {
      const same = (row: Row): boolean =>
        row.event.type === event.type && row.event.idempotencyKey === event.idempotencyKey
      const first = event.idempotencyKey === null ? undefined : [...this.rows, ...tx.rows].find(same)
      if (first === undefined) {
        tx.rows.push({ event, deliveries: deliveries.get(event.id) ?? [] })
      } else {
        duplicates.set(event.id, first.event.id)
      }
    }
    return { duplicates }
  }
}

export interface FakeLibrary {
  /** One handle for all transactions, as a SQLite database object is. */
  readonly sharedHandle?: boolean
  /** Nested transactions have a handle of their own, as with most ORMs. */
  readonly ownNestedHandle?: boolean
  readonly savepoints?: boolean
  readonly manual?: boolean
  readonly tells?: boolean
}

export const fakeTransactions = (
  database: FakeDatabase,
  library: FakeLibrary = {},
): Transactions<FakeTx, FakeTx> => {
  const shared: FakeTx = { rows: [], active: false }
  const begin = (): FakeTx => {
    if (library.sharedHandle !== true) return { rows: [], active: true }
    shared.rows = []
    shared.active = true
    return shared
  }
  const parents = new WeakMap<FakeTx, FakeTx>()
  const transactions: Transactions<FakeTx, FakeTx> = {
    library: 'fake-orm',
    async run(fn) {
      const tx = begin()
      let result: Awaited<ReturnType<typeof fn>>
      try {
        result = await fn(tx)
      } catch (error) {
        database.rollback(tx)
        throw error
      }
      database.commit(tx)
      return result
    },
    executor: (tx) => parents.get(tx) ?? tx,
    inTransaction: (tx) => (library.tells === false ? undefined : (parents.get(tx) ?? tx).active),
  }
  if (library.manual !== false) {
    transactions.begin = async () => {
      const tx = begin()
      return { tx, commit: async () => database.commit(tx), rollback: async () => database.rollback(tx) }
    }
  }
  if (library.savepoints !== false) {
    transactions.nested = async (tx, fn) => {
      const root = parents.get(tx) ?? tx
      const mark = root.rows.length
      const inner = library.ownNestedHandle === true ? { rows: [], active: true } : tx
      if (inner !== tx) parents.set(inner, root)
      database.log.push('savepoint')
      try {
        const result = await fn(inner)
        if (database.releaseGate !== null) await database.releaseGate
        database.log.push('release')
        return result
      } catch (error) {
        root.rows.length = mark
        database.log.push('rollback to')
        throw error
      }
    }
  }
  return transactions
}

export class FakeIntake implements HotIntake {
  offered: HotDelivery[] = []
  expected = 0
  destinations: readonly string[] | null = ['local']
  admitted = true
  readonly workerId = '0198c3a4-0000-7000-8000-0123456789ab'

  routes() {
    return this.destinations === null ? null : { destinations: this.destinations, version: 7 }
  }
  admits(): boolean {
    return this.admitted
  }
  offer(deliveries: readonly HotDelivery[]): void {
    this.offered.push(...deliveries)
  }
  expectRows(): void {
    this.expected += 1
  }
  get types(): string[] {
    return this.offered.map((delivery) => delivery.event.type)
  }
}

export class FakeRuntime implements Runtime {
  wall = 1_700_000_000_000
  mono = 1_000
  #seed = 1
  readonly processName = 'test'
  wallNow = (): number => this.wall
  monotonicNow = (): number => this.mono
  random = (): number => 0.5
  randomBytes = (size: number): Uint8Array => {
    // A plain linear congruence is plenty: ids must differ, not surprise.
    return Uint8Array.from({ length: size }, () => {
      this.#seed = (Math.imul(this.#seed, 1_103_515_245) + 12_345) >>> 0
      return this.#seed >>> 16
    })
  }
  schedule = (): (() => void) => () => undefined
  yield = (): Promise<void> => Promise.resolve()
}

export interface World {
  readonly library?: FakeLibrary
  readonly options?: Partial<OutboxOptions<FakeTx, FakeTx>>
  readonly transactions?: (database: FakeDatabase) => Transactions<FakeTx, FakeTx>
  readonly synchronous?: boolean
  /** Instead of what the store does else. */
  readonly store?: Partial<Store<FakeTx, FakeTx>>
}

export const createWorld = (world: World = {}) => {
  const database = new FakeDatabase()
  const transactions = world.transactions?.(database) ?? fakeTransactions(database, world.library)
  const store = {
    name: 'fake',
    capabilities: {
      commitOrder: true,
      embedded: true,
      synchronous: world.synchronous ?? false,
      parallelSettles: 1,
    },
    transactions,
    async insert(executor: FakeTx, request: InsertRequest) {
      database.sent += 1
      if (database.gate !== null) await database.gate
      return database.insert(executor, request)
    },
    ...(world.synchronous === true
      ? { insertSync: (executor: FakeTx, request: InsertRequest) => database.insert(executor, request) }
      : {}),
    ...world.store,
  } as unknown as Store<FakeTx, FakeTx>
  const intake = new FakeIntake()
  const runtime = new FakeRuntime()
  const metrics = createCountingMetrics()
  const logged: { level: string; message: string; fields: Readonly<Record<string, unknown>> | undefined }[] =
    []
  const logger: Logger = { log: (level, message, fields) => void logged.push({ level, message, fields }) }
  const state = { closed: false }
  const parts: PublishingParts<FakeTx, FakeTx> = {
    store,
    transactions,
    options: resolveOptions({ ...world.options, store }),
    runtime,
    logger,
    metrics,
    intake,
    isClosed: () => state.closed,
    underWay: new UnderWay(),
  }
  return { database, intake, runtime, metrics, logged, state, transactions, outbox: createPublishing(parts) }
}

/** A promise and the means to settle it. */
export const deferred = <T = void>() => {
  let resolve!: (value: T) => void
  let reject!: (error: unknown) => void
  const promise = new Promise<T>((yes, no) => {
    resolve = yes
    reject = no
  })
  return { promise, resolve, reject }
}

/** Until something is so; a test that waits in vain runs into its time limit. */
export const until = async (isSo: () => boolean): Promise<void> => {
  while (!isSo()) await new Promise((resolve) => setImmediate(resolve))
}
