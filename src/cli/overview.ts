/** How an outbox is doing: asked from its database, the same from every machine. */
import type { LoadedOutbox } from '../config/load-config.ts'
import { type DestinationView, isAlive, openBreakersOf } from '../core/inspection.ts'
import { UNROUTED } from '../core/model/delivery.ts'
import type { BlockedKey, DestinationCounts, WorkerView } from '../core/spi/index.ts'

/** `serving`: a live process has lanes of it. `unserved`: nobody does, so its deliveries wait. */
export type DestinationState = 'serving' | 'paused' | 'unserved'

export interface DestinationOverview extends DestinationCounts {
  readonly state: DestinationState
  readonly ratePerSecond: number | null
  readonly lanes: number
  /** Live processes that cannot reach it, the longest first. */
  readonly openBreakers: DestinationView['openBreakers']
  /** Since the last look; null at the first one. */
  readonly donePerSecond: number | null
}

export interface OutboxOverview {
  readonly name: string
  readonly store: string
  readonly atMs: number
  readonly destinations: readonly DestinationOverview[]
  readonly workers: readonly WorkerView[]
  readonly blockedKeys: readonly BlockedKey[]
}

const BLOCKED_SHOWN = 10

const EMPTY = { pending: 0, done: 0, retry: 0, dead: 0, discarded: 0, scheduled: 0, held: 0 }

const speed = (now: DestinationCounts, before: OutboxOverview | null, atMs: number): number | null => {
  const last = before?.destinations.find(({ destination }) => destination === now.destination)
  if (before === null || last === undefined || atMs <= before.atMs) return null
  const more = now.counts.done - last.counts.done
  // Cleanup takes away what was counted before.
  return more < 0 ? null : (more * 1_000) / (atMs - before.atMs)
}

export const takeOverview = async (
  { name, outbox, host }: LoadedOutbox,
  before: OutboxOverview | null,
): Promise<OutboxOverview> => {
  const atMs = performance.timeOrigin + performance.now()
  const [counts, workers, blockedKeys, { destinations }] = await Promise.all([
    outbox.inspect.counts(),
    outbox.inspect.workers(),
    outbox.inspect.blockedKeys({ limit: BLOCKED_SHOWN }),
    host.registered(),
  ])
  const alive = workers.filter(isAlive)
  const named = new Set([
    ...destinations.map((one) => one.name),
    ...counts.map(({ destination }) => destination),
  ])
  return {
    name,
    store: host.store.name,
    atMs,
    workers,
    blockedKeys,
    destinations: [...named].map((destination) => {
      const found = counts.find((one) => one.destination === destination)
      const now = found ?? { destination, counts: EMPTY, oldestLagMs: null }
      const registered = destinations.find((one) => one.name === destination)
      const serving = alive.filter((worker) => worker.destinations.includes(destination))
      // What nobody has routed yet is any worker's business.
      const isServed = destination === UNROUTED ? alive.length > 0 : serving.length > 0
      const state = registered?.paused === true ? 'paused' : isServed ? 'serving' : 'unserved'
      return {
        ...now,
        state,
        ratePerSecond: registered?.ratePerSecond ?? null,
        lanes: serving.reduce((sum, { lanes }) => sum + lanes, 0),
        openBreakers: openBreakersOf(workers, destination),
        donePerSecond: speed(now, before, atMs),
      }
    }),
  }
}

/** The name that people see: of what is not routed yet, too. */
export const destinationText = (destination: string): string =>
  destination === UNROUTED ? '(not routed yet)' : destination
