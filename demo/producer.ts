/** Lets customers in at a steady pace until enough events are published, with the scenes of the story in between. */
import { setTimeout as sleep } from 'node:timers/promises'
import { type CountingMetrics, createCountingMetrics } from '../src/index.ts'
import type { Stats } from './board.ts'
import { DESTINATION_NAMES } from './catalogue.ts'
import { chanceOf } from './chance.ts'
import { HOT_QUEUE, type Shop } from './shop.ts'
import { browse, SHOP_TABLES, visit } from './visits.ts'

export interface Progress {
  published: number
  rolledBack: number
  visits: number
}

export interface Scene {
  /** Share of the events after which it plays. */
  readonly at: number
  /** Says what is special about the next visit, if anything. */
  play(): Promise<{ readonly poison?: boolean; readonly burst?: number } | undefined>
}

export interface ProducerOptions {
  readonly events: number
  readonly seed: number
  readonly scenes: readonly Scene[]
  readonly metrics: CountingMetrics
  readonly progressed: (progress: Progress) => void
}

/** Slow enough to be watched and to leave the queues room, fast enough to be over soon. */
const paceOf = (events: number): number => Math.min(450, Math.max(70, events / 9))

const LONGEST_WAIT_MS = 250

/** Makes the shop's tables, and says how far it came before, in case it was killed. */
export const openTables = (shop: Shop): Promise<Progress> =>
  shop.outbox.transaction((tx) => {
    tx.exec(SHOP_TABLES)
    const one = (sql: string): number => Number(tx.prepare(sql).get()?.n ?? 0)
    return {
      published: one('SELECT count(*) AS n FROM outbox_events'),
      visits: one('SELECT coalesce(max(number), 0) AS n FROM visits'),
      rolledBack: 0,
    }
  })

export const produce = async (shop: Shop, progress: Progress, options: ProducerOptions): Promise<void> => {
  const { events, seed, progressed, metrics } = options
  const scenes = [...options.scenes]
  const perMs = paceOf(events) / 1_000
  let nextAt = performance.now()
  while (progress.published < events) {
    const scene =
      scenes[0] !== undefined && progress.published >= scenes[0].at * events ? scenes.shift() : undefined
    const special = await scene?.play()
    progress.visits += 1
    const { visits: number } = progress
    const budget = events - progress.published
    const visited =
      special?.burst === undefined
        ? await visit(shop, { seed, number, budget, poison: special?.poison === true })
        : await browse(shop, number, 'everybody', Math.min(budget, special.burst), chanceOf(seed, number))
    progress.published += visited.published
    progress.rolledBack += visited.rolledBack
    progressed(progress)
    nextAt = Math.max(nextAt + visited.published / perMs, performance.now() - LONGEST_WAIT_MS)
    // Even when late: everybody else gets a turn between two visits.
    await sleep(Math.max(0, nextAt - performance.now()))
    await leaveRoom(metrics)
  }
}

/** A real shop cannot choose when customers come; a demo of the hot path leaves its queues some room. */
const leaveRoom = async (metrics: CountingMetrics): Promise<void> => {
  const until = performance.now() + LONGEST_WAIT_MS
  const crowded = (name: string): boolean =>
    (metrics.gauge('hotQueueDepth', name) ?? 0) > HOT_QUEUE / 2 && metrics.breaker(name) !== 'open'
  while (DESTINATION_NAMES.some(crowded) && performance.now() < until) await sleep(2)
}

/** Counting, with one ear for breakers and lanes. */
export const listeningMetrics = (heard: {
  readonly breaker?: (destination: string, state: 'closed' | 'open' | 'halfOpen') => void
  readonly lanes?: (destination: string, count: number) => void
}): CountingMetrics => {
  const counting = createCountingMetrics()
  return {
    ...counting,
    breakerState(destination, state) {
      counting.breakerState(destination, state)
      heard.breaker?.(destination, state)
    },
    lanesOwned(destination, count) {
      counting.lanesOwned(destination, count)
      heard.lanes?.(destination, count)
    },
  }
}

/** Looks at the database now and then for what waits and what is dead; less often when looking takes longer. */
export const watch = (
  shop: Shop,
  metrics: CountingMetrics,
  progress: Progress,
  report: (stats: Stats) => void,
): { readonly stop: () => Promise<void>; readonly look: () => Promise<Stats> } => {
  let stopped = false
  const look = async (): Promise<Stats> => {
    const counts = await shop.outbox.inspect.counts()
    const destinations: Record<string, Stats['destinations'][string]> = {}
    for (const name of DESTINATION_NAMES) {
      const found = counts.find(({ destination }) => destination === name)?.counts
      destinations[name] = {
        waiting: found === undefined ? 0 : found.pending + found.retry + found.scheduled + found.held,
        dead: found?.dead ?? 0,
        queued: (metrics.gauge('hotQueueDepth', name) ?? 0) + (metrics.gauge('coldQueueDepth', name) ?? 0),
        breaker: metrics.breaker(name) ?? 'closed',
      }
    }
    const stats = { published: progress.published, rolledBack: progress.rolledBack, destinations }
    report(stats)
    return stats
  }
  const run = async (): Promise<void> => {
    while (!stopped) {
      const startedAt = performance.now()
      await look()
      await sleep(Math.max(100, 20 * (performance.now() - startedAt)))
    }
  }
  const running = run()
  return {
    look,
    stop: () => {
      stopped = true
      return running
    },
  }
}

/** Until nothing waits any more; false when that takes too long. */
export const drained = async (look: () => Promise<Stats>, timeoutMs: number): Promise<boolean> => {
  const until = performance.now() + timeoutMs
  for (;;) {
    const { destinations } = await look()
    if (Object.values(destinations).every(({ waiting }) => waiting === 0)) return true
    if (performance.now() > until) return false
    await sleep(50)
  }
}
