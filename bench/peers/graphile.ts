/** graphile-worker as its page about performance sets it: a local queue of 500 and batched completion. */
import { EventEmitter, once } from 'node:events'
import { Logger, run, runMigrations } from 'graphile-worker'
import pg from 'pg'
import { EVENT_TYPE, keyOf, type Payload, payloadOf } from './payload.ts'
import type { Opened, OpenOptions, Subject } from './subject.ts'
import { analyse, insertOrder, inTransaction, steps } from './transaction.ts'

const WORKER = {
  concurrentJobs: 24,
  localQueue: { size: 500 },
  completeJobBatchDelay: 0,
  failJobBatchDelay: 0,
}
const WORKER_CONNECTIONS = 25
const TABLES = ['graphile_worker._private_jobs', 'graphile_worker._private_job_queues']

/** The documented way in SQL, which joins the transaction of whatever client runs it. */
const ADD = 'SELECT graphile_worker.add_job($1, $2::json, queue_name => $3)'

const ADD_MANY = `SELECT count(*) FROM graphile_worker.add_jobs(ARRAY(
  SELECT ($1, e.payload::json, e.queue_name, null, null, null, null, null)::graphile_worker.job_spec
  FROM unnest($2::text[], $3::text[]) AS e (payload, queue_name)))`

const quiet = new Logger(() => (level, message) => {
  if (level === 'error') console.error(message)
})

/** It insists on handlers for connections that break. */
const poolOf = (url: string, max: number): pg.Pool => {
  const pool = new pg.Pool({ connectionString: url, max })
  pool.on('error', (error) => console.error(error))
  pool.on('connect', (client) => client.on('error', (error) => console.error(error)))
  return pool
}

const startWorker = async ({ url, handled, readsPayload }: OpenOptions) => {
  const pool = poolOf(url, WORKER_CONNECTIONS)
  const events = new EventEmitter()
  const listening = once(events, 'pool:listen:success')
  const runner = await run({
    pgPool: pool,
    logger: quiet,
    events,
    noHandleSignals: true,
    taskList: { [EVENT_TYPE]: (payload) => handled(readsPayload ? (payload as Payload).n : -1) },
    preset: { worker: WORKER },
  })
  await listening
  return {
    async stop(): Promise<void> {
      await runner.stop()
      await pool.end()
    },
  }
}

const open = async (options: OpenOptions): Promise<Opened> => {
  const worker = options.role === 'publish' ? null : await startWorker(options)
  const pool = new pg.Pool({ connectionString: options.url, max: options.connections })
  const queueOf = (n: number): string | null => (options.keyed ? keyOf(n) : null)
  return {
    async publish(n, order, committed) {
      await inTransaction(pool, async (client) => {
        if (order === 'with order') await insertOrder(client, n)
        await client.query(ADD, [EVENT_TYPE, JSON.stringify(payloadOf(n)), queueOf(n)])
      })
      committed()
    },
    async fill(count) {
      await inTransaction(pool, async (client) => {
        for (const numbers of steps(count)) {
          const payloads = numbers.map((n) => JSON.stringify(payloadOf(n)))
          await client.query(ADD_MANY, [EVENT_TYPE, payloads, numbers.map(queueOf)])
        }
        await analyse(client, TABLES)
      })
    },
    async close() {
      await worker?.stop()
      await pool.end()
    },
  }
}

export const graphile: Subject = {
  name: 'graphile',
  label: 'graphile-worker',
  settings: { ...WORKER, maxPoolSize: WORKER_CONNECTIONS, keyed: 'queue_name' },
  unordered: null,
  tables: TABLES,
  unfinished: 'SELECT EXISTS (SELECT FROM graphile_worker._private_jobs) AS unfinished',
  async install(url) {
    const pool = poolOf(url, 2)
    await runMigrations({ pgPool: pool, logger: quiet })
    await pool.end()
  },
  open,
  history: { none: 'a job that is done is deleted' },
}
