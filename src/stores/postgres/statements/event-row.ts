/** The columns of an event and what decodes them. */
import { JSON_CONTENT_TYPE } from '../../../core/model/index.ts'
import { eventDecoder } from '../../sql/event-row.ts'
import { asBytes, asMs, asNumber, asText } from './sql-text.ts'

/** In the order that `decodeEvent` expects; `e` is the events table. */
export const EVENT_FIELDS = `e.id, e.type, NULLIF(e.version, 1), e.key, e.aggregate_type, e.aggregate_id, e.tenant_id, ${asMs('e.occurred_at')}, ${asMs('e.created_at')}, e.replaces_id, e.size, NULLIF(e.content_type, '${JSON_CONTENT_TYPE}'), e.headers, e.payload, encode(e.payload_bytes, 'hex')`

/** As many columns that are null, for the parts of a union that have no event. */
export const NO_EVENT_FIELDS =
  'NULL::uuid, NULL, NULL::int, NULL, NULL, NULL, NULL, NULL::bigint, NULL::bigint, NULL::uuid, NULL::int, NULL, NULL::json, NULL::json, NULL'

export const decodeEvent = eventDecoder({
  id: asText,
  ms: asNumber,
  data: (payload, bytes) => (payload === null ? asBytes(bytes) : asText(payload)),
})
