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

export interface Left {
  /** Who else has lanes of what we serve. */
  readonly owners: readonly WorkerView[]
  readonly paused: readonly string[]
}

/** To be asked before a pass, which may serve one destination after another. */
export const servedBy = (outboxes: readonly LoadedOutbox[]): ReadonlyMap<string, readonly string[]> =>
  new Map(outboxes.map(({ name, host }) => [name, host.served().map((one) => one.name)]))

/** Why something that waits was not delivered; empty when nothing waits. */
export const findLeft = async (
  outboxes: readonly LoadedOutbox[],
  servedOf: ReturnType<typeof servedBy>,
): Promise<Left> => {
  const owners: WorkerView[] = []
  const paused: string[] = []
  for (const { name: outboxName, outbox, host } of outboxes) {
    const served = servedOf.get(outboxName) ?? []
    const waiting: string[] = []
    for (const destination of [UNROUTED, ...served]) {
      const { deliveries } = await outbox.inspect.list({ destination, status: ['pending'], limit: 1 })
      if (deliveries.length > 0) waiting.push(destination)
    }
    if (waiting.length === 0) continue
    const { destinations } = await host.registered()
    const stopped = destinations.filter((one) => one.paused).map(({ name }) => name)
    paused.push(...waiting.filter((name) => stopped.includes(name)))
    if (waiting.every((name) => stopped.includes(name))) continue
    const workers = await outbox.inspect.workers()
    // What is not routed yet waits for any of them.
    const among = waiting.includes(UNROUTED) ? served : waiting
    const serves = ({ destinations: theirs }: WorkerView) => among.some((name) => theirs.includes(name))
    owners.push(...workers.filter((worker) => !worker.fenced && worker.lanes > 0 && serves(worker)))
  }
  return { owners, paused }
}
