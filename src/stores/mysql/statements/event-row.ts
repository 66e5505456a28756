/** Columns of an event and their decoder. A row that cannot be decoded is reported, never thrown: it must become dead and visible. */
import type { EventRecord, Headers } from '../../../core/model/index.ts'
import { asId, asMs, asNumber, asText, asTextOrNull } from './sql-text.ts'

/** In the order that `decodeEvent` expects; `e` is the events table. */
export const EVENT_FIELDS =
  'e.id, e.type, e.version, e.key, e.aggregate_type, e.aggregate_id, e.tenant_id, e.occurred_at, e.created_at, e.replaces_id, e.size, e.content_type, e.headers, e.payload, e.payload_bytes'

const NO_HEADERS: Headers = Object.freeze(Object.create(null) as Record<string, string>)

const decodeHeaders = (text: unknown): Headers => {
  if (text === null) return NO_HEADERS
  const parsed: unknown = JSON.parse(asText(text))
  if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed)) {
    throw new TypeError('headers are not an object')
  }
  const headers = Object.create(null) as Record<string, string>
  for (const [name, value] of Object.entries(parsed)) {
    if (typeof value !== 'string') throw new TypeError('a header is not text')
    headers[name] = value
  }
  return Object.freeze(headers)
}

const decodePayload = (text: unknown, bytes: unknown): string | Uint8Array => {
  if (typeof text === 'string') return text
  // A copy: the driver's buffer is a window into a packet that may hold many rows.
  if (bytes instanceof Uint8Array) return new Uint8Array(bytes)
  throw new TypeError('the payload is neither text nor bytes')
}

export type DecodedEvent =
  | { readonly event: EventRecord; readonly problem: null }
  | { readonly event: null; readonly problem: string }

/** `at` is the index of the first event column. */
export const decodeEvent = (row: readonly unknown[], at: number): DecodedEvent => {
  if (row[at] === null) return { event: null, problem: 'the event is missing' }
  try {
    const event: EventRecord = {
      id: asId(row[at]),
      type: asText(row[at + 1]),
      version: asNumber(row[at + 2]),
      key: asTextOrNull(row[at + 3]),
      aggregateType: asTextOrNull(row[at + 4]),
      aggregateId: asTextOrNull(row[at + 5]),
      tenantId: asTextOrNull(row[at + 6]),
      occurredAtMs: asMs(row[at + 7]),
      createdAtMs: asMs(row[at + 8]),
      replacesId: row[at + 9] === null ? null : asId(row[at + 9]),
      size: asNumber(row[at + 10]),
      contentType: asText(row[at + 11]),
      headers: decodeHeaders(row[at + 12]),
      data: decodePayload(row[at + 13], row[at + 14]),
    }
    return { event, problem: null }
  } catch (error) {
    // The parser's message may quote the row's content, which is nobody's business in a log.
    const reason = error instanceof SyntaxError ? 'headers are not JSON' : (error as Error).message
    return { event: null, problem: `the event cannot be decoded: ${reason}` }
  }
}
