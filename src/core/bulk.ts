/** Acts on many deliveries in steps, so that a crowd of them does not hit its destination in one blow. */
import { type PaceOptions, pauseFor, stepSize } from './progress.ts'
import type { OperationKind, OperationTarget, OperatorAct, Runtime, Store } from './spi/index.ts'

export interface Act {
  /** Who; default the name of this process. */
  readonly actor?: string
  readonly reason?: string
}

export interface BulkAct extends Act, PaceOptions<BulkProgress> {
  /** Only says how many there are. Nothing changes, and nothing is recorded. Default false. */
  readonly dryRun?: boolean
}

export interface BulkProgress {
  /** Deliveries that were acted on. */
  readonly done: number
  /** Deliveries that there were when it began. */
  readonly total: number
}

export const BULK_NAMES: ReadonlySet<string> = new Set<keyof BulkAct>([
  'actor',
  'reason',
  'dryRun',
  'ratePerSecond',
  'onProgress',
  'signal',
])

/** Every step has its ids in its audit row. */
const STEP = 200

/**
 * The deliveries are chosen once and acted on by their ids: asked for again, a replay would find those that have been sent
 * again meanwhile.
 */
export const inSteps = async (
  { store, runtime, changed }: { store: Store; runtime: Runtime; changed: () => Promise<void> },
  kind: OperationKind,
  target: OperationTarget,
  { ratePerSecond, onProgress, signal }: BulkAct,
  act: OperatorAct,
): Promise<number> => {
  const ids = await store.operations.preview(kind, target)
  const size = ratePerSecond === undefined ? STEP : stepSize(ratePerSecond, STEP)
  let done = 0
  for (let at = 0; at < Math.max(1, ids.length) && signal?.aborted !== true; at += size) {
    const startedAt = runtime.monotonicNow()
    const deliveryIds = ids.slice(at, at + size)
    done += await store.operations[kind]({ ...target, deliveryIds, limit: size }, act)
    await changed()
    onProgress?.({ done, total: ids.length })
    const waitMs =
      ratePerSecond === undefined
        ? 0
        : (deliveryIds.length / ratePerSecond) * 1_000 - (runtime.monotonicNow() - startedAt)
    if (waitMs > 0 && at + size < ids.length) await pauseFor(runtime, waitMs, signal)
  }
  return done
}
