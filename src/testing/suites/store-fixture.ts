/**
 * The words in which the cases are written: publish one event, read, settle. Everything has a default, so
 * that a case names only what it is about.
 */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import type { Delivery, DeliveryStatus, Outcome, Right } from '../../core/model/delivery.ts'
import { createIdGenerator } from '../../core/model/uuid.ts'
import type {
  InsertRequest,
  InsertResult,
  NewDelivery,
  NewEvent,
  ReadRequest,
  ReadResult,
  Settlement,
  SettleRequest,
  SettleResult,
  Store,
} from '../../core/spi/store.ts'
import type { DeliveryView, EventDetail } from '../../core/spi/store-roles.ts'
import type { OpenTransaction, Transactions } from '../../core/spi/transactions.ts'
import type { StoreHarness } from './store-harness.ts'

/** How much longer than necessary a real clock may take before a test gives up. */
const PATIENCE_MS = 10_000

/** Long enough never to run out within a test. */
export const LONG_MS = 3_600_000

export const OPERATOR = { actor: 'ops', reason: 'a test' }

export interface Published {
  readonly event: NewEvent
  readonly delivery: NewDelivery
}

/** What a case may say about the event and the delivery that it publishes. */
export type PublishOverrides = Partial<
  Omit<NewEvent, 'id'> & Pick<NewDelivery, 'destination' | 'lane' | 'due' | 'token'> & { hotLeaseMs: number }
>

export interface TestWorker {
  readonly id: string
  readonly right: Right
}

export const tokenRight = (token: string): Right => ({ kind: 'token', token })

export class StoreFixture {
  readonly harness: StoreHarness
  readonly store: Store
  readonly transactions: Transactions<unknown, unknown>
  readonly newId = createIdGenerator({ wallNow: () => Date.now(), randomBytes })

  constructor(harness: StoreHarness) {
    this.harness = harness
    this.store = harness.store
    this.transactions = harness.transactions ?? harness.store.transactions
  }

  /** A hook that this case cannot do without. */
  need<K extends 'advance' | 'reopen' | 'setNextSeq' | 'corruptEvent'>(
    hook: K,
  ): NonNullable<StoreHarness[K]> {
    const found = this.harness[hook]
    assert.ok(found, `the harness has no ${hook}: offer it, or skip this test and say why`)
    return found.bind(this.harness) as NonNullable<StoreHarness[K]>
  }

  /** Waits for something that becomes true within `ms` of the database's time. */
  async until(ms: number, what: string, condition: () => Promise<boolean>): Promise<void> {
    if (this.harness.advance) {
      await this.harness.advance(ms)
      assert.ok(await condition(), `${what} after ${ms} ms`)
      return
    }
    const deadline = Date.now() + ms + PATIENCE_MS
    while (!(await condition())) {
      assert.ok(Date.now() < deadline, `${what} within ${ms + PATIENCE_MS} ms`)
      await pause(5)
    }
  }

  // ------------------------------------------------------------------------------------------- publish

  event(over: PublishOverrides = {}): NewEvent {
    const {
      destination: _destination,
      lane: _lane,
      due: _due,
      token: _token,
      hotLeaseMs: _hot,
      ...fields
    } = over
    const data = fields.data ?? '{"n":1}'
    return {
      id: this.newId(),
      type: 'order.placed',
      version: 1,
      key: null,
      aggregateType: null,
      aggregateId: null,
      tenantId: null,
      headers: {},
      contentType: 'application/json',
      size: typeof data === 'string' ? Buffer.byteLength(data) : data.byteLength,
      occurredAtMs: 1_700_000_000_000,
      createdAtMs: Date.now(),
      replacesId: null,
      routesVersion: 1,
      idempotencyKey: null,
      ...fields,
      data,
    }
  }

  delivery(event: NewEvent, over: PublishOverrides = {}): NewDelivery {
    return {
      id: this.newId(),
      eventId: event.id,
      destination: over.destination ?? 'alpha',
      lane: over.lane ?? 0,
      key: event.key,
      size: event.size,
      due: over.due ?? { afterMs: 0 },
      token: over.token ?? null,
    }
  }

  /** An event with one delivery, not stored yet. */
  prepare(over: PublishOverrides = {}): Published {
    const event = this.event(over)
    return { event, delivery: this.delivery(event, over) }
  }

  /** Stores in a transaction of its own. */
  insert(request: Partial<InsertRequest>): Promise<InsertResult> {
    return this.transactions.run((tx) => this.insertIn(tx, request))
  }

