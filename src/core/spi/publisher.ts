import type { EventRecord } from '../model/event.ts'

/** One delivery as a publisher sees it: bytes and metadata, nothing parsed. */
export interface OutgoingDelivery {
  readonly deliveryId: string
  readonly event: EventRecord
  /** 1 for the first attempt of this run. */
  readonly attempt: number
  /** Above 1 when an operator sent it again; a replay's deduplication id must differ, or receivers swallow it. */
  readonly run: number
  /** Event id, or event id and run for a later run: what the receiver should deduplicate by. */
  readonly deduplicationId: string
  /** From the destination's `topic` option; the event type where none is set. */
  readonly topic: string
}

export type SendResult = { readonly ok: true } | { readonly ok: false; readonly error: unknown }

export interface SendContext {
  /** Aborted at the timeout or hard deadline, and when a bounded drain runs out. */
  readonly signal: AbortSignal
}

/**
 * Carries deliveries to a broker or another place. One result per delivery, in the same order, so that
 * partial success is visible; a throw counts as the same failure for each of them.
 */
export interface Publisher {
  /** Most deliveries that one `send` takes; 1 when absent. */
  readonly maxBatch?: number
  /**
   * The place keeps the order within one `send` and accepts only a prefix when it fails. Several deliveries
   * of one key may then share a batch; otherwise a key is one delivery at a time.
   */
  readonly orderedPrefix?: boolean
  send(deliveries: readonly OutgoingDelivery[], context: SendContext): Promise<readonly SendResult[]>
  close?(): Promise<void>
}
