/** The store on SQLite: every role, each method one transaction. The SQL is in `statements/`. */

import { randomUUID } from 'node:crypto'
import { ERROR_CODES, StoreError, TransactionError } from '../../core/errors.ts'
import { attachPlace } from '../../core/model/index.ts'
import type {
  InsertRequest,
  InsertResult,
  Inspection,
  LaneStore,
  Maintenance,
  Mark,
  Operations,
  OuterMark,
  QueueStore,
  Registry,
  Schema,
  Store,
  StoreCapabilities,
  StoreContext,
} from '../../core/spi/index.ts'
import { changedDeclarations } from '../sql/declarations.ts'
import { type Tables, tablesOf } from '../sql/identifiers.ts'
import { lazyIds } from '../sql/lazy-ids.ts'
import type { SqlExecutor, SqlRow, SqlStatement } from '../sql/sql-executor.ts'
import {
  endedBefore,
  halfStored,
  outerEnded,
  storedAlone,
  undoneMeanwhile,
} from '../sql/transaction-scope.ts'
import { SqliteDatabase } from './database.ts'
import { requireFile } from './open-database.ts'
import type { ResolvedSqliteOptions } from './options.ts'
import { schemaRole } from './schema.ts'
import * as activating from './statements/activate.ts'
import * as audit from './statements/audit.ts'
import * as claims from './statements/claim.ts'
import * as cleaning from './statements/cleanup.ts'
import * as extending from './statements/extend.ts'
import * as holding from './statements/hold.ts'
import {
  insertResult,
  insertStatements,
  overtakenStatements,
  removalStatements,
  undoStatements,
  writtenStatement,
} from './statements/insert.ts'
import * as inspecting from './statements/inspect.ts'
import * as laneStatements from './statements/lanes.ts'
import { list } from './statements/list.ts'
import { lookStatement, markStatement, unmarkStatement } from './statements/marks.ts'
import * as operating from './statements/operate.ts'
import * as reading from './statements/read.ts'
import * as registering from './statements/registry.ts'
import * as settling from './statements/settle.ts'
import * as counting from './statements/statistics.ts'
import * as suspecting from './statements/suspect.ts'
import * as unheard from './statements/unheard.ts'
import * as unrouted from './statements/unrouted.ts'
import { SqliteTransactions } from './transactions.ts'

const CAPABILITIES: StoreCapabilities = Object.freeze({
  commitOrder: true,
  embedded: true,
  synchronous: true,
  // Writers exclude each other, so a second flush would only wait for the first.
  parallelSettles: 1,
})

export class SqliteStore<Tx extends object> implements Store<Tx, SqlExecutor> {
  readonly name = 'sqlite'
  readonly capabilities = CAPABILITIES
  readonly transactions: SqliteTransactions<Tx>
  readonly lanes: LaneStore
  readonly queue: QueueStore
  readonly registry: Registry
  readonly schema: Schema
  readonly inspection: Inspection
  readonly operations: Operations
  readonly maintenance: Maintenance
  readonly #database: SqliteDatabase
  readonly #tables: Tables

  constructor(options: ResolvedSqliteOptions) {
    const { source } = options
    attachPlace(this, 'file' in source ? source.file : 'the open database that the code gave')
    const database = new SqliteDatabase(options)
    const tables = tablesOf(options.prefix)
    this.#database = database
    this.#tables = tables
    this.transactions = new SqliteTransactions<Tx>(database)
    this.schema = schemaRole(database, tables)
    this.lanes = laneRole(database, tables)
    this.queue = queueRole(database, tables)
    this.registry = registryRole(database, tables)
    this.inspection = inspectionRole(database, tables)
    this.operations = operationsRole(database, tables)
    this.maintenance = maintenanceRole(database, tables)
  }

