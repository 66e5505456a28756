/** What a good programmer writes in an afternoon around a table: a relay that takes a batch, handles it, and commits. */
import pg from 'pg'
import type { Opened, OpenOptions } from './subject.ts'
import { analyse, insertOrder, inTransaction, steps } from './transaction.ts'

export const BATCH = 1_000
/** While one relay handles and commits, the other one reads. */
const RELAYS = 2
const POLL_MS = 100

export const RELAY_SETTINGS = {
  batch: BATCH,
  relays: RELAYS,
  pollMs: POLL_MS,
  wakeUp: 'in process; NOTIFY after a fill',
}

export interface ByHand {
  readonly channel: string
  /** Analysed after a fill. */
  readonly tables: readonly string[]
  /** Takes a batch for good once its transaction commits. */
  readonly take: string
  numberOf(row: Record<string, unknown>): number
  insert(client: pg.ClientBase, n: number, keyed: boolean): Promise<unknown>
  insertMany(client: pg.ClientBase, numbers: readonly number[]): Promise<unknown>
}

interface Relay {
  wake(): void
  stop(): Promise<void>
}

const startRelay = (pool: pg.Pool, take: string, handle: (row: Record<string, unknown>) => void): Relay => {
  let [stopping, woken] = [false, false]
  let wakeUp: (() => void) | null = null
  const takeBatch = async (): Promise<number> => {
    const client = await pool.connect()
    try {
      await client.query('BEGIN')
      const { rows } = await client.query<Record<string, unknown>>(take)
      for (const row of rows) handle(row)
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

export const openByHand = async (options: OpenOptions, parts: ByHand): Promise<Opened> => {
  const { url, role, connections, handled, readsPayload } = options
  const pool = new pg.Pool({ connectionString: url, max: connections + RELAYS })
  const handle = (row: Record<string, unknown>): void => handled(readsPayload ? parts.numberOf(row) : -1)
  const relays =
    role === 'publish' ? [] : Array.from({ length: RELAYS }, () => startRelay(pool, parts.take, handle))
  const wake = (): void => {
    for (const relay of relays) relay.wake()
  }
  const listener = role === 'handle' ? new pg.Client(url) : null
  if (listener !== null) {
    await listener.connect()
    listener.on('notification', wake)
    await listener.query(`LISTEN ${parts.channel}`)
  }
  return {
    async publish(n, order, committed) {
      await inTransaction(pool, async (client) => {
        if (order === 'with order') await insertOrder(client, n)
        await parts.insert(client, n, options.keyed)
      })
      committed()
      wake()
    },
    async fill(count) {
      await inTransaction(pool, async (client) => {
        for (const numbers of steps(count)) await parts.insertMany(client, numbers)
        await analyse(client, parts.tables)
      })
      await pool.query(`NOTIFY ${parts.channel}`)
    },
    async close() {
      await Promise.all(relays.map((relay) => relay.stop()))
      await listener?.end()
      await pool.end()
    },
  }
}
