/**
 * `posthaste/publishers/forward`: into the outbox of another database. Events keep their id, type, key, headers and
 * payload; what is sent twice is stored once, because its deduplication id is the idempotency key there.
 */
import {
  ERROR_CODES,
  InvalidEventError,
  isOutageError,
  isPermanentError,
  isStoreOutage,
  OutageError,
  type OutboxError,
  PermanentError,
} from '../core/errors.ts'
import type { OutgoingDelivery, Publisher, SendResult } from '../core/spi/index.ts'
import { checkOptions } from './shared/check-options.ts'
import { closedError, failed, SENT } from './shared/results.ts'
import { within } from './shared/within.ts'

/** As much of an outbox as is needed. It may be one that only publishes: `serve: []`. */
export interface ForwardTarget<Tx> {
  transaction<T>(fn: (tx: Tx) => Promise<T>): Promise<T>
  publishMany(tx: Tx, drafts: readonly ForwardDraft[]): Promise<readonly string[]>
}

export type ForwardDraft = {
  readonly type: string
  readonly version: number
  readonly id?: string
  readonly key: string | null
  readonly aggregateType: string | null
  readonly aggregateId: string | null
  readonly tenantId: string | null
  readonly headers: Readonly<Record<string, string>>
  readonly contentType: string
  readonly occurredAt: Date
  readonly idempotencyKey: string
} & ({ readonly json: string } | { readonly payload: Uint8Array })

export interface ForwardPublisherOptions<Tx> {
  /** Started or not; closed by whoever made it. */
  readonly to: ForwardTarget<Tx>
}

const draftOf = ({ event, run, deduplicationId }: OutgoingDelivery): ForwardDraft => ({
  type: event.type,
  version: event.version,
  // A later run is an event of its own over there, or it would be taken for the first one.
  ...(run === 1 ? { id: event.id } : {}),
  key: event.key,
  aggregateType: event.aggregateType,
  aggregateId: event.aggregateId,
  tenantId: event.tenantId,
  headers: event.headers,
  contentType: event.contentType,
  occurredAt: new Date(event.occurredAtMs),
  idempotencyKey: deduplicationId,
  ...(typeof event.data === 'string' ? { json: event.data } : { payload: event.data }),
})

/** Nothing is the matter with the other database, but nobody can ask it from here. */
const OUT_OF_USE: ReadonlySet<unknown> = new Set([ERROR_CODES.closed, ERROR_CODES.missingPeer])

const isOutage = (error: unknown): boolean =>
  isStoreOutage(error) || (error instanceof Error && OUT_OF_USE.has((error as Partial<OutboxError>).code))

/** What the other outbox refuses it will always refuse; a database that cannot be asked says nothing about the event. */
const judged = (error: unknown): unknown => {
  if (isPermanentError(error)) return error
  if (error instanceof InvalidEventError)
    return new PermanentError(`the outbox that it is forwarded to refuses it: ${error.message}`, {
      cause: error,
    })
  if (isOutage(error))
    return new OutageError(
      `the outbox that it is forwarded to takes nothing now: ${(error as Error).message}`,
      {
        cause: error,
      },
    )
  return error
}

export const forwardPublisher = <Tx>(options: ForwardPublisherOptions<Tx>): Publisher => {
  checkOptions('forwardPublisher', options, { to: { kind: 'anything' } })
  const { to } = options
  let isClosed = false
  /** What became of them together. A transaction that ends later does no harm: the idempotency key sees to that. */
  const store = async (deliveries: readonly OutgoingDelivery[], signal: AbortSignal): Promise<SendResult> => {
    try {
      await within(
        to.transaction((tx) => to.publishMany(tx, deliveries.map(draftOf))),
        signal,
      )
      return SENT
    } catch (error) {
      if (!signal.aborted || error !== signal.reason) return failed(judged(error))
      // A database that hangs says nothing about the event either.
      return failed(
        new OutageError('the outbox that it is forwarded to did not answer in time', { cause: error }),
      )
    }
  }
  return {
    maxBatch: 500,
    async send(deliveries, { signal }) {
      if (isClosed) throw closedError('the forward publisher')
      const together = await store(deliveries, signal)
      if (together.ok || deliveries.length === 1 || isOutageError(together.error))
        return deliveries.map(() => together)
      // One that is refused must not keep the others, nor spend their attempts: each gets a transaction of its own.
      const results: SendResult[] = []
      for (const delivery of deliveries)
        results.push(
          signal.aborted
            ? failed(new OutageError('there was no time left to forward it'))
            : await store([delivery], signal),
        )
      return results
    },
    async close() {
      isClosed = true
    },
  }
}
