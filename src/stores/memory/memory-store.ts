/**
 * A store in memory: for users' tests, and the model of a database in the simulator. Every method is one
 * synchronous step whose result comes as a resolved promise, so each is atomic; time comes from the database's
 * clock alone. A store is the handle of one process; several may share a database.
 */
import { ERROR_CODES, InvalidOptionError, StoreError } from '../../core/errors.ts'
import { createIdGenerator, refuseUnknown } from '../../core/model/index.ts'
import type { SchemaStatus, Store, StoreContext } from '../../core/spi/index.ts'
import { createMemoryDatabase, type MemoryDatabase } from './database.ts'
import * as claiming from './statements/claim.ts'
import { insert, insertSync } from './statements/insert.ts'
import * as inspect from './statements/inspect.ts'
import * as lanes from './statements/lanes.ts'
import * as maintain from './statements/maintain.ts'
import * as operate from './statements/operate.ts'
import * as reading from './statements/read.ts'
import * as registry from './statements/registry.ts'
import { settle } from './statements/settle.ts'
import { type MemoryTransaction, memoryTransactions, TransactionLog } from './transactions.ts'

export interface MemoryStoreOptions {
  /** Shared with other stores; by default an empty one of its own. */
  readonly database?: MemoryDatabase
}

export interface MemoryStore extends Store<MemoryTransaction, MemoryTransaction> {
  readonly database: MemoryDatabase
  insertSync: NonNullable<Store<MemoryTransaction, MemoryTransaction>['insertSync']>
}

const OPTION_NAMES: ReadonlySet<string> = new Set<keyof MemoryStoreOptions>(['database'])

/** What one process has of the database: whether it is connected, and its open transactions. */
class Connection {
  readonly database: MemoryDatabase
  readonly #open = new Set<TransactionLog>()
  #newId: (() => string) | null = null

  constructor(database: MemoryDatabase) {
    this.database = database
  }

  open({ runtime }: StoreContext): void {
    this.database.lendClock(() => runtime.wallNow())
    this.#newId ??= createIdGenerator({
      wallNow: () => this.database.now(),
      randomBytes: (size) => runtime.randomBytes(size),
    })
  }

  /** A server rolls back what a client leaves open when it goes away. */
  close(): void {
    this.#newId = null
    for (const log of this.#open) if (!log.over) log.rollback()
    this.#open.clear()
  }

  newId = (): string => {
    if (this.#newId === null) throw notOpen()
    return this.#newId()
  }

  begin(): TransactionLog {
    this.#assertOpen()
    for (const log of this.#open) if (log.over) this.#open.delete(log)
    const log = new TransactionLog(this.database)
    this.#open.add(log)
    return log
  }

  /** A method of the SPI: one synchronous step, and a promise of what came of it. */
  step<A extends unknown[], R>(run: (database: MemoryDatabase, ...args: A) => R): (...args: A) => Promise<R> {
    return async (...args) => {
      this.#assertOpen()
      return run(this.database, ...args)
    }
  }

  #assertOpen(): void {
    if (this.#newId === null) throw notOpen()
  }
}

const notOpen = (): StoreError =>
  new StoreError(ERROR_CODES.closed, 'the memory store is not open; open() comes before everything else')

export const memoryStore = (options: MemoryStoreOptions = {}): MemoryStore => {
  refuseUnknown('memoryStore', options, OPTION_NAMES)
  const { database = createMemoryDatabase() } = options
  // By a method, because a program may have loaded the package twice, as a module and as CommonJS.
  if (typeof database?.lendClock !== 'function') {
    throw new InvalidOptionError('database must come from createMemoryDatabase()', {
      option: 'database',
      value: database,
    })
  }
  const connection = new Connection(database)
  const step = connection.step.bind(connection) as Connection['step']
  const schemaStatus = step(statusOf)
  return {
    name: 'memory',
    database,
    capabilities: { commitOrder: false, embedded: true, synchronous: true, parallelSettles: 2 },
    transactions: memoryTransactions(() => connection.begin()),
    open: async (context) => connection.open(context),
    close: async () => connection.close(),
    insert,
    insertSync,
    lanes: {
      register: step(lanes.register),
      renew: step(lanes.renew),
      survey: step(lanes.survey),
      take: step(lanes.take),
      giveUp: step(lanes.giveUp),
      retire: step(lanes.retire),
    },
    queue: {
      read: step(reading.read),
      readByIds: step(reading.readByIds),
      activate: step(reading.activate),
      claim: step(claiming.claim),
      suspect: step(claiming.suspect),
      extend: step(claiming.extend),
      hold: step(claiming.hold),
      settle: step(settle),
      readUnrouted: step(reading.readUnrouted),
      expand: step(claiming.expand),
    },
    registry: {
      declare: step(registry.declare),
      load: step(registry.load),
      configure: step(registry.configure),
      findUnreconciled: step(registry.findUnreconciled),
      reconcile: step(registry.reconcile),
      eventFrom: step(registry.eventFrom),
      findUnheard: step(registry.findUnheard),
    },
    schema: { status: schemaStatus, migrate: schemaStatus, sql: () => '' },
    inspection: {
      list: step(inspect.list),
      event: step(inspect.event),
      eventOfDelivery: step(inspect.eventOfDelivery),
      counts: step(inspect.counts),
      blockedKeys: step(inspect.blockedKeys),
      audit: step(inspect.audit),
      workers: step(inspect.workers),
      lanes: step(inspect.lanes),
    },
    operations: {
      preview: step(operate.preview),
      redrive: step((db, target, act) => operate.redrive(db, target, act, connection.newId)),
      replay: step((db, target, act) => operate.replay(db, target, act, connection.newId)),
      discard: step(operate.discard),
      edit: step(operate.edit),
      backfill: step(registry.backfill),
    },
    maintenance: {
      cleanup: step(maintain.cleanup),
      recordStatistics: step(maintain.recordStatistics),
      takeDuty: step(maintain.takeDuty),
      finishDuty: step(maintain.finishDuty),
    },
  }
}

/** There are no tables to create, so the schema is always the one that this version knows. */
const statusOf = (db: MemoryDatabase): SchemaStatus => ({
  current: 1,
  latest: 1,
  applied: [{ version: 1, name: 'memory', appliedAtMs: db.createdAtMs ?? 0 }],
})
