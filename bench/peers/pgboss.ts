/** pg-boss with batches, bursts while they come back full, and notifications. */
import pg, { type ClientBase } from 'pg'
import { PgBoss } from 'pg-boss'
import { keyOf, type Payload, payloadOf } from './payload.ts'
import type { Opened, OpenOptions, Subject } from './subject.ts'
import { analyse, insertOrder, inTransaction, steps } from './transaction.ts'

const WORK = { batchSize: 500, burstWhenBatchFull: true, localConcurrency: 2 }
const BOSS_CONNECTIONS = 10
const QUEUE = 'orders'
/** The one policy that keeps order: one active job per key, the oldest first. */
const KEYED_QUEUE = 'orders-in-order'
const TABLES = ['pgboss.job']

const startBoss = async (url: string): Promise<PgBoss> => {
  const boss = new PgBoss({
    connectionString: url,
    max: BOSS_CONNECTIONS,
    schedule: false,
    useListenNotify: true,
  })
  boss.on('error', (error) => console.error(error))
  await boss.start()
  return boss
}

const within = (client: ClientBase) => ({
  executeSql: async (text: string, values?: unknown[]) => await client.query(text, values),
})

const open = async (options: OpenOptions): Promise<Opened> => {
  const { url, keyed, handled, readsPayload } = options
  const queue = keyed ? KEYED_QUEUE : QUEUE
  const boss = await startBoss(url)
  if (options.role !== 'publish') {
    await boss.work(queue, WORK, async (jobs) => {
      for (const { data } of jobs) handled(readsPayload ? (data as Payload).n : -1)
    })
  }
  const pool = new pg.Pool({ connectionString: url, max: options.connections })
  const keyPart = (n: number) => (keyed ? { singletonKey: keyOf(n) } : {})
  return {
    async publish(n, order, committed) {
      await inTransaction(pool, async (client) => {
        if (order === 'with order') await insertOrder(client, n)
        await boss.send(queue, payloadOf(n), { db: within(client), ...keyPart(n) })
      })
      committed()
    },
    async fill(count) {
      await inTransaction(pool, async (client) => {
        for (const numbers of steps(count)) {
          const jobs = numbers.map((n) => ({ data: payloadOf(n), ...keyPart(n) }))
          await boss.insert(queue, jobs, { db: within(client) })
        }
        await analyse(client, TABLES)
      })
    },
    async close() {
      await boss.stop({ graceful: true })
      await pool.end()
    },
  }
}

export const pgboss: Subject = {
  name: 'pgboss',
  label: 'pg-boss',
  settings: { ...WORK, useListenNotify: true, max: BOSS_CONNECTIONS, keyed: 'key_strict_fifo, singletonKey' },
  unordered: null,
  tables: TABLES,
  unfinished: "SELECT EXISTS (SELECT FROM pgboss.job WHERE state < 'completed') AS unfinished",
  async install(url) {
    const boss = await startBoss(url)
    await boss.createQueue(QUEUE, { notify: true, policy: 'standard' })
    await boss.createQueue(KEYED_QUEUE, { notify: true, policy: 'key_strict_fifo' })
    await boss.stop({ graceful: false })
  },
  open,
  // As a finished job is left behind; kept for seven days by default.
  history: {
    sql: [
      `INSERT INTO pgboss.job (id, name, data, state, policy, created_on, start_after, started_on, completed_on, keep_until)
       SELECT gen_random_uuid(), '${QUEUE}', '{"history": true}', 'completed', 'standard',
              now() - interval '1 day', now() - interval '1 day', now() - interval '1 day',
              now() - interval '1 day', now() + interval '14 days'
       FROM generate_series($2::bigint + 1, $2::bigint + $1::integer)`,
    ],
  },
}
