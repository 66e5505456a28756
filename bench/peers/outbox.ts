/** What Posthaste is on every database: one destination, and the same settings. */
import { setTimeout as sleep } from 'node:timers/promises'
import { createOutbox, defineEvent, type Publisher, type Store } from 'posthaste'
import { timedCommits } from '../../demo/commit-clock.ts'
import type { Query } from './database.ts'
import { EVENT_TYPE, keyOf, type Payload, payloadOf } from './payload.ts'
import type { Opened, OpenOptions } from './subject.ts'
import { steps } from './transaction.ts'

export const DESTINATION = 'orders'
/** As docs/tuning.md advises for places that take batches; everything else is left as it is by default. */
const DESTINATION_SETTINGS = { batchSize: 500 }
const LANES = 64

export const OUTBOX_SETTINGS = DESTINATION_SETTINGS

const placed = defineEvent<typeof EVENT_TYPE, Payload>(EVENT_TYPE)
const placedInOrder = defineEvent<typeof EVENT_TYPE, Payload>(EVENT_TYPE, { key: ({ n }) => keyOf(n) })

/** Passes nothing on, without looking at it. */
const destinationOf = (handled: (n: number) => void): Publisher => ({
  maxBatch: 10_000,
  async send(deliveries) {
    for (const _ of deliveries) handled(-1)
    return deliveries.map(() => ({ ok: true }))
  },
})

export interface OutboxParts<Tx extends object, E> {
  readonly store: Store<Tx, E>
  insertOrder(tx: Tx, n: number): Promise<void>
  /** Before the commit of a fill. */
  filled(tx: Tx): Promise<void>
  /** After the outbox is closed. */
  close(): Promise<void>
}

export const openOutbox = async <Tx extends object, E>(
  options: OpenOptions,
  { store, insertOrder, filled, close }: OutboxParts<Tx, E>,
): Promise<Opened> => {
  const { handled, readsPayload, role } = options
  const waiting = new WeakMap<object, () => void>()
  const outbox = createOutbox({
    store,
    transactions: timedCommits(store.transactions, (tx) => waiting.get(tx)?.()),
    destinations: {
      [DESTINATION]: {
        events: [EVENT_TYPE],
        ...(readsPayload ? {} : { to: destinationOf(handled) }),
        ...DESTINATION_SETTINGS,
      },
    },
    ...(role === 'publish' ? { serve: [] } : {}),
  })
  if (readsPayload) outbox.on(DESTINATION, EVENT_TYPE, (event) => handled((event.payload as Payload).n))
  await outbox.start()
  const draftOf = (n: number) => (options.keyed ? placedInOrder : placed)(payloadOf(n))
  return {
    async publish(n, order, committed) {
      await outbox.transaction(async (tx) => {
        waiting.set(tx, committed)
        if (order === 'with order') await insertOrder(tx, n)
        await outbox.publish(tx, draftOf(n))
      })
    },
    async fill(count) {
      await outbox.transaction(async (tx) => {
        for (const numbers of steps(count)) await outbox.publishMany(tx, numbers.map(draftOf))
        await filled(tx)
      })
    },
    async close() {
      await outbox.close()
      await close()
    },
  }
}

export const migrate = async <Tx extends object, E>(store: Store<Tx, E>): Promise<void> => {
  const outbox = createOutbox({ store, migrate: true, serve: [] })
  await outbox.start()
  await outbox.close()
}

/** Lanes are shared out among processes in the course of some renewals. */
export const balanced =
  (lanesTable: string) =>
  async (query: Query, processes: number): Promise<void> => {
    for (;;) {
      const rows = await query(
        `SELECT count(*) AS lanes FROM ${lanesTable} WHERE lane >= 0 AND worker_id IS NOT NULL GROUP BY worker_id`,
      )
      const even = rows.every(({ lanes }) => Number(lanes) >= Math.floor(LANES / processes))
      if (rows.length === processes && even) return
      await sleep(50)
    }
  }
