/**
 * The two things that are measured beside each other on one file with one driver and the same durability: the
 * outbox, and the table that most people would write first.
 */
import Database from 'libsql'
import { createOutbox, defineEvent } from '../src/index.ts'
import { sqliteStore } from '../src/stores/sqlite/index.ts'

export interface Payload {
  readonly orderId: string
  readonly customer: string
  readonly total: number
  readonly lines: readonly { readonly sku: string; readonly quantity: number }[]
}

/** About 200 bytes, as small business events are. */
export const payloadOf = (n: number): Payload => ({
  orderId: `order-${n}`,
  customer: `customer-${n % 5_000}`,
  total: 1_000 + (n % 900),
  lines: [
    { sku: `sku-${n % 97}`, quantity: 1 + (n % 3) },
    { sku: `sku-${n % 89}`, quantity: 1 },
    { sku: `sku-${n % 83}`, quantity: 2 },
  ],
})

export const placed = defineEvent<'order.placed', Payload>('order.placed')
export const placedInOrder = defineEvent<'order.placed.keyed', Payload>('order.placed.keyed', {
  key: ({ orderId }) => orderId,
})

export const DESTINATION = 'bench'

/** `serve: []` only publishes; the routes are known, so deliveries are written with the events. */
export const openOutbox = (
  file: string,
  options: { readonly serve: boolean; readonly onStatement?: (sql: string) => void },
) => {
  const { onStatement } = options
  const store = sqliteStore({ file, driver: 'libsql', ...(onStatement ? { onStatement } : {}) })
  return {
    store,
    settings: {
      store,
      destinations: { [DESTINATION]: { events: [placed, placedInOrder] } },
      ...(options.serve ? {} : { serve: [] }),
    },
  }
}

export const createPublisher = (file: string, onStatement?: (sql: string) => void) =>
  createOutbox(openOutbox(file, { serve: false, ...(onStatement ? { onStatement } : {}) }).settings)

/** Home-made: one table, a status column, an index on what is pending; the same pragmas as the store's. */
export const openHomeMade = (file: string) => {
  const database = new Database(file)
  database.exec('PRAGMA busy_timeout = 5000; PRAGMA synchronous = FULL')
  database.pragma('journal_mode = WAL')
  database.exec(`CREATE TABLE IF NOT EXISTS home_made (
    id INTEGER PRIMARY KEY AUTOINCREMENT, type TEXT NOT NULL, payload TEXT NOT NULL,
    done INTEGER NOT NULL DEFAULT 0, created_at INTEGER NOT NULL);
  CREATE INDEX IF NOT EXISTS home_made_pending ON home_made (id) WHERE done = 0`)
  const insert = database.prepare('INSERT INTO home_made (type, payload, created_at) VALUES (?, ?, ?)')
  const select = database.prepare(
    'SELECT id, type, payload FROM home_made WHERE done = 0 ORDER BY id LIMIT 500',
  )
  const update = database.prepare(
    'UPDATE home_made SET done = 1 WHERE id IN (SELECT value FROM json_each(?))',
  )
  const inTransaction = <T>(work: () => T): T => {
    database.exec('BEGIN IMMEDIATE')
    const result = work()
    database.exec('COMMIT')
    return result
  }
  return {
    publish(payloads: readonly Payload[]): void {
      inTransaction(() => {
        for (const payload of payloads) insert.run(['order.placed', JSON.stringify(payload), Date.now()])
      })
    },
    /** One round of the poller: read, call, mark done. Returns how many there were. */
    poll(listener: (payload: unknown, id: number) => void): number {
      return inTransaction(() => {
        const rows = select.all() as { id: number; payload: string }[]
        for (const { id, payload } of rows) listener(JSON.parse(payload), id)
        if (rows.length > 0) update.run([JSON.stringify(rows.map(({ id }) => id))])
        return rows.length
      })
    },
    close: () => database.close(),
  }
}
