/** The measurements, one function each. Nothing is asserted about time: a figure is a figure. */
import { fork } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { timedCommits } from '../demo/commit-clock.ts'
import { percentile } from '../demo/figures.ts'
import { createOutbox } from '../src/index.ts'
import type { DrainOrder, DrainProgress, DrainResult } from './drain-process.ts'
import { createStatementCounter } from './statements.ts'
import {
  createPublisher,
  DESTINATION,
  openHomeMade,
  openOutbox,
  payloadOf,
  placed,
  placedInOrder,
} from './subjects.ts'

export type Advance = (share: number) => void

export interface Compared {
  readonly perSecond: number
  readonly homeMadePerSecond: number
  /** Above 1: the outbox is faster. */
  readonly ratio: number
}

const compared = (mine: readonly number[], theirs: readonly number[]): Compared => {
  const [perSecond, homeMadePerSecond] = [median(mine), median(theirs)]
  return {
    perSecond: Math.round(perSecond),
    homeMadePerSecond: Math.round(homeMadePerSecond),
    ratio: Number((perSecond / homeMadePerSecond).toFixed(2)),
  }
}

export const median = (values: readonly number[]): number => {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.floor(sorted.length / 2)] ?? 0
}

const ROUNDS = 5

/** In turns, so that whatever else the machine does meets both alike. */
export const measurePublish = async (
  file: string,
  events: number,
  perTransaction: number,
  advance: Advance,
): Promise<Compared & { readonly statementsPerEvent: number }> => {
  const counter = createStatementCounter()
  const outbox = createPublisher(file, counter.onStatement)
  await outbox.start()
  const homeMade = openHomeMade(file)
  const transactions = Math.ceil(events / perTransaction / ROUNDS)
  const payloads = (t: number) =>
    Array.from({ length: perTransaction }, (_, i) => payloadOf(t * perTransaction + i))
  const [mine, theirs]: [number[], number[]] = [[], []]
  let statements = 0
  for (let round = 0; round < ROUNDS; round += 1) {
    const before = counter.read().all
    mine.push(
      await rateOf(transactions * perTransaction, async () => {
        for (let t = 0; t < transactions; t += 1) {
          const drafts = payloads(t).map((payload) => placed(payload))
          await outbox.transaction((tx) => outbox.publishMany(tx, drafts))
        }
      }),
    )
    statements += counter.read().all - before
    advance((round + 0.5) / ROUNDS)
    theirs.push(
      await rateOf(transactions * perTransaction, async () => {
        for (let t = 0; t < transactions; t += 1) {
          homeMade.publish(payloads(t))
          // The outbox lets others have a turn as well.
          await Promise.resolve()
        }
      }),
    )
    advance((round + 1) / ROUNDS)
  }
  homeMade.close()
  await outbox.close()
  const statementsPerEvent = statements / (ROUNDS * transactions * perTransaction)
  return { ...compared(mine, theirs), statementsPerEvent: Number(statementsPerEvent.toFixed(3)) }
}

const rateOf = async (events: number, work: () => Promise<void>): Promise<number> => {
  const startedAt = performance.now()
  await work()
  return (events * 1_000) / (performance.now() - startedAt)
}

export const fillBacklog = async (file: string, backlog: number, advance: Advance): Promise<void> => {
  const outbox = createPublisher(file)
  await outbox.start()
  const homeMade = openHomeMade(file)
  const step = 1_000
  for (let from = 0; from < backlog; from += step) {
    const payloads = Array.from({ length: Math.min(step, backlog - from) }, (_, i) => payloadOf(from + i))
    await outbox.transaction((tx) =>
      outbox.publishMany(
        tx,
        payloads.map((payload) => placed(payload)),
      ),
    )
    homeMade.publish(payloads)
    advance((from + step) / backlog)
  }
  homeMade.close()
  await outbox.close()
}

const DRAIN = fileURLToPath(new URL('./drain-process.ts', import.meta.url))

