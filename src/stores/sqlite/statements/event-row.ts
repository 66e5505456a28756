/** The columns of an event and what decodes them. */
import { eventDecoder } from '../../sql/event-row.ts'
import { asId, asNumber } from './sql-text.ts'

/** In the order that `decodeEvent` expects; `e` is the events table. */
export const EVENT_FIELDS =
  'e.id, e.type, e.version, e.key, e.aggregate_type, e.aggregate_id, e.tenant_id, e.occurred_at, e.created_at, e.replaces_id, e.size, e.content_type, e.headers, e.payload'

export const decodeEvent = eventDecoder({
  id: asId,
  ms: asNumber,
  data: (payload) => {
    if (typeof payload === 'string' || payload instanceof Uint8Array) return payload
    throw new TypeError('the payload is neither text nor bytes')
  },
})
