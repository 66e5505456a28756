/**
 * The publishing half of the words in which the cases are written. Everything has a default, so that a case
 * names only what it is about.
 */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { createIdGenerator } from '../../core/model/index.ts'
import {
  beginByCallback,
  type InsertRequest,
  type InsertResult,
  type NewDelivery,
  type NewEvent,
  type OpenTransaction,
  type Store,
  type Transactions,
} from '../../core/spi/index.ts'
import { Inapplicable } from './run-suite.ts'
import type { StoreHarness } from './store-harness.ts'

/** How much longer than necessary a real clock may take before a test gives up. */
const PATIENCE_MS = 60_000

/** Long enough never to run out within a test. */
export const LONG_MS = 3_600_000

export interface Published {
  readonly event: NewEvent
  readonly delivery: NewDelivery
}

/** What a case may say about the event and the delivery that it publishes. */
export type PublishOverrides = Partial<
  NewEvent & Pick<NewDelivery, 'destination' | 'lane' | 'due' | 'token'> & { hotLeaseMs: number }
>

/** A store under test and how to publish through it. */
export class PublishingFixture {
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

  /** The case is about transactions that overlap; with one writer at a time there are none. */
  needsOverlap(): void {
    if (this.store.capabilities.commitOrder) throw new Inapplicable('the store has one writer at a time')
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
    const full = { events: [], deliveries: [], hotLeaseMs: LONG_MS, lockKeys: false, ...request }
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
}