export const measureDrain = (order: DrainOrder, advance: Advance): Promise<DrainResult> =>
  new Promise((resolve, reject) => {
    const child = fork(DRAIN, { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] })
    const end = (): void => void child.kill('SIGKILL')
    process.once('exit', end)
    child.on('message', (message: DrainProgress | DrainResult) => {
      if (message.kind === 'progress') advance(message.heard / order.backlog)
      else resolve(message)
    })
    child.once('error', reject)
    child.once('exit', (code) => {
      process.off('exit', end)
      // After a result this changes nothing.
      reject(new Error(`the draining process ended with ${code}`))
    })
    child.send(order)
  })

export interface Latency {
  readonly p50: number
  readonly p99: number
}

const latencyOf = (values: readonly number[]): Latency => {
  const sorted = [...values].sort((a, b) => a - b)
  return { p50: Number(percentile(sorted, 0.5).toFixed(3)), p99: Number(percentile(sorted, 0.99).toFixed(3)) }
}

/** Commit to the listener's start, half of the events with a key, and the statements that settling costs. */
export const measureLatency = async (file: string, perSecond: number, seconds: number, advance: Advance) => {
  const counter = createStatementCounter()
  const { store, settings } = openOutbox(file, { serve: true, onStatement: counter.onStatement })
  const [committedAt, idsIn] = [new Map<string, number>(), new WeakMap<object, string>()]
  const transactions = timedCommits(store.transactions, (tx, at) => committedAt.set(idsIn.get(tx) ?? '', at))
  const outbox = createOutbox({ ...settings, transactions })
  const latencies: Record<string, number[]> = { [placed.type]: [], [placedInOrder.type]: [] }
  let [hot, heard] = [0, 0]
  outbox.on(DESTINATION, '*', (event, { source }) => {
    const now = performance.now()
    heard += 1
    if (source === 'hot') hot += 1
    const committed = committedAt.get(event.id)
    if (committed !== undefined && source === 'hot') latencies[event.type]?.push(now - committed)
  })
  await outbox.start()
  const total = perSecond * seconds
  const before = counter.read().settling
  const startedAt = performance.now()
  for (let n = 0; n < total; n += 1) {
    await outbox.transaction(async (tx) => {
      const payload = payloadOf(n)
      idsIn.set(tx, await outbox.publish(tx, n % 2 === 0 ? placed(payload) : placedInOrder(payload)))
    })
    advance((n + 1) / total)
    await sleep(Math.max(0, startedAt + ((n + 1) * 1_000) / perSecond - performance.now()))
  }
  await outbox.flush({ timeoutMs: 30_000 })
  const settling = counter.read().settling - before
  await outbox.close()
  return {
    keyless: latencyOf(latencies[placed.type] ?? []),
    keyed: latencyOf(latencies[placedInOrder.type] ?? []),
    hotShare: Number((hot / Math.max(1, heard)).toFixed(4)),
    settleStatementsPerEvent: Number((settling / total).toFixed(3)),
  }
}

/** The same for the home-made table, whose latency is that of its polling. */
export const measurePollingLatency = async (
  file: string,
  perSecond: number,
  seconds: number,
  pollMs: number,
  advance: Advance,
): Promise<Latency> => {
  const homeMade = openHomeMade(file)
  const waiting: number[] = []
  const latencies: number[] = []
  const poll = (): number => homeMade.poll(() => latencies.push(performance.now() - (waiting.shift() ?? 0)))
  const timer = setInterval(poll, pollMs)
  const total = perSecond * seconds
  const startedAt = performance.now()
  for (let n = 0; n < total; n += 1) {
    homeMade.publish([payloadOf(n)])
    waiting.push(performance.now())
    advance((n + 1) / total)
    await sleep(Math.max(0, startedAt + ((n + 1) * 1_000) / perSecond - performance.now()))
  }
  clearInterval(timer)
  while (poll() > 0);
  homeMade.close()
  return latencyOf(latencies)
}
