/** The store on PostgreSQL: every role, each method one transaction. The SQL is in `statements/`. */

import { randomUUID } from 'node:crypto'
import { attachPlace, serverAddress } from '../../core/model/index.ts'
import type {
  InsertRequest,
  InsertResult,
  Inspection,
  LaneStore,
  Maintenance,
  Mark,
  Operations,
  PartitionRequest,
  QueueStore,
  Registry,
  Schema,
  Store,
  StoreCapabilities,
  StoreContext,
  Wakeup,
} from '../../core/spi/index.ts'
import { lazyIds } from '../sql/lazy-ids.ts'
import type { SqlExecutor } from '../sql/sql-executor.ts'
import { undoneMeanwhile } from '../sql/transaction-scope.ts'
import { PostgresDatabase } from './database.ts'
import { forLayout } from './layout.ts'
import type { ResolvedPostgresOptions } from './options.ts'
import { firstPartitions, PostgresPartitions } from './partitions.ts'
import { settingsOf } from './pools.ts'
import { schemaRole, tailOf } from './schema.ts'
import { activate } from './statements/activate.ts'
import { readAudit } from './statements/audit.ts'
import { claim } from './statements/claim.ts'
import { cleanup, NO_MARK } from './statements/cleanup.ts'
import { extend } from './statements/extend.ts'
import { hold } from './statements/hold.ts'
import { insertResult, insertStatement, isGone, winnersStatement } from './statements/insert.ts'
import * as inspecting from './statements/inspect.ts'
import * as laneStatements from './statements/lanes.ts'
import { list } from './statements/list.ts'
import { lockStatement, markStatement } from './statements/marks.ts'
import * as operating from './statements/operate.ts'
import * as reading from './statements/read.ts'
import * as registering from './statements/registry.ts'
import { settle } from './statements/settle.ts'
import * as counting from './statements/statistics.ts'
import { suspect } from './statements/suspect.ts'
import * as unheard from './statements/unheard.ts'
import { Unreconciled } from './statements/unreconciled.ts'
import * as unrouted from './statements/unrouted.ts'
import { type PostgresTables, postgresTables } from './tables.ts'
import { PostgresTransactions } from './transactions.ts'
import { wakeupRole } from './wakeup.ts'

const CAPABILITIES: StoreCapabilities = Object.freeze({
  commitOrder: false,
  embedded: false,
  synchronous: false,
  // A second flush hides the round trip of the first.
  parallelSettles: 2,
})

/** One session: transactions never overlap, and a second flush would only wait for the first. */
const EMBEDDED: StoreCapabilities = Object.freeze({
  ...CAPABILITIES,
  commitOrder: true,
  embedded: true,
  parallelSettles: 1,
})

export class PostgresStore<Tx extends object> implements Store<Tx, SqlExecutor> {
  readonly name = 'postgres'
  readonly capabilities: StoreCapabilities
  readonly transactions: PostgresTransactions<Tx>
  readonly lanes: LaneStore
  readonly queue: QueueStore
  readonly registry: Registry
  readonly schema: Schema
  readonly inspection: Inspection
  readonly operations: Operations
  readonly maintenance: Maintenance
  readonly wakeup?: Wakeup
  readonly #database: PostgresDatabase
  readonly #tables: PostgresTables

  constructor(options: ResolvedPostgresOptions) {
    const database = new PostgresDatabase(options)
    const tables = postgresTables(options.schema, options.prefix)
    const isEmbedded = 'pool' in options.source && options.source.pool.embedded === true
    attachPlace(
      this,
      isEmbedded ? 'PGlite, in this process' : serverAddress('postgres', settingsOf(options.source)),
    )
    this.capabilities = isEmbedded ? EMBEDDED : CAPABILITIES
    this.#database = database
    this.#tables = tables
    this.transactions = new PostgresTransactions<Tx>(database)
    this.schema = schemaRole(database, tables, async (session) => {
      if (options.layout === 'partitioned') await firstPartitions(session, tables, options.period)
    })
    this.lanes = laneRole(database, tables)
    this.queue = queueRole(database, tables)
    this.registry = registryRole(database, tables)
    this.inspection = inspectionRole(database, tables)
    this.operations = operationsRole(database, tables)
    this.maintenance = maintenanceRole(database, tables)
    // Nobody outside of this process could be woken.
    if (options.listen !== false && !isEmbedded) this.wakeup = wakeupRole(database, tables)
  }

  open(context: StoreContext): Promise<void> {
    return this.#database.open(context)
  }

  close(): Promise<void> {
    return this.#database.close()
  }

