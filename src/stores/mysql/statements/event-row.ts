/** The columns of an event and what decodes them. */
import { eventDecoder } from '../../sql/event-row.ts'
import { asId, asMs } from './sql-text.ts'

/** In the order that `decodeEvent` expects; `e` is the events table. */
export const EVENT_FIELDS =
  'e.id, e.type, e.version, e.key, e.aggregate_type, e.aggregate_id, e.tenant_id, e.occurred_at, e.created_at, e.replaces_id, e.size, e.content_type, e.headers, e.payload, e.payload_bytes'

export const decodeEvent = eventDecoder({
  id: asId,
  ms: asMs,
  data: (payload, bytes) => {
    if (typeof payload === 'string') return payload
    // A copy: the driver's buffer is a window into a packet that may hold many rows.
    if (bytes instanceof Uint8Array) return new Uint8Array(bytes)
    throw new TypeError('the payload is neither text nor bytes')
  },
})
