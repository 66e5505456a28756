/** The maintainers that keep the tables small and say how full they are. */
import type { ResolvedOptions } from '../../options.ts'
import type { CleanupResult, DestinationCounts, Logger, Metrics, Store } from '../../spi/index.ts'
import type { Duty } from './duty.ts'

const HOUR_MS = 3_600_000
const MINUTE_MS = 60_000
/** Publishers wait behind whoever waits for a lock on a partition, so that must be short. */
const PARTITION_LOCK_MS = 200
const KEEP_STATISTICS_MINUTES = 7 * 24 * 60

/** All that there is to do, by what the options and the tables ask for. */
export const dutiesOf = (
  store: Store,
  options: ResolvedOptions,
  logger: Logger,
  metrics: Metrics,
  reconciler: Duty,
): Duty[] => {
  const duties = [reconciler, statisticsDuty(store)]
  if (options.cleanupIntervalMs > 0) duties.push(cleanupDuty(store, options, logger, reconciler))
  if (options.partitionIntervalMs > 0 && store.maintenance.partitions !== undefined)
    duties.push(partitionsDuty(store, options, logger))
  if (options.pendingIntervalMs > 0) duties.push(pendingDuty(store, options, metrics))
  return duties
}

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

const NOTHING = { pending: 0, done: 0, retry: 0, dead: 0, discarded: 0, scheduled: 0, held: 0 } as const

/** Reports depth and lag; off unless asked for, because counting is not free. */
export const pendingDuty = (store: Store, options: ResolvedOptions, metrics: Metrics): Duty => {
  let told: readonly string[] = []
  const tell = ({ destination, counts, oldestLagMs }: DestinationCounts): void => {
    metrics.setPending(destination, counts.pending + counts.retry + counts.scheduled + counts.held)
    metrics.oldestLagMs(destination, oldestLagMs ?? 0)
    metrics.setBacklog(destination, counts)
  }
  return {
    name: 'pending',
    intervalMs: options.pendingIntervalMs,
    firstAfterMs: options.pendingIntervalMs,
    async step() {
      const all = await store.inspection.counts()
      for (const one of all) tell(one)
      const names = all.map(({ destination }) => destination)
      // What has nothing left is not counted, and would stay at what was last told.
      for (const destination of told.filter((name) => !names.includes(name)))
        tell({ destination, counts: NOTHING, oldestLagMs: null })
      told = names
      return false
    },
  }
}
