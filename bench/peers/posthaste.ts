/** Posthaste as it is published: the built package, one destination that takes batches and does nothing with them. */
import { setTimeout as sleep } from 'node:timers/promises'
import pg, { type PoolClient } from 'pg'
import { createOutbox, defineEvent, type Publisher } from 'posthaste'
import { postgresStore } from 'posthaste/postgres'
import { timedCommits } from '../../demo/commit-clock.ts'
import { EVENT_TYPE, keyOf, type Payload, payloadOf } from './payload.ts'
import type { Opened, OpenOptions, Subject } from './subject.ts'
import { steps } from './transaction.ts'

const DESTINATION = 'orders'
const SETTINGS = { pollBatchSize: 1_000, coldQueueCapacity: 2_000 }
const DESTINATION_SETTINGS = { concurrency: 4, batchSize: 500 }
/** Of the store, beside those for transactions: reads, two settles at once, leases. */
const STORE_CONNECTIONS = 4
const LANES = 64

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

/** A UUID of version 7 from yesterday, another one for each row. */
const idOf = (kind: string): string =>
  `(lpad(to_hex((extract(epoch FROM now()) * 1000)::bigint - 86400000), 12, '0') || '7${kind}8000' || lpad(to_hex($2::bigint + n), 12, '0'))::uuid`

const HISTORY_EVENTS = `INSERT INTO outbox.events (id, seq, occurred_at, created_at, version, routes_version, size, type, content_type, payload)
  SELECT ${idOf('000')}, $2::bigint + n, now() - interval '1 day', now() - interval '1 day', 1,
         (SELECT coalesce(max(version), 1) FROM outbox.destinations), 16, '${EVENT_TYPE}', 'application/json', '{"history": true}'
  FROM generate_series(1, $1::integer) n`

const HISTORY_FINISHED = `INSERT INTO outbox.finished (id, event_id, seq, created_at, finished_at, size, run, attempts, suspicions, lane, status, destination)
  SELECT ${idOf('001')}, ${idOf('000')}, $2::bigint + n, now() - interval '1 day', now() - interval '1 day', 16, 1, 0, 0,
         n % ${LANES}, 1, '${DESTINATION}'
  FROM generate_series(1, $1::integer) n`

const HISTORY_SEQ = "SELECT setval('outbox.events_seq', $2::bigint + $1::integer)"

const openOutbox = (options: OpenOptions, committed: (tx: object) => void) => {
  const { handled, readsPayload } = options
  const pool = new pg.Pool({ connectionString: options.url, max: options.connections + STORE_CONNECTIONS })
  const store = postgresStore({ pool })
  const outbox = createOutbox({
    store,
    transactions: timedCommits(store.transactions, committed),
    destinations: {
      [DESTINATION]: {
        events: [EVENT_TYPE],
        ...(readsPayload ? {} : { to: destinationOf(handled) }),
        ...DESTINATION_SETTINGS,
      },
    },
    ...(options.role === 'publish' ? { serve: [] } : {}),
    ...SETTINGS,
  })
  if (readsPayload) outbox.on(DESTINATION, EVENT_TYPE, (event) => handled((event.payload as Payload).n))
  return { pool, outbox }
}

const open = async (options: OpenOptions): Promise<Opened> => {
  const waiting = new WeakMap<object, () => void>()
  const { pool, outbox } = openOutbox(options, (tx) => waiting.get(tx)?.())
  const draftOf = (n: number) => (options.keyed ? placedInOrder : placed)(payloadOf(n))
  await outbox.start()
  return {
    async publish(n, work, committed) {
      await outbox.transaction(async (tx) => {
        waiting.set(tx, committed)
        await work(tx as PoolClient)
        await outbox.publish(tx, draftOf(n))
      })
    },
    async fill(count, beforeCommit) {
      await outbox.transaction(async (tx) => {
        for (const numbers of steps(count)) await outbox.publishMany(tx, numbers.map(draftOf))
        await beforeCommit(tx as PoolClient)
      })
    },
    async close() {
      await outbox.close()
      await pool.end()
    },
  }
}

/** Lanes are shared out among processes in the course of some renewals. */
const balanced = async (pool: pg.Pool, processes: number): Promise<void> => {
  for (;;) {
    const { rows } = await pool.query<{ lanes: number }>(
      'SELECT count(*)::integer AS lanes FROM outbox.lanes WHERE lane >= 0 AND worker_id IS NOT NULL GROUP BY worker_id',
    )
    const even = rows.every(({ lanes }) => lanes >= Math.floor(LANES / processes))
    if (rows.length === processes && even) return
    await sleep(50)
  }
}

export const posthaste: Subject = {
  name: 'posthaste',
  label: 'Posthaste',
  settings: { ...SETTINGS, ...DESTINATION_SETTINGS, storeConnections: STORE_CONNECTIONS },
  tables: ['outbox.deliveries', 'outbox.events', 'outbox.finished'],
  unfinished: 'SELECT EXISTS (SELECT FROM outbox.deliveries) AS unfinished',
  async install(url) {
    const pool = new pg.Pool({ connectionString: url, max: 4 })
    const outbox = createOutbox({ store: postgresStore({ pool }), migrate: true, serve: [] })
    await outbox.start()
    await outbox.close()
    await pool.end()
  },
  open,
  balanced,
  history: { sql: [HISTORY_EVENTS, HISTORY_FINISHED, HISTORY_SEQ] },
}