  async open(context: StoreContext): Promise<void> {
    if (context.mustExist === true) await requireFile(this.#database.options)
    await this.#database.open(context)
  }

  close(): Promise<void> {
    return this.#database.close()
  }

  /** Without a mark it is sent at once, before the application does anything else. */
  async insert(executor: SqlExecutor, request: InsertRequest): Promise<InsertResult> {
    const { mark } = request
    if (mark === undefined) return await this.#insert(executor, request)
    const look = lookStatement(this.#tables, mark)
    try {
      if (this.#database.isCommitted(look)) throw endedBefore()
      const result = await this.#insert(executor, request)
      if ((await executor.run(look.sql, look.params))?.length === 0) throw undoneMeanwhile()
      return result
    } finally {
      await this.#unmark(executor, mark)
    }
  }

  async mark(executor: SqlExecutor): Promise<Mark> {
    const id = randomUUID()
    const { sql, params } = markStatement(this.#tables, id)
    await executor.run(sql, params)
    return { id, drop: () => this.#unmark(executor, id) }
  }

  /**
   * What others see of the mark was stored on its own, and what SQLite has rolled back since is gone: either way there is
   * no transaction.
   */
  async markOuter(executor: SqlExecutor): Promise<OuterMark<SqlExecutor> | null> {
    // A synchronous driver knows, and nothing comes between its answer and the savepoint.
    if (executor.runSync !== undefined) return null
    const mark = await this.mark(executor)
    const look = lookStatement(this.#tables, mark.id)
    const isAlone = (): boolean => this.#database.isCommitted(look)
    // An error of it would hide what the nested one answered.
    const drop = async (): Promise<void> => {
      try {
        await (isAlone() ? this.#removeMark(mark.id) : mark.drop())
      } catch {
        await mark.drop()
      }
    }
    // In memory, on one connection, that can be told only before the savepoint.
    if (isAlone()) {
      await drop()
      throw outerEnded(executor.isDoubtful === true)
    }
    const require = async (inner: SqlExecutor): Promise<void> => {
      const stands = (await inner.run(look.sql, look.params))?.length !== 0
      if (!stands || isAlone()) throw outerEnded(inner.isDoubtful === true)
    }
    return { require, drop }
  }

  /** On the store's own connection. One that cannot be removed goes with the old keys. */
  async #removeMark(mark: string): Promise<void> {
    const { sql, params } = unmarkStatement(this.#tables, mark)
    await this.#database.write((connection) => connection.rows(sql, params)).catch(() => undefined)
  }

  async #unmark(executor: SqlExecutor, mark: string): Promise<void> {
    const { sql, params } = unmarkStatement(this.#tables, mark)
    try {
      await executor.run(sql, params)
    } catch {}
  }

  async #insert(executor: SqlExecutor, request: InsertRequest): Promise<InsertResult> {
    // Without an await in between, no other publish of the same transaction can come between the statements.
    if (executor.runSync !== undefined) return this.insertSync(executor, request)
    const statements = insertStatements(this.#tables, request)
    const answers: (readonly SqlRow[] | undefined)[] = []
    let isAlone = false
    try {
      for (const { sql, params } of statements) {
        answers.push(await executor.run(sql, params))
        if (answers.length === 1) isAlone = this.#isAlone(request, answers[0])
        if (isAlone) break
      }
    } catch (error) {
      if (answers.length > 0 && !(await this.#undo(executor, statements))) throw halfStored(error)
      throw error
    }
    if (isAlone) await this.#remove(request, answers[0])
    const result = insertResult(request, answers)
    for (const { sql, params } of overtakenStatements(this.#tables, result, answers))
      await executor.run(sql, params)
    return result
  }

  /**
   * Asked after the first statement, which had to be sent at once, and before there is anything to deliver. What everybody
   * sees by then was stored on its own. That costs the application no statement, and needs nobody to tell what failed before.
   */
  #isAlone(request: InsertRequest, answer: readonly SqlRow[] | undefined): boolean {
    // One with a mark was asked about already, and an event of its id may be another try's.
    if (request.mark !== undefined) return false
    const look = writtenStatement(this.#tables, request, answer)
    return look !== null && this.#database.isCommitted(look)
  }

  /** Not on the connection that it was sent on, which may be another transaction's by now. */
  async #remove(request: InsertRequest, answer: readonly SqlRow[] | undefined): Promise<never> {
    const removal = removalStatements(this.#tables, request, answer)
    try {
      await this.#database.write((connection) => {
        for (const { sql, params } of removal) connection.rows(sql, params)
      })
    } catch (cause) {
      throw storedAlone(cause)
    }
    throw endedBefore()
  }

  insertSync(executor: SqlExecutor, request: InsertRequest): InsertResult {
    const { runSync } = executor
    if (runSync === undefined) {
      throw new StoreError(
        ERROR_CODES.unsupported,
        'This client is asynchronous; use publish instead of publishSync.',
      )
    }
    const statements = insertStatements(this.#tables, request)
    const answers: (readonly SqlRow[] | undefined)[] = []
    try {
      for (const { sql, params } of statements) answers.push(runSync(sql, params))
    } catch (error) {
      if (answers.length > 0 && !this.#undoSync(runSync, statements)) throw halfStored(error)
      throw error
    }
    return insertResult(request, answers)
  }

  // An undo that fails hides nothing: the first error is the one to report, and a transaction that SQLite has
  // rolled back by itself has nothing left to take back. False: some of it is still there.

  async #undo(executor: SqlExecutor, statements: readonly SqlStatement[]): Promise<boolean> {
    try {
      for (const { sql, params } of undoStatements(this.#tables, statements)) await executor.run(sql, params)
      return true
    } catch (error) {
      return error instanceof TransactionError
    }
  }

  #undoSync(runSync: NonNullable<SqlExecutor['runSync']>, statements: readonly SqlStatement[]): boolean {
    try {
      for (const { sql, params } of undoStatements(this.#tables, statements)) runSync(sql, params)
      return true
    } catch (error) {
      return error instanceof TransactionError
    }
  }
}

const laneRole = (database: SqliteDatabase, t: Tables): LaneStore => ({
  register: (worker) => database.write((c) => laneStatements.register(c, t, worker)),
  renew: (workerId, leaseMs, open) =>
    database.write((c) => laneStatements.renew(c, t, workerId, leaseMs, open)),
  survey(workerId, destinations, silent = []) {
    // Surveys are frequent and fencing is rare, so the write lock is asked for only when there is somebody to fence.
    if (silent.length === 0) return database.read((c) => laneStatements.survey(c, t, workerId, destinations))
    return database.write((c) => {
      laneStatements.fence(c, t, silent)
      return laneStatements.survey(c, t, workerId, destinations)
    })
  },
  take: (workerId, destination, atMost) =>
    database.write((c) => laneStatements.take(c, t, workerId, destination, atMost)),
  giveUp: (workerId, destination, lanes) =>
    database.write((c) => laneStatements.giveUp(c, t, workerId, destination, lanes)),
  retire: (workerId) => database.write((c) => laneStatements.retire(c, t, workerId)),
})

const queueRole = (database: SqliteDatabase, t: Tables): QueueStore => ({
  read: (request) => database.read((c) => reading.read(c, t, request)),
  readByIds: (destination, ids) => database.read((c) => reading.readByIds(c, t, destination, ids)),
  activate: (request) => database.write((c) => activating.activate(c, t, request)),
  claim: (workerId, ids, aheadLimit) => database.read((c) => claims.claim(c, t, workerId, ids, aheadLimit)),
  suspect: (request) => database.write((c) => suspecting.suspect(c, t, request)),
  extend: (hot, leaseMs) => database.write((c) => extending.extend(c, t, hot, leaseMs)),
  hold: (workerId, destination, ids) => database.write((c) => holding.hold(c, t, workerId, destination, ids)),
  settle: (request) => database.write((c) => settling.settle(c, t, request)),
  readUnrouted: (limit) => database.read((c) => unrouted.readUnrouted(c, t, limit)),
  expand: (request) => database.write((c) => unrouted.expand(c, t, request)),
})

const registryRole = (database: SqliteDatabase, t: Tables): Registry => ({
  async declare(destinations, by) {
    const state = await database.read((c) => registering.load(c, t))
    if (changedDeclarations(state, destinations).length === 0) return state
    return database.write((c) => registering.declare(c, t, destinations, by))
  },
  load: () => database.read((c) => registering.load(c, t)),
  configure: (name, change, by) => database.write((c) => registering.configure(c, t, name, change, by)),
  findUnreconciled: (destination, limit) =>
    database.read((c) => registering.findUnreconciled(c, t, destination, limit)),
  reconcile: (destination, deliveries, scannedTo) =>
    database.write((c) => registering.reconcile(c, t, destination, deliveries, scannedTo)),
  eventFrom: (seq) => database.read((c) => unheard.eventFrom(c, t, seq)),
  findUnheard: (query) => database.read((c) => unheard.findUnheard(c, t, query)),
})

const inspectionRole = (database: SqliteDatabase, t: Tables): Inspection => ({
  list: (query) => database.read((c) => list(c, t, query)),
  event: (eventId) => database.read((c) => inspecting.event(c, t, eventId)),
  eventOfDelivery: (deliveryId) => database.read((c) => inspecting.eventOfDelivery(c, t, deliveryId)),
  counts: () => database.read((c) => inspecting.counts(c, t)),
  blockedKeys: (query) => database.read((c) => inspecting.blockedKeys(c, t, query)),
  audit: ({ limit }) => database.read((c) => audit.readAudit(c, t, limit)),
  workers: () => database.read((c) => inspecting.workers(c, t)),
  lanes: (query) => database.read((c) => inspecting.lanes(c, t, query)),
  statistics: (query) => database.read((c) => counting.readStatistics(c, t, query)),
})

const operationsRole = (database: SqliteDatabase, t: Tables): Operations => {
  const newId = lazyIds(database)
  return {
    preview: (kind, target) => database.read((c) => operating.preview(c, t, kind, target)),
    redrive: (target, act) => database.write((c) => operating.redrive(c, t, target, act, newId)),
    replay: (target, act) => database.write((c) => operating.replay(c, t, target, act, newId)),
    discard: (target, act) => database.write((c) => operating.discard(c, t, target, act)),
    edit: (deliveryId, replacement, newDeliveryId, act) =>
      database.write((c) => operating.edit(c, t, deliveryId, replacement, newDeliveryId, act)),
    backfill: (destination, deliveries, scope, act) =>
      database.write((c) => unheard.backfill(c, t, destination, deliveries, scope, act)),
  }
}

const maintenanceRole = (database: SqliteDatabase, t: Tables): Maintenance => {
  // Where the walk over old events goes on. Losing it with the process only means to begin again.
  let walkFrom = 0n
  return {
    async cleanup(request) {
      const step = await database.write((c) => cleaning.cleanup(c, t, request, walkFrom))
      walkFrom = step.walkFrom
      return step.result
    },
    recordStatistics: (keepMinutes) => database.write((c) => counting.recordStatistics(c, t, keepMinutes)),
    takeDuty: (name, workerId) => database.write((c) => counting.takeDuty(c, t, name, workerId)),
    finishDuty: (name, workerId) => database.write((c) => counting.finishDuty(c, t, name, workerId)),
  }
}
