/** One pass over what is due, with an upper bound if there is one; then the process may end. */
import type { LoadedOutbox } from '../../config/load-config.ts'
import { UNROUTED } from '../../core/model/delivery.ts'
import type { WorkerView } from '../../core/spi/index.ts'

export interface Pass {
  claimed: number
  done: number
  retried: number
  dead: number
}

/** Delivers until nothing is due, nothing can be sent, or `limit` deliveries were attempted. */
export const deliverOnce = async (
  outboxes: readonly LoadedOutbox[],
  limit: number | null,
  signal: AbortSignal,
): Promise<Pass> => {
  const sum: Pass = { claimed: 0, done: 0, retried: 0, dead: 0 }
  for (const { outbox, host, configure } of outboxes) {
    // With a bound one destination at a time, and never more in memory than may be sent.
    const turns = limit === null ? [null] : host.served().map(({ name }) => name)
    for (const turn of turns) {
      while (!signal.aborted) {
        const left = limit === null ? null : limit - sum.claimed
        if (left !== null && left <= 0) return sum
        if (left !== null && turn !== null) {
          const { pollBatchSize, coldQueueCapacity } = host.options
          const [batch, queue] = [Math.min(left, pollBatchSize), Math.min(left, coldQueueCapacity)]
          configure({ serve: [turn], pollBatchSize: batch, coldQueueCapacity: queue })
        }
        const { claimed, done, retried, dead } = await outbox.processOnce()
        sum.claimed += claimed
        sum.done += done
        sum.retried += retried
        sum.dead += dead
        if (claimed === 0) break
      }
    }
  }
  return sum
}

/** Who else has lanes of destinations that we serve, where something waits in them. */
export const ownersElsewhere = async (outboxes: readonly LoadedOutbox[]): Promise<readonly WorkerView[]> => {
  const owners: WorkerView[] = []
  for (const { outbox, host } of outboxes) {
    const served = host.served().map(({ name }) => name)
    const others = (await outbox.inspect.workers()).filter(
      ({ fenced, lanes, destinations }) =>
        !fenced && lanes > 0 && served.some((name) => destinations.includes(name)),
    )
    if (others.length === 0) continue
    for (const destination of [UNROUTED, ...served]) {
      const { deliveries } = await outbox.inspect.list({ destination, status: ['pending'], limit: 1 })
      if (deliveries.length === 0) continue
      owners.push(...others)
      break
    }
  }
  return owners
}
