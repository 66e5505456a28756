/** The store on MySQL and MariaDB: every role. The SQL is in `statements/`. */
import { randomUUID } from 'node:crypto'
import { ERROR_CODES, OutboxError } from '../../core/errors.ts'
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
} from '../../core/spi/index.ts'
import type { Tables } from '../sql/identifiers.ts'
import { lazyIds } from '../sql/lazy-ids.ts'
import type { SqlExecutor } from '../sql/sql-executor.ts'
import { halfStored, undoneMeanwhile } from '../sql/transaction-scope.ts'
import { MysqlDatabase } from './database.ts'
import { endsTransaction, isBroken } from './errors.ts'
import type { ResolvedMysqlOptions } from './options.ts'
import { MysqlPartitions } from './partitions.ts'
import { schemaRole } from './schema.ts'
import * as activating from './statements/activate.ts'
import * as audit from './statements/audit.ts'
import * as claims from './statements/claim.ts'
import * as cleaning from './statements/cleanup.ts'
import * as extending from './statements/extend.ts'
import * as holding from './statements/hold.ts'
import * as inserting from './statements/insert.ts'
import type { InsertStep } from './statements/insert-step.ts'
import * as inspecting from './statements/inspect.ts'
import * as laneStatements from './statements/lanes.ts'
import { list } from './statements/list.ts'
import { lookStatement, markStep } from './statements/marks.ts'
import * as operating from './statements/operate.ts'
import * as reading from './statements/read.ts'
import * as reconciling from './statements/reconcile.ts'
import * as registering from './statements/registry.ts'
import * as settling from './statements/settle.ts'
import * as counting from './statements/statistics.ts'
import * as suspecting from './statements/suspect.ts'
import * as unheard from './statements/unheard.ts'
import * as unrouted from './statements/unrouted.ts'
import { mysqlTables } from './tables.ts'
import { MysqlTransactions } from './transactions.ts'

const CAPABILITIES: StoreCapabilities = Object.freeze({
  commitOrder: false,
  embedded: false,
  synchronous: false,
  // The second one fills the time in which the first one waits for the disk.
  parallelSettles: 2,
})

export class MysqlStore<Tx extends object> implements Store<Tx, SqlExecutor> {
  readonly name = 'mysql'
  readonly capabilities = CAPABILITIES
  readonly transactions: MysqlTransactions<Tx>
  readonly lanes: LaneStore
  readonly queue: QueueStore
  readonly registry: Registry
  readonly schema: Schema
  readonly inspection: Inspection
  readonly operations: Operations
  readonly maintenance: Maintenance
  readonly #database: MysqlDatabase
  readonly #tables: Tables
  readonly #newId: () => string

  constructor(options: ResolvedMysqlOptions) {
    const database = new MysqlDatabase(options)
    const tables = mysqlTables(options.prefix)
    const newId = lazyIds(database)
    const { source } = options
    attachPlace(this, serverAddress('mysql', 'pool' in source ? source.settings : { ...source }))
    this.#database = database
    this.#tables = tables
    this.#newId = newId
    this.transactions = new MysqlTransactions<Tx>(database)
    this.schema = schemaRole(database, tables)
    this.lanes = laneRole(database, tables)
    this.queue = queueRole(database, tables, newId)
    this.registry = registryRole(database, tables, newId)
    this.inspection = inspectionRole(database, tables)
    this.operations = operationsRole(database, tables, newId)
    this.maintenance = maintenanceRole(database, tables)
  }

  open(context: StoreContext): Promise<void> {
    return this.#database.open(context)
  }

  close(): Promise<void> {
    return this.#database.close()
  }