  /** What can be sent at once is, or is kept in front of all that the application sends next; the rest proves that it still may. */
  async insert(executor: SqlExecutor, request: InsertRequest): Promise<InsertResult> {
    const keys = request.lockKeys ? keysOf(request) : []
    let mark = request.mark ?? null
    if (mark === null && executor.isGuarded !== true && (keys.length > 0 || executor.isDoubtful === true)) {
      mark = newMark()
      const { sql, params } = keys.length > 0 ? lockStatement(this.#tables, keys, mark) : markStatement(mark)
      await executor.run(sql, params)
    } else if (keys.length > 0) {
      const { sql, params } = lockStatement(this.#tables, keys, null)
      await executor.run(sql, params)
    }
    const statement = insertStatement(this.#tables, request, mark, executor.isPrepared === true)
    if (statement === null) return { duplicates: new Map() }
    const isAsked = mark !== null || request.events.some(({ idempotencyKey }) => idempotencyKey !== null)
    if (request.mayWait === true && executor.defer !== undefined && !isAsked) {
      await executor.defer(statement.sql, statement.params)
      return { duplicates: new Map() }
    }
    const answers = [await executor.run(statement.sql, statement.params)]
    if (isGone(answers[0])) throw undoneMeanwhile()
    const winners = winnersStatement(this.#tables, answers[0])
    if (winners !== null) answers.push(await executor.run(winners.sql, winners.params))
    return insertResult(request, answers)
  }

  async mark(executor: SqlExecutor): Promise<Mark> {
    const id = newMark()
    const { sql, params } = markStatement(id)
    await executor.run(sql, params)
    // It ends with the transaction.
    return { id, drop: async () => undefined }
  }
}

/** Not an id of the outbox's: it ends with the transaction. */
const newMark = (): string => randomUUID()

const keysOf = ({ events }: InsertRequest): string[] => [
  ...new Set(events.flatMap(({ key }) => (key === null ? [] : [key]))),
]

const laneRole = (db: PostgresDatabase, t: PostgresTables): LaneStore => ({
  register: (worker) => laneStatements.register(db, t, worker),
  renew: (workerId, leaseMs, open) => laneStatements.renew(db, t, workerId, leaseMs, open),
  survey: (workerId, destinations, silent) => laneStatements.survey(db, t, workerId, destinations, silent),
  take: (workerId, destination, atMost) => laneStatements.take(db, t, workerId, destination, atMost),
  giveUp: (workerId, destination, lanes) => laneStatements.giveUp(db, t, workerId, destination, lanes),
  retire: (workerId) => laneStatements.retire(db, t, workerId),
})

const queueRole = (db: PostgresDatabase, t: PostgresTables): QueueStore => ({
  read: (request) => reading.read(db, t, request),
  readByIds: (destination, ids) => reading.readByIds(db, t, destination, ids),
  activate: (request) => activate(db, t, request),
  claim: (workerId, ids, aheadLimit) => claim(db, t, workerId, ids, aheadLimit),
  suspect: (request) => suspect(db, t, request),
  extend: (hot, leaseMs) => extend(db, t, hot, leaseMs),
  hold: (workerId, destination, ids) => hold(db, t, workerId, destination, ids),
  settle: (request) => settle(db, t, request),
  readUnrouted: (limit) => unrouted.readUnrouted(db, t, limit),
  expand: (request) => unrouted.expand(db, t, request),
})

const registryRole = (db: PostgresDatabase, t: PostgresTables): Registry => {
  const unreconciled = new Unreconciled(db, t)
  return {
    declare: (destinations, by) => registering.declare(db, t, destinations, by),
    load: () => registering.load(db, t),
    configure: (name, change, by) => registering.configure(db, t, name, change, by),
    findUnreconciled: (destination, limit) => unreconciled.find(destination, limit),
    reconcile: (destination, deliveries, scannedTo) =>
      registering.reconcile(db, t, destination, deliveries, scannedTo),
    eventFrom: (seq) => unheard.eventFrom(db, t, seq),
    findUnheard: (query) => unheard.findUnheard(db, t, unreconciled, query),
  }
}

const inspectionRole = (db: PostgresDatabase, t: PostgresTables): Inspection => ({
  list: (query) => list(db, t, query),
  event: (eventId) => inspecting.event(db, t, eventId),
  eventOfDelivery: (deliveryId) => inspecting.eventOfDelivery(db, t, deliveryId),
  counts: () => inspecting.counts(db, t),
  blockedKeys: (query) => inspecting.blockedKeys(db, t, query),
  audit: ({ limit }) => readAudit(db, t, limit),
  workers: () => inspecting.workers(db, t),
  lanes: (query) => inspecting.lanes(db, t, query),
  statistics: (query) => counting.readStatistics(db, t, query),
})

const operationsRole = (db: PostgresDatabase, t: PostgresTables): Operations => {
  const newId = lazyIds(db)
  return {
    preview: (kind, target) => operating.preview(db, t, kind, target),
    redrive: (target, act) => operating.redrive(db, t, target, act, newId),
    replay: (target, act) => operating.replay(db, t, target, act, newId),
    discard: (target, act) => operating.discard(db, t, target, act),
    edit: (deliveryId, replacement, newDeliveryId, act) =>
      operating.edit(db, t, deliveryId, replacement, newDeliveryId, act),
    backfill: (destination, deliveries, scope, act) =>
      unheard.backfill(db, t, destination, deliveries, scope, act),
  }
}

const maintenanceRole = (db: PostgresDatabase, t: PostgresTables): Maintenance => {
  const from =
    db.options.layout === 'plain' ? t : { ...t, events: tailOf(t, 'events'), finished: tailOf(t, 'finished') }
  // Where the walk over old events goes on. Losing it with the process only means to begin again.
  let mark = NO_MARK
  const partitions = new PostgresPartitions(db, t)
  return {
    ...(db.options.layout === 'partitioned'
      ? {
          partitions: (request: PartitionRequest) => forLayout(db, t, () => partitions.maintain(request)),
        }
      : {}),
    async cleanup(request) {
      const step = await forLayout(db, t, () => cleanup(db, t, from, request, mark))
      mark = step.mark
      return step.result
    },
    recordStatistics: (keepMinutes) => counting.recordStatistics(db, t, keepMinutes),
    takeDuty: (name, workerId) => counting.takeDuty(db, t, name, workerId),
    finishDuty: (name, workerId) => counting.finishDuty(db, t, name, workerId),
  }
}
