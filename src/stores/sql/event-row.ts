/**
 * Decodes the columns of an event, in the order in which every SQL store asks for them. A row that cannot be decoded
 * is reported, never thrown: it must become dead and visible.
 */
import { type EventRecord, type Headers, JSON_CONTENT_TYPE, plain } from '../../core/model/index.ts'

/** What differs between drivers. */
export interface EventColumns {
  id(value: unknown): string
  /** Milliseconds since 1970. */
  ms(value: unknown): number
  /** From the payload's column and the one behind it; throws when it is neither text nor bytes. */
  data(payload: unknown, bytes: unknown): string | Uint8Array
}

export type DecodedEvent =
  | { readonly event: EventRecord; readonly problem: null }
  | { readonly event: null; readonly problem: string }

export const MISSING = 'the event is missing'

const NO_HEADERS: Headers = Object.freeze(Object.create(null) as Record<string, string>)

const decodeHeaders = (text: unknown): Headers => {
  if (text === null) return NO_HEADERS
  const parsed: unknown = JSON.parse(String(text))
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

const textOrNull = (value: unknown): string | null => (value === null ? null : String(value))

/** Version 1 and JSON, which most are, may come as null. */
const EventOfRow = plain<[row: readonly unknown[], at: number, columns: EventColumns], EventRecord>(function (
  row,
  at,
  { id, ms, data },
) {
  this.id = id(row[at])
  this.type = String(row[at + 1])
  this.version = row[at + 2] === null ? 1 : Number(row[at + 2])
  this.key = textOrNull(row[at + 3])
  this.aggregateType = textOrNull(row[at + 4])
  this.aggregateId = textOrNull(row[at + 5])
  this.tenantId = textOrNull(row[at + 6])
  this.occurredAtMs = ms(row[at + 7])
  this.createdAtMs = ms(row[at + 8])
  this.replacesId = row[at + 9] === null ? null : id(row[at + 9])
  this.size = Number(row[at + 10])
  this.contentType = row[at + 11] === null ? JSON_CONTENT_TYPE : String(row[at + 11])
  this.headers = decodeHeaders(row[at + 12])
  this.data = data(row[at + 13], row[at + 14])
})

/** `at` is the index of the first event column. */
export const eventDecoder =
  (columns: EventColumns) =>
  (row: readonly unknown[], at: number): DecodedEvent => {
    if (row[at] === null) return { event: null, problem: MISSING }
    try {
      return { event: new EventOfRow(row, at, columns), problem: null }
    } catch (error) {
      // The parser's message may quote the row's content, which is nobody's business in a log.
      const reason = error instanceof SyntaxError ? 'headers are not JSON' : (error as Error).message
      return { event: null, problem: `the event cannot be decoded: ${reason}` }
    }
  }
