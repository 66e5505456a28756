/** A child of `posthaste prove`: publishes, or delivers into the ledger, until it is told to end, or killed. */
import { openSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { storeAt } from '../../config/url-outbox.ts'
import { ERROR_CODES } from '../../core/errors.ts'
import { maskSecrets } from '../../core/model/mask-secrets.ts'
import type { DestinationOptions } from '../../core/options.ts'
import { createOutbox } from '../../core/outbox.ts'
import { exponential } from '../../core/policy/retry.ts'
import type { OutgoingDelivery, Publisher, SendResult, Store, Transactions } from '../../core/spi/index.ts'
import type { Sql } from '../disposable.ts'
import { publishingDestination } from './destination.ts'
import {
  ANSWERS,
  type AnswerLine,
  chance,
  type FromMember,
  LEASE_MS,
  LEDGER,
  type LedgerLine,
  OBSERVED,
  type ObservedLine,
  SETTLED,
  type SettledLine,
  type Task,
} from './messages.ts'

const KEYS = 6
const STALL_EVERY_MS = 200
const ANSWER_MS = 40
const tell = (message: FromMember): void => void process.send?.(message)

/** What was written stays when the process is killed; only a machine that goes down could take it back. */
const appender = (folder: string, name: string): ((lines: readonly object[]) => void) => {
  const file = openSync(join(folder, name), 'a')
  return (lines) => {
    if (lines.length > 0) writeSync(file, lines.map((line) => `${JSON.stringify(line)}\n`).join(''))
  }
}

/** Some events are refused a few times first; the transaction that wrote them says which. */
const refusalsOf = ({ event: { data } }: OutgoingDelivery): number =>
  (JSON.parse(String(data)) as { readonly refusals: number }).refusals

const recorder = (task: Task, inner: Publisher | null): Publisher => {
  const write = appender(task.folder, LEDGER)
  const random = chance(task.seed)
  return {
    maxBatch: Math.min(20, inner === null ? 20 : (inner.maxBatch ?? 1)),
    async send(deliveries, context) {
      const wanted = deliveries.filter((delivery) => delivery.attempt > refusalsOf(delivery))
      // For the ledger: when it was handed on, so that an answer that comes late does not turn the order around.
      const lines = wanted.map(
        ({ event: { id } }): LedgerLine => ({ at: Date.now(), slot: task.slot, boot: task.boot, id }),
      )
      let answers: readonly SendResult[] = wanted.map(() => ({ ok: true }))
      if (inner !== null) answers = await inner.send(wanted, context)
      write(lines.filter((_, index) => answers[index]?.ok === true))
      // Taken, and the answer is on its way: who is killed now has something in flight.
      if (inner === null) await pause(ANSWER_MS * random())
      const byDelivery = new Map(wanted.map((delivery, index) => [delivery, answers[index] as SendResult]))
      return deliveries.map(
        (delivery) => byDelivery.get(delivery) ?? { ok: false, error: new Error('refused for the proof') },
      )
    },
    ...(inner?.close === undefined ? {} : { close: () => inner.close?.() as Promise<void> }),
  }
}

const isUnknown = (error: unknown): boolean =>
  (error as { readonly code?: unknown } | null)?.code === ERROR_CODES.commitUnknown

class Producer {
  readonly #task: Task
  readonly #outbox: ReturnType<typeof openOutbox>
  readonly #transactions: Transactions<unknown, Sql>
  readonly #random: () => number
  readonly #answer: (lines: readonly AnswerLine[]) => void
  readonly #positions = new Map<string, number>()
  /** New keys whenever nobody knows what became of the last transaction, so that their order is known. */
  #epoch = 0

  constructor(task: Task, store: Store, outbox: ReturnType<typeof openOutbox>) {
    this.#task = task
    this.#outbox = outbox
    this.#transactions = store.transactions as Transactions<unknown, Sql>
    this.#random = chance(task.seed)
    this.#answer = appender(task.folder, ANSWERS)
  }

  async run(running: () => boolean): Promise<void> {
    const everyMs = 1_000 / this.#task.perSecond
    let due = performance.now()
    while (running()) {
      await this.#write()
      due = Math.max(due, performance.now() - 100) + everyMs * (0.2 + 1.6 * this.#random())
      await pause(Math.max(0, due - performance.now()))
    }
  }

  async #write(): Promise<void> {
    const random = this.#random
    const refusals = random() < 0.05 ? 1 : 0
    const number = Math.floor(random() * KEYS)
    // Refused ones hold up their keys; most keys never have any, and show how long faults alone do.
    const keyed = random() < 0.75
    const name = refusals > 0 ? 'refused' : number
    const key = keyed ? `${this.#task.boot}.${this.#epoch}.${name}` : null
    const rollsBack = random() < 0.05
    const cuts = this.#task.place.kind === 'mysql' && random() < 0.01
    let ids: readonly string[] = []
    let commitAt = 0
    let what: AnswerLine['what'] = 'ok'
    try {
      await this.#outbox.via(this.#transactions).transaction(async (tx) => {
        const sql = this.#transactions.executor(tx)
        const id = await this.#outbox
          .via(this.#transactions)
          .publish(tx, { type: 'proof.event', key, payload: { refusals } })
        await this.#writeTruth(sql, id, key, refusals)
        ids = [id]
        if (cuts) await sql.run('KILL CONNECTION_ID()', [])
        if (rollsBack) throw new Error('the producer changed its mind')
        commitAt = Date.now()
      })
    } catch (error) {
      what = isUnknown(error) ? 'unknown' : 'failed'
      if (what === 'unknown') this.#epoch += 1
      await pause(100)
    }
    this.#answer([{ at: Date.now(), commitAt, ids, what, ...(cuts ? { cut: true } : {}) }])
  }

  async #writeTruth(sql: Sql, id: string, key: string | null, refusals: number): Promise<void> {
    const position = key === null ? 0 : (this.#positions.get(key) ?? -1) + 1
    if (key !== null) this.#positions.set(key, position)
    const places = this.#task.place.kind === 'postgres' ? '$1, $2, $3, $4, $5' : '?, ?, ?, ?, ?'
    await sql.run(
      `INSERT INTO ${this.#task.place.truth} (id, event_key, position, published_at, refusals) VALUES (${places})`,
      [id, key, position, Date.now(), refusals],
    )
  }
}

