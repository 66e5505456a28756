/**
 * The words in which the cases are written: publish one event, read, settle, look at it. Everything has a
 * default, so that a case names only what it is about.
 */
import assert from 'node:assert/strict'
import type { Delivery, DeliveryStatus, Outcome, Right } from '../../core/model/index.ts'
import type {
  DeliveryView,
  EventDetail,
  ReadRequest,
  ReadResult,
  Settlement,
  SettleRequest,
  SettleResult,
  WorkerLease,
} from '../../core/spi/index.ts'
import { LONG_MS, type Published, PublishingFixture } from './publishing-fixture.ts'
import type { SuiteTopic } from './run-suite.ts'

export { LONG_MS, type Published } from './publishing-fixture.ts'

export const OPERATOR = { actor: 'ops', reason: 'a test' }

export interface TestWorker {
  readonly id: string
  readonly right: Right
}

export const tokenRight = (token: string): Right => ({ kind: 'token', token })

export class StoreFixture extends PublishingFixture {
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
      const silent = await this.leasesSeenBy(other)
      await this.store.lanes.survey(other.id, ['alpha'], silent)
      const views = await this.store.inspection.workers()
      return views.some((view) => view.workerId === worker.id && view.fenced)
    })
    await this.store.lanes.retire(other.id)
  }

  /** The leases of all others; to be named as silent by whoever does not want to wait for a whole lease. */
  async leasesSeenBy({ id }: TestWorker): Promise<readonly WorkerLease[]> {
    return (await this.store.lanes.survey(id, ['alpha'])).others
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
      dueLimit: 1_000,
      maxBytes: 100_000_000,
      skipRecentMs: 0,
      windowMs: 0,
      sweep: false,
      sweepFrom: 0n,
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
    over: { attempts?: number; deadHoldsKey?: boolean; deadParked?: boolean } = {},
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
    const { deadHoldsKey = false, deadParked = false } = over
    return { delivery: sent, outcome, attempts, deadHoldsKey, deadParked }
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
    over: { holdsKey?: boolean; parked?: boolean; attempts?: number; promoteLimit?: number } = {},
  ): Promise<SettleResult> {
    const attempts = over.attempts ?? 1
    const outcome = { kind: 'dead', failure: this.failure(attempts) } as const
    const settlement = this.settlement(published, right, outcome, {
      attempts,
      deadHoldsKey: over.holdsKey ?? false,
      deadParked: over.parked ?? false,
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

/** A group of cases; the key is the title, a sentence that says what must be true. */
export type Topic = SuiteTopic<StoreFixture>

export const idsOf = (published: readonly Published[]): string[] => published.map((one) => one.delivery.id)

/** Requires that a promise rejects with this stable code. */
export const rejectsWithCode = (promise: Promise<unknown>, code: string): Promise<void> =>
  assert.rejects(promise, (error: { code?: unknown }) => {
    assert.equal(error.code, code)
    return true
  })
