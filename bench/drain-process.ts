/** Drains a backlog in a process of its own, because only there does its memory say something. */
import { setTimeout as sleep } from 'node:timers/promises'
import { createOutbox } from '../src/index.ts'
import { createStatementCounter, type StatementCounts } from './statements.ts'
import { DESTINATION, openHomeMade, openOutbox } from './subjects.ts'

export interface DrainOrder {
  readonly file: string
  readonly subject: 'outbox' | 'homeMade'
  readonly backlog: number
}

export interface DrainProgress {
  readonly kind: 'progress'
  readonly heard: number
}

export interface DrainResult {
  readonly kind: 'result'
  readonly elapsedMs: number
  readonly rssBefore: number
  readonly rssPeak: number
  readonly rssAfter: number
  readonly statements: StatementCounts
}

const REPORT_EVERY = 2_000

/** Sampled in the listener, because a timer would miss what happens inside synchronous calls. */
const watchMemory = () => {
  const before = process.memoryUsage.rss()
  let peak = before
  return {
    sample: () => {
      peak = Math.max(peak, process.memoryUsage.rss())
    },
    read: () => ({ rssBefore: before, rssPeak: peak, rssAfter: process.memoryUsage.rss() }),
  }
}

const hearing = (memory: ReturnType<typeof watchMemory>) => {
  let heard = 0
  const listener = (): void => {
    heard += 1
    if (heard % REPORT_EVERY !== 0) return
    memory.sample()
    process.send?.({ kind: 'progress', heard } satisfies DrainProgress)
  }
  return { listener, count: () => heard }
}

const drainOutbox = async ({ file, backlog }: DrainOrder): Promise<DrainResult> => {
  const counter = createStatementCounter()
  const { settings, store } = openOutbox(file, { serve: true, onStatement: counter.onStatement })
  const outbox = createOutbox(settings)
  await outbox.inspect.counts()
  const memory = watchMemory()
  const { listener, count } = hearing(memory)
  outbox.on(DESTINATION, '*', listener)
  const before = counter.read()
  const startedAt = performance.now()
  await outbox.start()
  while (count() < backlog) await sleep(5)
  // Heard is not enough: the time ends when the last one is durably settled.
  await outbox.flush({ timeoutMs: 60_000 })
  const elapsedMs = performance.now() - startedAt
  const { all, settling } = counter.read()
  const counts = (await store.inspection.counts()).find(({ destination }) => destination === DESTINATION)
  if (counts?.counts.done !== backlog)
    throw new Error(`${backlog} were to be done, ${counts?.counts.done} are`)
  const statements = { all: all - before.all, settling: settling - before.settling }
  const result: DrainResult = { kind: 'result', elapsedMs, ...memory.read(), statements }
  await outbox.close()
  return result
}

const drainHomeMade = ({ file }: DrainOrder): DrainResult => {
  const homeMade = openHomeMade(file)
  const memory = watchMemory()
  const { listener } = hearing(memory)
  const startedAt = performance.now()
  let polls = 1
  while (homeMade.poll(listener) > 0) polls += 1
  const elapsedMs = performance.now() - startedAt
  homeMade.close()
  return { kind: 'result', elapsedMs, ...memory.read(), statements: { all: 4 * polls, settling: 4 * polls } }
}

process.once('message', (order: DrainOrder) => {
  const run = async (): Promise<DrainResult> =>
    order.subject === 'outbox' ? await drainOutbox(order) : drainHomeMade(order)
  run().then(
    (result) => process.send?.(result, () => process.disconnect()),
    (error: unknown) => {
      console.error(error)
      process.exit(1)
    },
  )
})
process.once('disconnect', () => process.exit())
