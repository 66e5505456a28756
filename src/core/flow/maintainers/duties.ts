/** The maintainers that keep the tables small and say how full they are. */
import type { ResolvedOptions } from '../../options.ts'
import type { CleanupResult, Logger, Metrics, Store } from '../../spi/index.ts'
import type { Duty } from './duty.ts'

const HOUR_MS = 3_600_000
const MINUTE_MS = 60_000
/** Publishers wait behind whoever waits for a lock on a partition, so that must be short. */
const PARTITION_LOCK_MS = 200
const KEEP_STATISTICS_MINUTES = 7 * 24 * 60

/**
 * Removes what is past its retention, in bounded steps; counts are logged per kind. The reconciler goes first, because
 * what is not reconciled stays.
 */
export const cleanupDuty = (
  store: Store,
  options: ResolvedOptions,
  logger: Logger,
  reconciler: Pick<Duty, 'step'>,
): Duty => ({
  name: 'cleanup',
  intervalMs: options.cleanupIntervalMs,
  firstAfterMs: Math.min(options.cleanupIntervalMs, MINUTE_MS),
  async step() {
    await reconciler.step()
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

/** Makes partitions ahead of time and drops those of which everything is past its retention. */
export const partitionsDuty = (store: Store, options: ResolvedOptions, logger: Logger): Duty => ({
  name: 'partitions',
  intervalMs: options.partitionIntervalMs,
  firstAfterMs: Math.min(options.partitionIntervalMs, MINUTE_MS / 10),
  async step() {
    const report = await store.maintenance.partitions?.({
      lookAheadMs: options.partitionAheadHours * HOUR_MS,
      doneOlderThanMs: options.retentionDoneHours * HOUR_MS,
      deadOlderThanMs: options.retentionDeadHours === null ? null : options.retentionDeadHours * HOUR_MS,
      lockTimeoutMs: PARTITION_LOCK_MS,
    })
    if (report === undefined) return false
    const { created, dropped, kept } = report
    if (created.length + dropped.length > 0)
      logger.log('info', 'partitions were made or dropped', { created, dropped })
    for (const { name, reason } of kept) {
      logger.log('info', 'a partition past its retention is kept', { partition: name, reason })
    }
    return false
  },
})

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
      metrics.setBacklog(destination, counts)
    }
    return false
  },
})
