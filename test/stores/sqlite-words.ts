/** Short words for the tests of what is special about SQLite. */
import { randomBytes } from 'node:crypto'
import type { Right } from '../../src/core/model/delivery.ts'
import { createIdGenerator } from '../../src/core/model/uuid.ts'
import type { NewDelivery, NewEvent, ReadResult, Settlement, Store } from '../../src/core/spi/index.ts'
import type { SqlExecutor } from '../../src/stores/sqlite/index.ts'

export const newId = createIdGenerator({ wallNow: () => Date.now(), randomBytes })

export type AnyStore<Tx extends object = object> = Store<Tx, SqlExecutor>

export const event = (over: Partial<NewEvent> = {}): NewEvent => {
  const data = over.data ?? '{"n":1}'
  return {
    id: newId(),
    type: 'order.placed',
    version: 1,
    key: null,
    aggregateType: null,
    aggregateId: null,
    tenantId: null,
    headers: {},
    contentType: 'application/json',
    size: data.length,
    occurredAtMs: 1_700_000_000_000,
    createdAtMs: 0,
    replacesId: null,
    routesVersion: 1,
    idempotencyKey: null,
    ...over,
    data,
  }
}

export const delivery = ({ id, key, size }: NewEvent, over: Partial<NewDelivery> = {}): NewDelivery => ({
  id: newId(),
  eventId: id,
  destination: 'alpha',
  lane: 0,
  key,
  size,
  due: { afterMs: 0 },
  token: null,
  ...over,
})

export const insertRequest = (...events: NewEvent[]) => ({
  events,
  deliveries: events.map((one) => delivery(one)),
  hotLeaseMs: 60_000,
  lockKeys: false,
})

/** One committed event with one delivery; returns the event. */
export const publish = async <Tx extends object>(
  store: AnyStore<Tx>,
  over: Partial<NewEvent> = {},
): Promise<NewEvent> => {
  const one = event(over)
  await store.transactions.run((tx) => store.insert(store.transactions.executor(tx), insertRequest(one)))
  return one
}

export const read = <Tx extends object>(store: AnyStore<Tx>, limit = 10_000): Promise<ReadResult> =>
  store.queue.read({
    destination: 'alpha',
    lanes: null,
    after: 0n,
    limit,
    dueLimit: limit,
    maxBytes: 1_000_000_000,
    skipRecentMs: 0,
    windowMs: 0,
    sweep: false,
    sweepFrom: 0n,
    sweepLimit: 1,
  })

export const worker = async <Tx extends object>(
  store: AnyStore<Tx>,
): Promise<Right & { readonly workerId: string }> => {
  const workerId = newId()
  await store.lanes.register({ workerId, name: 'test', leaseMs: 600_000, destinations: ['alpha'] })
  return { kind: 'lane', workerId }
}

export const doneSettlements = (rows: ReadResult['fresh'], right: Right): Settlement[] =>
  rows.map((row) => ({
    delivery: {
      ...row,
      event: row.event!,
      attemptSpent: false,
      alone: false,
      right,
      source: 'cold' as const,
    },
    outcome: { kind: 'done' as const },
    attempts: 0,
    deadHoldsKey: false,
    deadParked: false,
  }))

export const settle = <Tx extends object>(store: AnyStore<Tx>, settlements: readonly Settlement[]) =>
  store.queue.settle({ settlements, historyLimit: 20, promoteLimit: 100, workerName: 'test' })
