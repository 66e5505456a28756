/**
 * Where an event came from and where it goes, for distributed tracing. `publish` is asked for headers that are stored
 * with the events; whoever delivers them later, in whatever process, finds them there. Nothing here may decide whether
 * an event is stored or delivered: what throws is ignored.
 */
import type { EventRecord, Headers } from '../model/event.ts'

export interface Tracing {
  /** Before the insert of one call of publish. Null: there is nothing to trace. */
  publish(events: readonly EventRecord[]): PublishTrace | null
  /** Before an attempt. Null: there is nothing to trace. */
  deliver(attempt: TracedAttempt): DeliverTrace | null
}

export interface PublishTrace {
  /** Stored with the events of the call, unless the application gave headers of these names. */
  readonly headers: Headers
  /** The insert succeeded, or failed with this. */
  end(error?: unknown): void
}

export interface TracedAttempt {
  readonly destination: string
  readonly kind: 'publisher' | 'listeners'
  readonly deliveries: readonly TracedDelivery[]
}

export interface TracedDelivery {
  readonly id: string
  readonly event: EventRecord
  readonly run: number
  /** From 1. */
  readonly attempt: number
  readonly source: 'hot' | 'cold'
}

export interface DeliverTrace {
  /** What travels on instead of the stored headers of these names; one per delivery. */
  readonly headers: readonly Headers[]
  /** Calls `fn` once, at once, and returns what it returns: listeners find themselves in the trace. */
  run<T>(fn: () => T): T
  /** One verdict per delivery. */
  end(verdicts: readonly TracedVerdict[]): void
}

export interface TracedVerdict {
  readonly verdict: 'done' | 'retry' | 'dead' | 'outage'
  /** Of the failure; the message has been cut and masked. */
  readonly code: string | null
  readonly message: string | null
}
