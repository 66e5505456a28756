/**
 * A process of its own that publishes and delivers, and that can be killed. What it heard is appended to a file
 * before anything else, because that survives a SIGKILL; messages to the parent are signals and nothing more.
 */
import { appendFileSync } from 'node:fs'
import { createOutbox, fixed, type Transactions } from '../../../src/index.ts'
import { sqliteStore } from '../../../src/stores/sqlite/index.ts'
import { observeStore } from '../../../src/testing/observed-store.ts'
import type { FromWorker, ToWorker, WorkerOptions } from './messages.ts'

const options = JSON.parse(process.argv[2] ?? '{}') as WorkerOptions
const tell = (message: FromWorker): void => void process.send?.(message)

const store = observeStore(sqliteStore({ file: options.file, driver: 'libsql' }), {
  changed: () => undefined,
  settled: ({ settlements }, { lost }) => {
    for (const { delivery, outcome } of settlements) {
      const { n } = JSON.parse(delivery.event.data as string) as { n: number }
      if (!lost.includes(delivery.id)) tell({ kind: 'settled', n, outcome: outcome.kind })
    }
  },
})

/** Dies after the database confirmed the commit, and before anybody else hears of it. */
const deadlyTransactions = <Tx, E>(transactions: Transactions<Tx, E>): Transactions<Tx, E> => ({
  library: transactions.library,
  executor: (tx) => transactions.executor(tx),
  inTransaction: (tx) => transactions.inTransaction(tx),
  run: async (fn) => {
    await transactions.run(fn)
    process.kill(process.pid, 'SIGKILL')
    return await new Promise(() => undefined)
  },
})

const outbox = createOutbox({
  store,
  ...(options.dieAfterCommit ? { transactions: deadlyTransactions(store.transactions) } : {}),
  destinations: {
    sink: {
      events: ['*'],
      concurrency: options.concurrency ?? 4,
      retry: fixed({ delayMs: 10, maxAttempts: options.maxAttempts ?? 10 }),
    },
  },
  laneLeaseMs: 1_000,
  hotLeaseMs: 1_000,
  pollIntervalMs: 20,
  pollIdleMaxMs: 100,
  logger: { log: (level, message) => void (level === 'warn' && tell({ kind: 'warned', message })) },
})

const note = (what: 'begin' | 'end', n: number): void =>
  appendFileSync(options.ledger, `${what} ${process.pid} ${n}\n`)

outbox.on<{ n: number }>('sink', '*', async ({ payload: { n } }) => {
  note('begin', n)
  tell({ kind: 'begun', n })
  if (n === options.poison) process.kill(process.pid, 'SIGKILL')
  if (n === options.stopAt) process.kill(process.pid, 'SIGSTOP')
  if (options.hold) await new Promise((resolve) => process.once('message', resolve))
  await new Promise((resolve) => setTimeout(resolve, options.handlerMs ?? 0))
  note('end', n)
  tell({ kind: 'heard', n })
})

const publish = async (from: number, to: number, keys: number): Promise<void> => {
  for (let n = from; n < to; n += 1) {
    await outbox.transaction(async (tx) => {
      tx.prepare('INSERT INTO business (n) VALUES (?)').run(n)
      await outbox.publish(tx, { type: 'tick', payload: { n }, key: keys > 0 ? `k${n % keys}` : null })
    })
    tell({ kind: 'published', n })
  }
}

process.on('message', (message: ToWorker) => {
  if (message.kind === 'publish') void publish(message.from, message.to, message.keys)
})
process.on('SIGTERM', () => {
  tell({ kind: 'stopping' })
  void outbox.close().then(() => process.exit(0))
})

// One that dies after its first commit cannot create a table and live.
if (options.dieAfterCommit !== true) {
  await outbox.transaction((tx) => tx.exec('CREATE TABLE IF NOT EXISTS business (n INTEGER)'))
}
if (options.start !== false) await outbox.start()
tell({ kind: 'ready' })
