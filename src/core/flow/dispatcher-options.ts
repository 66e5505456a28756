/** What a dispatcher is given: its place, its bounds, and the rest of its destination. */
import type { Delivery, Outcome } from '../model/delivery.ts'
import type { ResolvedDestination } from '../options.ts'
import type { Verdict } from '../policy/failure.ts'
import type { Logger, Metrics, Runtime, SuspectedDelivery } from '../spi/index.ts'
import type { Receiver } from './deliver.ts'
import type { Quarantine } from './quarantine.ts'
import type { QueueBounds } from './queues.ts'
import type { Settled, Settler } from './settle.ts'
import type { Tuning } from './tuning.ts'

/** What the dispatcher needs to know from, and tells to, the rest of its destination. */
export interface DispatcherEvents {
  /** The right to send it certainly holds at this moment. */
  isRightValid(delivery: Delivery): boolean
  /** A settle was confirmed or given up; the delivery may leave the in-flight set. */
  ended(delivery: Delivery, outcome: Outcome, settled: Settled): void
  /** Room in the queues, or the destination is open again: the poller may go on. */
  roomFreed(): void
  failed(delivery: Delivery, verdict: Verdict, error: unknown): void
  /** Writes down that a quarantined delivery is about to be tried. Null: it is not ours any more. */
  suspect(delivery: Delivery): Promise<SuspectedDelivery | null>
}

export interface DispatcherOptions {
  readonly destination: ResolvedDestination
  /** How many at once and how many in one batch; an operator may change them at any time. */
  readonly tuning: Pick<Tuning, 'concurrency' | 'batchSize'>
  readonly receiver: Receiver
  readonly settler: Settler
  readonly runtime: Runtime
  readonly logger: Logger
  readonly metrics: Metrics
  readonly bounds: QueueBounds
  readonly hardDeadlineMs: number
  /** Nothing is sent by itself: a consumer pulls with `take` and answers with `conclude`. */
  readonly manual: boolean
  readonly quarantine: Quarantine
  readonly events: DispatcherEvents
}
