/**
 * The outbox table that a good programmer writes in an afternoon: an INSERT in the business transaction, and a
 * relay that deletes a batch with SKIP LOCKED, handles it, and commits. No fan-out, retries, order or history.
 */
import pg from 'pg'
import { EVENT_TYPE, keyOf, type Payload, payloadOf } from './payload.ts'
import type { Opened, OpenOptions, Subject } from './subject.ts'
import { analyse, insertOrder, inTransaction, steps } from './transaction.ts'

const BATCH = 1_000
/** While one relay handles and commits, the other one reads. */
const RELAYS = 2
const POLL_MS = 100
const CHANNEL = 'handmade'
const TABLES = ['handmade.outbox']

const INSERT = 'INSERT INTO handmade.outbox (type, key, payload) VALUES ($1, $2, $3)'

const INSERT_MANY = `INSERT INTO handmade.outbox (type, key, payload)
  SELECT $1, e.key, e.payload::json FROM unnest($2::text[], $3::text[]) AS e (key, payload)`

const TAKE = `DELETE FROM handmade.outbox WHERE id IN (
    SELECT id FROM handmade.outbox ORDER BY id LIMIT ${BATCH} FOR UPDATE SKIP LOCKED)
  RETURNING id, type, key, payload`

interface Relay {
  wake(): void
  stop(): Promise<void>
}

const startRelay = (pool: pg.Pool, handle: (payload: Payload) => void): Relay => {
  let [stopping, woken] = [false, false]
  let wakeUp: (() => void) | null = null
  const takeBatch = async (): Promise<number> => {
    const client = await pool.connect()
    try {
      await client.query('BEGIN')
      const { rows } = await client.query<{ payload: Payload }>(TAKE)
      for (const { payload } of rows) handle(payload)
      await client.query('COMMIT')
      return rows.length
    } finally {
      client.release()
    }
  }
  const pause = (): Promise<void> =>
    new Promise((resolve) => {
      const timer = setTimeout(resolve, POLL_MS)
      wakeUp = () => {
        clearTimeout(timer)
        resolve()
      }
    })
  const loop = async (): Promise<void> => {
    while (!stopping) {
      woken = false
      // A short batch is no reason to wait if somebody called meanwhile.
      if ((await takeBatch()) === 0 && !woken) await pause()
      wakeUp = null
    }
  }
  const ended = loop()
  const wake = (): void => {
    woken = true
    wakeUp?.()
  }
  return {
    wake,
    async stop() {
      stopping = true
      wake()
      await ended
    },
  }
}

const open = async (options: OpenOptions): Promise<Opened> => {
  const { url, role, connections, handled, readsPayload } = options
  const pool = new pg.Pool({ connectionString: url, max: connections + RELAYS })
  const handle = (payload: Payload): void => handled(readsPayload ? payload.n : -1)
  const relays = role === 'publish' ? [] : Array.from({ length: RELAYS }, () => startRelay(pool, handle))
  const wake = (): void => {
    for (const relay of relays) relay.wake()
  }
  const listener = role === 'handle' ? new pg.Client(url) : null
  if (listener !== null) {
    await listener.connect()
    listener.on('notification', wake)
    await listener.query(`LISTEN ${CHANNEL}`)
  }
  return {
    async publish(n, order, committed) {
      await inTransaction(pool, async (client) => {
        if (order === 'with order') await insertOrder(client, n)
        const key = options.keyed ? keyOf(n) : null
        await client.query(INSERT, [EVENT_TYPE, key, JSON.stringify(payloadOf(n))])
      })
      committed()
      wake()
    },
    async fill(count) {
      await inTransaction(pool, async (client) => {
        for (const numbers of steps(count)) {
          const payloads = numbers.map((n) => JSON.stringify(payloadOf(n)))
          await client.query(INSERT_MANY, [EVENT_TYPE, numbers.map(keyOf), payloads])
        }
        await analyse(client, TABLES)
      })
      await pool.query(`NOTIFY ${CHANNEL}`)
    },
    async close() {
      await Promise.all(relays.map((relay) => relay.stop()))
      await listener?.end()
      await pool.end()
    },
  }
}

export const handmade: Subject = {
  name: 'handmade',
  label: 'hand-written table',
  settings: { batch: BATCH, relays: RELAYS, pollMs: POLL_MS, wakeUp: 'in process; NOTIFY after a fill' },
  unordered: 'it keeps no order: two relays take batches beside each other',
  tables: TABLES,
  unfinished: 'SELECT EXISTS (SELECT FROM handmade.outbox) AS unfinished',
  async install(url) {
    const client = new pg.Client(url)
    await client.connect()
    await client.query(`CREATE SCHEMA handmade;
      CREATE TABLE handmade.outbox (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, type text NOT NULL, key text,
        payload json NOT NULL, created_at timestamptz NOT NULL DEFAULT now())`)
    await client.end()
  },
  open,
  history: { none: 'what was handled is deleted' },
}
