/** The maintainers themselves: cleanup, statistics, pending counts and the reconciler. */
import { laneOf } from '../../model/lane.ts'
import type { ResolvedOptions } from '../../options.ts'
import { compilePattern, matches } from '../../policy/routing.ts'
import type { CleanupResult, Logger, Metrics, RegisteredDestination, Store } from '../../spi/index.ts'
import type { Routes } from '../routes.ts'
import type { Duty } from './duty.ts'

const HOUR_MS = 3_600_000
const MINUTE_MS = 60_000
const RECONCILE_EVERY_MS = 30_000
const RECONCILE_BATCH = 500
const KEEP_STATISTICS_MINUTES = 7 * 24 * 60

/** Removes what is past its retention, in bounded steps; counts are logged per kind. */
export const cleanupDuty = (store: Store, options: ResolvedOptions, logger: Logger): Duty => ({
  name: 'cleanup',
  intervalMs: options.cleanupIntervalMs,
  firstAfterMs: Math.min(options.cleanupIntervalMs, MINUTE_MS),
  async step() {
    const removed = await store.maintenance.cleanup({
      doneOlderThanMs: options.retentionDoneHours * HOUR_MS,
      deadOlderThanMs: options.retentionDeadHours === null ? null : options.retentionDeadHours * HOUR_MS,
      dedupOlderThanMs: options.retentionDedupHours * HOUR_MS,
      limit: options.cleanupBatchSize,
    })
    if (total(removed) > 0) logger.log('info', 'cleanup removed rows past their retention', { ...removed })
    return removed.more
  },
})

const total = ({ done, discarded, dead, events, dedup }: CleanupResult): number =>
  done + discarded + dead + events + dedup

/** Per-minute roll-ups, for plots that do not scan history. */
export const statisticsDuty = (store: Store): Duty => ({
  name: 'statistics',
  intervalMs: MINUTE_MS,
  firstAfterMs: MINUTE_MS,
  async step() {
    await store.maintenance.recordStatistics(KEEP_STATISTICS_MINUTES)
    return false
  },
})

/** Reports depth and lag; off unless asked for, because counting is not free. */
export const pendingDuty = (store: Store, options: ResolvedOptions, metrics: Metrics): Duty => ({
  name: 'pending',
  intervalMs: options.pendingIntervalMs,
  firstAfterMs: options.pendingIntervalMs,
  async step() {
    for (const { destination, counts, oldestLagMs } of await store.inspection.counts()) {
      metrics.setPending(destination, counts.pending + counts.retry + counts.scheduled + counts.held)
      metrics.oldestLagMs(destination, oldestLagMs ?? 0)
    }
    return false
  },
})

/**
 * During a deploy an older process publishes without knowing a new destination. Its events carry the older
 * registry version; this adds the deliveries that are missing. They have no order against live ones.
 */
export const reconcilerDuty = (
  store: Store,
  routes: Routes,
  newId: () => string,
  added: (destination: string, count: number) => void,
): Duty => ({
  name: 'reconciler',
  intervalMs: RECONCILE_EVERY_MS,
  firstAfterMs: RECONCILE_EVERY_MS / 10,
  async step() {
    await routes.refresh(store.registry)
    let more = false
    for (const destination of routes.registered) {
      more = (await reconcile(store, destination, newId, added)) || more
    }
    return more
  },
})

const reconcile = async (
  store: Store,
  destination: RegisteredDestination,
  newId: () => string,
  added: (destination: string, count: number) => void,
): Promise<boolean> => {
  const { name } = destination
  const batch = await store.registry.findUnreconciled(name, RECONCILE_BATCH)
  const patterns = destination.patterns.map(compilePattern)
  const missed = batch.events.filter(({ type }) => patterns.some((pattern) => matches(pattern, type)))
  if (missed.length === 0 && batch.events.length === 0 && !batch.more) return false
  const deliveries = missed.map(({ id, seq, key, size }) => ({
    id: newId(),
    eventId: id,
    destination: name,
    lane: laneOf(key ?? id),
    key,
    size,
    seq,
  }))
  const count = await store.registry.reconcile(name, deliveries, batch.scannedTo)
  if (count > 0) added(name, count)
  return batch.more
}
