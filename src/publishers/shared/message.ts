/**
 * What an event looks like on its way: a body, a content type, and names with values beside it. The body is what was
 * stored, byte for byte; nothing is parsed.
 */
import { PermanentError } from '../../core/errors.ts'
import type { OutgoingDelivery } from '../../core/spi/index.ts'

/**
 * - `plain`: the payload; what is known of the event travels in headers.
 * - `cloudevents`: one JSON document of CloudEvents 1.0 with the payload in it ("structured").
 * - `cloudevents-binary`: the payload; the attributes of CloudEvents travel in headers.
 */
export type MessageFormat = 'plain' | 'cloudevents' | 'cloudevents-binary'

export interface FormatOptions {
  /** Default `plain`. */
  readonly format?: MessageFormat
  /** The `source` of CloudEvents: a URI reference for where events come from. Default `posthaste`. */
  readonly source?: string
}

export interface Message {
  readonly body: string | Uint8Array
  readonly contentType: string
  /** Without the content type, which every carrier has a place of its own for. */
  readonly headers: ReadonlyMap<string, string>
}

const CLOUDEVENTS_CONTENT_TYPE = 'application/cloudevents+json; charset=UTF-8'

/** Those that come with the event and have a meaning in CloudEvents too. */
const TRACE = ['traceparent', 'tracestate'] as const

const present = (values: readonly (readonly [string, string | null | undefined])[]): [string, string][] =>
  values.flatMap(([name, value]) => (value === null || value === undefined ? [] : [[name, value]]))

/** Somebody else may have written what no date of ours can say, such as PostgreSQL's infinity. */
const timeOf = (ms: number): string => {
  const time = new Date(ms)
  if (Number.isNaN(time.getTime()))
    throw new PermanentError('its time (occurred_at) is none that a message can have')
  return time.toISOString()
}

/** What the application gave comes first, and cannot pass for what we say of the event. */
const withOurs = (
  { headers }: OutgoingDelivery['event'],
  ours: readonly (readonly [string, string])[],
): Map<string, string> => {
  const all = new Map<string, string>()
  const names = new Set(ours.map(([name]) => name.toLowerCase()))
  for (const name in headers) {
    if (!names.has(name.toLowerCase()) && name.toLowerCase() !== 'content-type')
      all.set(name, headers[name] as string)
  }
  for (const [name, value] of ours) all.set(name, value)
  return all
}

/** Also those that this event has no value for: nobody may say it in our place. */
const PLAIN_NAMES: ReadonlySet<string> = new Set([
  'content-type',
  'event-id',
  'event-type',
  'event-version',
  'event-time',
  'event-key',
  'event-tenant',
  'event-aggregate-type',
  'event-aggregate-id',
  'event-replaces',
  'deduplication-id',
])

/** Called for every event, so nothing is made here that is not kept. */
const plain = (delivery: OutgoingDelivery): Message => {
  const { event, deduplicationId } = delivery
  const all = new Map<string, string>()
  for (const name in event.headers)
    if (!PLAIN_NAMES.has(name.toLowerCase())) all.set(name, event.headers[name] as string)
  all.set('event-id', event.id)
  all.set('event-type', event.type)
  all.set('event-version', String(event.version))
  all.set('event-time', timeOf(event.occurredAtMs))
  if (event.key !== null) all.set('event-key', event.key)
  if (event.tenantId !== null) all.set('event-tenant', event.tenantId)
  if (event.aggregateType !== null) all.set('event-aggregate-type', event.aggregateType)
  if (event.aggregateId !== null) all.set('event-aggregate-id', event.aggregateId)
  if (event.replacesId !== null) all.set('event-replaces', event.replacesId)
  all.set('deduplication-id', deduplicationId)
  return { body: event.data, contentType: event.contentType, headers: all }
}

/** The id is what receivers recognise duplicates by, so a replay has another one than the first run. */
const attributesOf = ({ event, deduplicationId }: OutgoingDelivery, source: string): [string, string][] =>
  present([
    ['specversion', '1.0'],
    ['id', deduplicationId],
    ['source', source],
    ['type', event.type],
    ['time', timeOf(event.occurredAtMs)],
    ['subject', event.aggregateId ?? event.key],
    ['partitionkey', event.key],
    ['eventid', event.id],
    ['eventversion', String(event.version)],
    ['tenantid', event.tenantId],
    ['aggregatetype', event.aggregateType],
    ['replacesid', event.replacesId],
    ...TRACE.map((name) => [name, event.headers[name]] as const),
  ])

const isJson = (contentType: string): boolean => /^[^;]*[/+]json\s*(?:;|$)/i.test(contentType)

export const dataMember = ({ data, contentType }: OutgoingDelivery['event']): string => {
  if (typeof data !== 'string') {
    const { buffer, byteOffset, byteLength } = data
    return `"data_base64":"${Buffer.from(buffer, byteOffset, byteLength).toString('base64')}"`
  }
  return `"data":${isJson(contentType) ? data : JSON.stringify(data)}`
}

const structured = (delivery: OutgoingDelivery, source: string): Message => {
  const { event } = delivery
  const members = [...attributesOf(delivery, source), ['datacontenttype', event.contentType] as const].map(
    ([name, value]) => `"${name}":${JSON.stringify(value)}`,
  )
  return {
    body: `{${members.join(',')},${dataMember(event)}}`,
    contentType: CLOUDEVENTS_CONTENT_TYPE,
    headers: withOurs(event, []),
  }
}

/** `prefix` is what the carrier's binding of CloudEvents puts before an attribute's name. */
export const messages = (
  { format = 'plain', source = 'posthaste' }: FormatOptions,
  prefix: string,
): ((delivery: OutgoingDelivery) => Message) => {
  if (format === 'plain') return plain
  if (format === 'cloudevents') return (delivery) => structured(delivery, source)
  return (delivery) => {
    const { event } = delivery
    const attributes = attributesOf(delivery, source).map(
      ([name, value]) => [`${prefix}${name}`, value] as const,
    )
    return { body: event.data, contentType: event.contentType, headers: withOurs(event, attributes) }
  }
}

/**
 * For carriers whose headers are ASCII: everything else, and what would make that ambiguous, as percent-encoded UTF-8.
 * That is the rule of CloudEvents for HTTP.
 */
export const asciiValue = (value: string): string =>
  /^[\x21\x23\x24\x26-\x7e]*$/.test(value)
    ? value
    : [...value]
        .map((char) => (/^[\x21\x23\x24\x26-\x7e]$/.test(char) ? char : encodeURIComponent(char)))
        .join('')
