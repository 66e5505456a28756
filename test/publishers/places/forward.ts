import { createOutbox } from '../../../src/index.ts'
import { type ForwardTarget, forwardPublisher } from '../../../src/publishers/forward.ts'
import { memoryStore } from '../../../src/stores/memory/index.ts'
import { storeErrorOf } from '../../../src/stores/postgres/errors.ts'
import type { PublisherHarness, ReceivedMessage } from '../../../src/testing/suites/index.ts'
import { lowerNames, untilThere } from '../received.ts'

/** The outbox of a database of PostgreSQL that answers with an error of this code, and keeps the connection. */
export const refusing = (code: string): ForwardTarget<null> => ({
  async transaction() {
    const error = Object.assign(new Error('it is refused'), { code, severity: 'ERROR' })
    throw storeErrorOf(error, 'PostgreSQL')
  },
  publishMany: async () => [],
})

/** Into an outbox that nobody delivers from, so that everything stays where it can be looked at. */
export const createForwardPlace = async (): Promise<PublisherHarness> => {
  const outbox = createOutbox({
    store: memoryStore(),
    destinations: { elsewhere: { events: ['*'] } },
    serve: [],
    maxPayloadBytes: 2_000_000,
  })
  await outbox.start()
  const messageOf = async (eventId: string): Promise<ReceivedMessage> => {
    const { event } = (await outbox.inspect.event(eventId)) ?? {}
    if (event === undefined) throw new Error(`event ${eventId} is not there`)
    const { data, key, contentType } = event
    const known = {
      'event-id': event.id,
      'event-type': event.type,
      'event-version': String(event.version),
      'event-time': new Date(event.occurredAtMs).toISOString(),
      'event-key': key,
      'event-tenant': event.tenantId,
      'event-aggregate-type': event.aggregateType,
      'event-aggregate-id': event.aggregateId,
      'deduplication-id': event.id,
    }
    const headers = Object.fromEntries(
      Object.entries(known).flatMap(([name, value]) => (value === null ? [] : [[name, value]])),
    )
    const body = typeof data === 'string' ? Buffer.from(data) : data
    // An event has fields of its own for what is known of it: there, headers of these names are only headers.
    const given = Object.entries(lowerNames(event.headers)).filter(([name]) => !(name in known))
    return { body, contentType, key, headers: { ...Object.fromEntries(given), ...headers } }
  }
  const look = async (): Promise<readonly ReceivedMessage[]> => {
    const { deliveries } = await outbox.inspect.list({ limit: 10_000, order: 'oldest' })
    return await Promise.all(deliveries.map(({ eventId }) => messageOf(eventId)))
  }
  return {
    topic: 'unused',
    keepsKey: true,
    tooLarge: 2_000_001,
    open: () => forwardPublisher({ to: outbox }),
    openRefused: () => forwardPublisher({ to: refusing('28P01') }),
    received: (count) => untilThere(count, look),
    dispose: () => outbox.close(),
  }
}