const openOutbox = (task: Task, store: Store, options: Partial<DestinationOptions>) => {
  const observe = appender(task.folder, OBSERVED)
  const { slot } = task
  return createOutbox({
    store,
    destinations: {
      proof: {
        ...options,
        events: ['proof.event'],
        to: recorder(task, (options.to as Publisher | undefined) ?? null),
        retry: exponential({ baseMs: 50, maxMs: 1_000, maxAttempts: 1_000 }),
      },
    },
    ...(task.role === 'worker' ? {} : { serve: [] }),
    migrate: false,
    laneLeaseMs: LEASE_MS,
    hotLeaseMs: LEASE_MS,
    pollIntervalMs: 100,
    pollIdleMaxMs: 500,
    drainMs: 5_000,
    logger: {
      log: (_, message) => {
        const line: ObservedLine = { at: Date.now(), slot, what: 'fenced', ms: LEASE_MS }
        if (message.includes('was fenced')) observe([line])
      },
    },
  })
}

/** The same, but for the named members. */
const replacing = <T extends object>(target: T, members: Readonly<Partial<Record<keyof T, unknown>>>): T =>
  new Proxy(target, {
    get(_, name) {
      if (Object.hasOwn(members, name)) return members[name as keyof T]
      const value: unknown = Reflect.get(target, name, target)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })

/** The same store; what it confirms as done is written down. */
const settling = (store: Store, { folder, boot }: Task): Store => {
  const write = appender(folder, SETTLED)
  const settle: Store['queue']['settle'] = async (request) => {
    const result = await store.queue.settle(request)
    const ids = request.settlements.flatMap(({ outcome, delivery }) =>
      outcome.kind === 'done' && !result.lost.includes(delivery.id) ? [delivery.event.id] : [],
    )
    write(ids.length === 0 ? [] : [{ boot, ids } satisfies SettledLine])
    return result
  }
  return replacing(store, { queue: replacing(store.queue, { settle }) })
}

/** A machine that is too busy looks like a pause to everybody else. */
const watchStalls = ({ folder, slot }: Task): void => {
  const observe = appender(folder, OBSERVED)
  let before = performance.now()
  setInterval(() => {
    const ms = performance.now() - before - STALL_EVERY_MS
    before = performance.now()
    if (ms > LEASE_MS / 4)
      observe([{ at: Date.now(), slot, what: 'stalled', ms: Math.round(ms) } satisfies ObservedLine])
  }, STALL_EVERY_MS).unref()
}

const run = async (task: Task): Promise<void> => {
  const store = settling(await storeAt(task.place.url, task.place.place), task)
  const outbox = openOutbox(
    task,
    store,
    task.destination === null ? {} : await publishingDestination(task.destination),
  )
  watchStalls(task)
  let isRunning = true
  const end = async (): Promise<void> => {
    isRunning = false
    await ended
    await outbox.close()
    process.exit(0)
  }
  process.on('SIGTERM', () => void end())
  if (task.role === 'worker') await outbox.start()
  tell({ kind: 'ready' })
  const ended =
    task.role === 'producer' ? new Producer(task, store, outbox).run(() => isRunning) : Promise.resolve()
}

// Ctrl-C in a terminal reaches the children too; their parent ends them.
process.on('SIGINT', () => undefined)
// Whoever started us is gone; nobody will end us otherwise.
process.on('disconnect', () => process.exit(1))
process.once('message', (task: Task) => {
  run(task).catch((error: unknown) => {
    tell({ kind: 'refused', reason: maskSecrets(String((error as Error | null)?.message ?? error)) })
    setTimeout(() => process.exit(1), 50)
  })
})