  insertIn(tx: unknown, request: Partial<InsertRequest>): Promise<InsertResult> {
    const full = { events: [], deliveries: [], hotLeaseMs: LONG_MS, ...request }
    return this.store.insert(this.transactions.executor(tx), full)
  }

  /** One committed event with one delivery. */
  async publish(over: PublishOverrides = {}): Promise<Published> {
    const published = this.prepare(over)
    await this.insert({
      events: [published.event],
      deliveries: [published.delivery],
      hotLeaseMs: over.hotLeaseMs ?? LONG_MS,
    })
    return published
  }

  /** Several in order, each in its own transaction. */
  async publishMany(count: number, over: PublishOverrides = {}): Promise<Published[]> {
    const all: Published[] = []
    for (let i = 0; i < count; i++) all.push(await this.publish(over))
    return all
  }

  publishIn(tx: unknown, published: Published): Promise<InsertResult> {
    return this.insertIn(tx, { events: [published.event], deliveries: [published.delivery] })
  }

  /** A transaction that stays open until it is told to end, also where the library only knows callbacks. */
  async begin(): Promise<OpenTransaction<unknown>> {
    if (this.transactions.begin) return this.transactions.begin()
    return beginByCallback(this.transactions)
  }

  // --------------------------------------------------------------------------------------- lanes, queue

  /** A registered worker whose lease does not run out within a test, unless the case says so. */
  async worker(
    over: { leaseMs?: number; name?: string; destinations?: readonly string[] } = {},
  ): Promise<TestWorker> {
    const id = this.newId()
    await this.store.lanes.register({
      workerId: id,
      name: over.name ?? 'host:1',
      leaseMs: over.leaseMs ?? LONG_MS,
      destinations: over.destinations ?? ['alpha'],
    })
    return { id, right: { kind: 'lane', workerId: id } }
  }

  /** A worker that lost everything: its lease ran out and somebody noticed. */
  async fencedWorker(prepare?: (worker: TestWorker) => Promise<void>): Promise<TestWorker> {
    const worker = await this.worker({ leaseMs: 1 })
    await prepare?.(worker)
    await this.fence(worker)
    return worker
  }

  /** Waits until a worker with a short lease is fenced by somebody else's survey. */
  async fence(worker: TestWorker): Promise<void> {
    const other = await this.worker()
    await this.until(5, 'the worker is fenced', async () => {
      await this.store.lanes.survey(other.id, ['alpha'])
      const views = await this.store.inspection.workers()
      return views.some((view) => view.workerId === worker.id && view.fenced)
    })
    await this.store.lanes.retire(other.id)
  }

  declare(...names: string[]): Promise<unknown> {
    return this.store.registry.declare(names.map((name) => ({ name, patterns: ['*'] })))
  }

  read(over: Partial<ReadRequest> = {}): Promise<ReadResult> {
    return this.store.queue.read({
      destination: 'alpha',
      lanes: null,
      after: 0n,
      limit: 1_000,
      maxBytes: 100_000_000,
      skipRecentMs: 0,
      windowMs: 0,
      sweep: false,
      sweepLimit: 1_000,
      ...over,
    })
  }

  /** Ids of everything that could be sent now, fresh ones after those that were due by time. */
  async readableIds(destination = 'alpha'): Promise<string[]> {
    const { due, fresh } = await this.read({ destination })
    return [...due, ...fresh].map((row) => row.id)
  }

  /** The one row that a read returns for this delivery. */
  async readOne({ delivery }: Published) {
    const { due, fresh } = await this.read({ destination: delivery.destination })
    const found = [...due, ...fresh].filter((row) => row.id === delivery.id)
    assert.equal(found.length, 1, 'the delivery is read exactly once')
    return found[0]!
  }

  // -------------------------------------------------------------------------------------------- settle

  settlement(
    { event, delivery }: Published,
    right: Right,
    outcome: Outcome,
    over: { attempts?: number; deadHoldsKey?: boolean } = {},
  ): Settlement {
    const attempts = over.attempts ?? (outcome.kind === 'retry' || outcome.kind === 'dead' ? 1 : 0)
    const sent: Delivery = {
      id: delivery.id,
      event,
      destination: delivery.destination,
      run: 1,
      lane: delivery.lane,
      seq: null,
      attempts: Math.max(0, attempts - 1),
      attemptSpent: false,
      alone: false,
      holdsKey: false,
      right,
      source: right.kind === 'token' ? 'hot' : 'cold',
    }
    return { delivery: sent, outcome, attempts, deadHoldsKey: over.deadHoldsKey ?? false }
  }

