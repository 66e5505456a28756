/**
 * An event is a fact: immutable from the moment it is published. These are the shapes it has on its way:
 * `EventRecord` is what is stored and carried; `OutboxEvent` is what a listener gets to see.
 */

/** The payload exactly as it was serialised at publish: JSON text, or bytes of some other content type. */
export type PayloadData = string | Uint8Array

export type Headers = Readonly<Record<string, string>>

export const JSON_CONTENT_TYPE = 'application/json'

export interface EventRecord {
  /** UUID; also the id by which receivers recognise a duplicate. */
  readonly id: string
  readonly type: string
  /** Version of the payload's shape; listeners get older ones through the definition's upcasters. */
  readonly version: number
  /** Order is kept per key and destination; null means that order does not matter. */
  readonly key: string | null
  readonly aggregateType: string | null
  readonly aggregateId: string | null
  readonly tenantId: string | null
  readonly headers: Headers
  readonly contentType: string
  readonly data: PayloadData
  /** Bytes of `data` as stored (UTF-8 for text). */
  readonly size: number
  /** When it happened, as the application says; milliseconds since 1970. */
  readonly occurredAtMs: number
  /** When it was stored; by the database's clock on the cold path, by the publisher's on the hot one. */
  readonly createdAtMs: number
  /** The event that this one was edited from. */
  readonly replacesId: string | null
}

/** What a listener sees. `payload` is parsed when it is first read. */
export interface OutboxEvent<T = unknown> {
  readonly id: string
  readonly type: string
  readonly version: number
  readonly key: string | null
  readonly aggregateType: string | null
  readonly aggregateId: string | null
  readonly tenantId: string | null
  readonly headers: Headers
  readonly contentType: string
  readonly occurredAt: Date
  readonly createdAt: Date
  readonly replacesId: string | null
  readonly payload: T
  /** The stored bytes, unparsed. */
  readonly data: PayloadData
}