  /** What can be sent at once is, before the application does anything else; the rest proves that it still may. */
  async insert(executor: SqlExecutor, request: InsertRequest): Promise<InsertResult> {
    const lock = request.lockKeys ? inserting.lockStatement(this.#tables, request) : null
    const needsMark = lock !== null || (executor.isDoubtful ?? hasKey(request))
    const mark =
      needsMark && executor.isGuarded !== true && request.mark === undefined
        ? (await this.mark(executor)).id
        : request.mark
    if (mark === undefined) {
      if (lock !== null) await executor.run(lock.sql, lock.params)
      return await this.#insert(executor, request)
    }
    try {
      if (lock !== null) await executor.run(lock.sql, lock.params)
      const result = await this.#insert(executor, { ...request, mark })
      const look = lookStatement(this.#tables, mark)
      if ((await executor.run(look.sql, look.params))?.length === 0) throw undoneMeanwhile()
      return result
    } finally {
      await this.#undo(executor, [markStep(this.#tables, mark)])
    }
  }

  async mark(executor: SqlExecutor): Promise<Mark> {
    const id = randomUUID()
    const step = markStep(this.#tables, id)
    await this.#runSteps(executor, [step])
    return { id, drop: async () => void (await this.#undo(executor, [step])) }
  }

  async #insert(executor: SqlExecutor, request: InsertRequest): Promise<InsertResult> {
    const t = this.#tables
    const { steps, claim } = inserting.insertPlan(t, request, this.#newId)
    const { written, expected } = await this.#runSteps(executor, steps)
    if (claim === null) return { duplicates: new Map() }
    if (written === expected) return inserting.ownDuplicates(request)
    const { sql, params } = inserting.winnersStatement(t, request)
    return inserting.insertResult(request, claim, await executor.run(sql, params))
  }

  /** How many events were written, as far as the client's library tells; NaN when it does not. */
  async #runSteps(
    executor: SqlExecutor,
    steps: readonly InsertStep[],
  ): Promise<{ readonly written: number; readonly expected: number }> {
    const done: InsertStep[] = []
    let [written, expected] = [0, 0]
    for (const step of steps) {
      // Nothing but duplicates: there is nothing to deliver.
      if (step.events === 0 && expected > 0 && written === 0) continue
      try {
        const answer = await executor.run(step.sql, step.params)
        if (step.events > 0) {
          expected += step.events
          written += Number(answer?.[0]?.affectedRows ?? Number.NaN)
        }
        done.push(step)
      } catch (error) {
        if (isNoTransaction(error)) {
          await this.#removeStored([...done, step])
          // Where a statement had failed before, it is told why.
          await executor.ask?.()
        } else if (isStillOpen((error as { cause?: unknown }).cause) && !(await this.#undo(executor, done))) {
          throw halfStored(error)
        }
        throw error
      }
      if (done.length === 1) await this.#ask(executor, step)
    }
    return { written, expected }
  }

  /** After the first statement, which had to be sent at once, and before there is anything to deliver. */
  async #ask(executor: SqlExecutor, sent: InsertStep): Promise<void> {
    try {
      await executor.ask?.()
    } catch (error) {
      await this.#removeStored([sent])
      throw error
    }
  }

  /**
   * Without a transaction the statements have happened all the same. Not on the connection that they were sent on,
   * which may be another transaction's by now.
   */
  async #removeStored(steps: readonly InsertStep[]): Promise<void> {
    const removals = [...steps].reverse().map(({ undo, removal }) => removal ?? undo)
    await this.#database.script(removals).catch(() => undefined)
  }

  /**
   * An undo that fails hides nothing: the first error is the one to report. But then some of it is still there, as where
   * the table was changed since the transaction first read, and whatever reads it is refused.
   */
  async #undo(executor: SqlExecutor, steps: readonly InsertStep[]): Promise<boolean> {
    let isUndone = true
    for (const { undo } of [...steps].reverse()) {
      try {
        await executor.run(undo.sql, undo.params)
      } catch (error) {
        if (!isNoTransaction(error)) isUndone = false
      }
    }
    return isUndone
  }
}

/** Where nobody knows of doubts: a key that is stored on its own, if only for a moment, makes another try a duplicate. */
const hasKey = ({ events }: InsertRequest): boolean =>
  events.some(({ idempotencyKey }) => idempotencyKey !== null)

/** After an error of the driver: what the server does not have any more need not be undone. */
const isStillOpen = (cause: unknown): boolean => !endsTransaction(cause) && !isBroken(cause)

const isNoTransaction = (error: unknown): boolean =>
  error instanceof OutboxError && error.code === ERROR_CODES.noTransaction

const laneRole = (database: MysqlDatabase, t: Tables): LaneStore => ({
  register: (worker) => laneStatements.register(database, t, worker),
  renew: (workerId, leaseMs, open) => laneStatements.renew(database, t, workerId, leaseMs, open),
  survey: (workerId, destinations, silent) =>
    laneStatements.survey(database, t, workerId, destinations, silent),
  take: (workerId, destination, atMost) => laneStatements.take(database, t, workerId, destination, atMost),
  giveUp: (workerId, destination, lanes) => laneStatements.giveUp(database, t, workerId, destination, lanes),
  retire: (workerId) => laneStatements.retire(database, t, workerId),
})

const queueRole = (database: MysqlDatabase, t: Tables, newId: () => string): QueueStore => ({
  read: (request) => reading.read(database, t, request),
  readByIds: (destination, ids) => reading.readByIds(database, t, destination, ids),
  activate: (request) => activating.activate(database, t, request, newId),
  claim: (workerId, ids, aheadLimit) => claims.claim(database, t, workerId, ids, aheadLimit),
  suspect: (request) => suspecting.suspect(database, t, request),
  extend: (hot, leaseMs) => extending.extend(database, t, hot, leaseMs),
  hold: (workerId, destination, ids) => holding.hold(database, t, workerId, destination, ids),
  settle: (request) => settling.settle(database, t, request),
  readUnrouted: (limit) => unrouted.readUnrouted(database, t, limit),
  expand: (request) => unrouted.expand(database, t, request),
})

const registryRole = (database: MysqlDatabase, t: Tables, newId: () => string): Registry => ({
  declare: (destinations, by) => registering.declare(database, t, destinations, newId, by),
  load: () => registering.load(database, t),
  configure: (name, change, by) => registering.configure(database, t, name, change, by),
  findUnreconciled: (destination, limit) => reconciling.findUnreconciled(database, t, destination, limit),
  reconcile: (destination, deliveries, scannedTo) =>
    reconciling.reconcile(database, t, destination, deliveries, scannedTo),
  eventFrom: (seq) => unheard.eventFrom(database, t, seq),
  findUnheard: (query) => unheard.findUnheard(database, t, query),
})

const inspectionRole = (database: MysqlDatabase, t: Tables): Inspection => ({
  list: (query) => list(database, t, query),
  event: (eventId) => inspecting.event(database, t, eventId),
  eventOfDelivery: (deliveryId) => inspecting.eventOfDelivery(database, t, deliveryId),
  counts: () => inspecting.counts(database, t),
  blockedKeys: (query) => inspecting.blockedKeys(database, t, query),
  audit: ({ limit }) => audit.readAudit(database, t, limit),
  workers: () => inspecting.workers(database, t),
  lanes: (query) => inspecting.lanes(database, t, query),
  statistics: (query) => counting.readStatistics(database, t, query),
})

const operationsRole = (database: MysqlDatabase, t: Tables, newId: () => string): Operations => ({
  preview: (kind, target) => operating.preview(database, t, kind, target),
  redrive: (target, act) => operating.redrive(database, t, target, act, newId),
  replay: (target, act) => operating.replay(database, t, target, act, newId),
  discard: (target, act) => operating.discard(database, t, target, act),
  edit: (deliveryId, replacement, newDeliveryId, act) =>
    operating.edit(database, t, deliveryId, replacement, newDeliveryId, act),
  backfill: (destination, deliveries, scope, act) =>
    unheard.backfill(database, t, destination, deliveries, scope, act),
})

const maintenanceRole = (database: MysqlDatabase, t: Tables): Maintenance => {
  // Where the walk over old events goes on. Losing it with the process only means to begin again.
  let walkFrom = 0n
  return {
    async cleanup(request) {
      const step = await cleaning.cleanup(database, t, request, walkFrom)
      walkFrom = step.walkFrom
      return step.result
    },
    recordStatistics: (keepMinutes) => counting.recordStatistics(database, t, keepMinutes),
    takeDuty: (name, workerId) => counting.takeDuty(database, t, name, workerId),
    finishDuty: (name, workerId) => counting.finishDuty(database, t, name, workerId),
    ...(database.options.layout === 'partitioned'
      ? { partitions: (request: PartitionRequest) => new MysqlPartitions(database, t).maintain(request) }
      : {}),
  }
}