  settle(settlements: readonly Settlement[], over: Partial<SettleRequest> = {}): Promise<SettleResult> {
    return this.store.queue.settle({
      settlements,
      historyLimit: 20,
      promoteLimit: 100,
      workerName: 'host:1',
      ...over,
    })
  }

  done(published: Published, right: Right, over: Partial<SettleRequest> = {}): Promise<SettleResult> {
    return this.settle([this.settlement(published, right, { kind: 'done' })], over)
  }

  release(published: Published, right: Right): Promise<SettleResult> {
    return this.settle([this.settlement(published, right, { kind: 'released' })])
  }

  /** A failed attempt; due again after an hour unless the case says otherwise. */
  retry(
    published: Published,
    right: Right,
    over: { delayMs?: number; attempts?: number; message?: string; historyLimit?: number } = {},
  ): Promise<SettleResult> {
    const attempts = over.attempts ?? 1
    const failure = this.failure(attempts, over.message)
    const outcome = { kind: 'retry', delayMs: over.delayMs ?? LONG_MS, counted: true, failure } as const
    return this.settle(
      [this.settlement(published, right, outcome, { attempts })],
      over.historyLimit === undefined ? {} : { historyLimit: over.historyLimit },
    )
  }

  /** Dead; with `holdsKey` as under the order policies `block` and `park`. */
  dead(
    published: Published,
    right: Right,
    over: { holdsKey?: boolean; attempts?: number; promoteLimit?: number } = {},
  ): Promise<SettleResult> {
    const attempts = over.attempts ?? 1
    const outcome = { kind: 'dead', failure: this.failure(attempts) } as const
    const settlement = this.settlement(published, right, outcome, {
      attempts,
      deadHoldsKey: over.holdsKey ?? false,
    })
    return this.settle(
      [settlement],
      over.promoteLimit === undefined ? {} : { promoteLimit: over.promoteLimit },
    )
  }

  failure(attempt: number, message = `attempt ${attempt} was refused`) {
    return { attempt, durationMs: 12, code: 'E_REFUSED', message, stack: 'at there' }
  }

  /** One held row per follower, behind a head that is retrying. */
  async keyWithHeld(followers: number, worker: TestWorker, key = 'k'): Promise<[Published, ...Published[]]> {
    const head = await this.publish({ key })
    await this.retry(head, worker.right)
    const behind = await this.publishMany(followers, { key })
    const ids = behind.map((one) => one.delivery.id)
    const held = await this.store.queue.hold(worker.id, 'alpha', ids)
    assert.deepEqual([...held].sort(), [...ids].sort(), 'everything behind a retrying head can be held')
    return [head, ...behind]
  }

  // ---------------------------------------------------------------------------------------- inspection

  async detail(published: Published): Promise<EventDetail> {
    const detail = await this.store.inspection.event(published.event.id)
    assert.ok(detail, 'the event is known')
    return detail
  }

  /** The view of this very delivery (not of a later run). */
  async view(published: Published): Promise<DeliveryView> {
    const { deliveries } = await this.detail(published)
    const found = deliveries.find((one) => one.id === published.delivery.id)
    assert.ok(found, 'the delivery is known')
    return found
  }

  async status(published: Published): Promise<DeliveryStatus> {
    return (await this.view(published)).status
  }
}

/** The manual form of a transaction, made from the callback form. */
const beginByCallback = <Tx>(transactions: Transactions<Tx, unknown>): Promise<OpenTransaction<Tx>> =>
  new Promise((opened, failed) => {
    const rolledBack = new Error('rolled back by the test')
    const finished = transactions.run(
      (tx) =>
        new Promise<void>((commit, rollback) => {
          opened({
            tx,
            commit: () => {
              commit()
              return finished
            },
            rollback: async () => {
              rollback(rolledBack)
              await finished.catch((error: unknown) => {
                if (error !== rolledBack) throw error
              })
            },
          })
        }),
    )
    finished.catch(failed)
  })

/** A group of cases; the key is the title, a sentence that says what must be true. */
export interface Topic {
  readonly title: string
  readonly cases: Readonly<Record<string, (t: StoreFixture) => Promise<void>>>
}

export const idsOf = (published: readonly Published[]): string[] => published.map((one) => one.delivery.id)

/** Requires that a promise rejects with this stable code. */
export const rejectsWithCode = (promise: Promise<unknown>, code: string): Promise<void> =>
  assert.rejects(promise, (error: { code?: unknown }) => {
    assert.equal(error.code, code)
    return true
  })
