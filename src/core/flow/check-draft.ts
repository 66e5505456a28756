/**
 * Part of stage 1. Receives a draft in any of its forms; hands on its fields, each read once and checked, so
 * that neither a getter nor a later change of the caller's object makes what was checked and what is stored
 * differ. The payload is not looked at here: the schema comes first.
 */

import {
  type AnyEventDefinition,
  type Draft,
  type DraftOptions,
  isDefinition,
  type Named,
  nameOf,
} from '../define-event.ts'
import { InvalidEventError } from '../errors.ts'
import { type Headers, JSON_CONTENT_TYPE } from '../model/event.ts'
import { checkHeaders, checkName, type NameKind } from '../model/headers.ts'
import { shownWithKind } from '../model/shown.ts'
import { findUnknown, hintFor } from '../model/unknown-names.ts'
import type { Due } from '../spi/index.ts'

const LAST_VERSION = 32_767
/** Ten years: whoever waits longer has mistaken the unit. */
const LONGEST_DELAY_MS = 3_650 * 24 * 3_600_000

/** A draft whose fields are known to be good, before its payload was. */
export interface CheckedDraft {
  readonly type: string
  readonly version: number
  readonly definition: AnyEventDefinition | null
  readonly content: { readonly json: string } | { readonly payload: unknown }
  /** Null where the definition decides, once the payload is known. */
  readonly id: string | null
  readonly key: string | null | undefined
  readonly aggregateType: string | null
  readonly aggregateId: string | null | undefined
  readonly tenantId: string | null
  readonly headers: Headers
  readonly contentType: string | null
  readonly due: Due
  readonly delayed: boolean
  readonly idempotencyKey: string | null
  readonly occurredAtMs: number
}

export const refuse = (path: string, reason: string, text: string, cause?: unknown): InvalidEventError =>
  new InvalidEventError(`${path} ${text}`, { path, reason, ...(cause === undefined ? {} : { cause }) })

const optionalName = (kind: NameKind, value: unknown): string | null =>
  value === undefined || value === null ? null : checkName(kind, value)

const checkType = (value: unknown): string => {
  const type = checkName('type', value)
  if (type.includes('*')) throw refuse('type', 'pattern', 'must not contain "*", which stands for many types')
  return type
}

/** A media type as in RFC 9110, short enough for every store's column. */
const CONTENT_TYPE = /^[\w!#$&^.+-]+\/[\w!#$&^.+-]+[\x20-\x7e]*$/
const CONTENT_TYPE_LIMIT = 128

const checkContentType = (value: unknown): string | null => {
  if (value === undefined || value === null) return null
  if (typeof value === 'string' && value.length <= CONTENT_TYPE_LIMIT && CONTENT_TYPE.test(value))
    return value
  throw refuse('contentType', 'bad-type', `must be a media type of at most ${CONTENT_TYPE_LIMIT} characters`)
}

/** Years of four digits, as texts of times have them; what lies beyond not every database takes. */
const FIRST_MS = Date.parse('0001-01-01T00:00:00.000Z')
const LAST_MS = Date.parse('9999-12-31T23:59:59.999Z')

const checkDate = (field: string, value: unknown): number => {
  const time = value instanceof Date ? value.getTime() : Number.NaN
  if (Number.isNaN(time)) throw refuse(field, 'bad-date', 'must be a valid Date')
  if (time < FIRST_MS || time > LAST_MS)
    throw refuse(field, 'out-of-range', 'must lie between the years 1 and 9999')
  return time
}

const checkVersion = (value: unknown): number => {
  if (Number.isInteger(value) && (value as number) >= 1 && (value as number) <= LAST_VERSION)
    return value as number
  throw refuse('version', 'out-of-range', `must be a whole number from 1 to ${LAST_VERSION}`)
}

const NOW: Due = Object.freeze({ afterMs: 0 })

const checkDue = (options: DraftOptions, now: number): { readonly due: Due; readonly delayed: boolean } => {
  const { delayMs, dueAt } = options
  if (delayMs !== undefined && dueAt !== undefined) {
    throw refuse('dueAt', 'conflict', 'cannot be combined with delayMs: give one of them')
  }
  if (dueAt !== undefined) {
    const atMs = checkDate('dueAt', dueAt)
    // A time that has passed is no delay, and the hot path may have it.
    return atMs <= now ? { due: NOW, delayed: false } : { due: { atMs }, delayed: true }
  }
  if (delayMs === undefined || delayMs === 0) return { due: NOW, delayed: false }
  if (!(typeof delayMs === 'number' && delayMs > 0 && delayMs <= LONGEST_DELAY_MS)) {
    throw refuse(
      'delayMs',
      'out-of-range',
      `must be a number from 0 to ${LONGEST_DELAY_MS}, not ${shownWithKind(delayMs)}`,
    )
  }
  return { due: { afterMs: Math.ceil(delayMs) }, delayed: true }
}

/** Always a copy; what is in it is checked unless the user turned that off. */
const copyHeaders = (given: unknown, validate: boolean): Headers =>
  validate
    ? checkHeaders(given ?? undefined)
    : Object.freeze(Object.assign(Object.create(null) as Record<string, string>, given))

const definitionOf = (draft: Draft): AnyEventDefinition | null => {
  if ('definition' in draft && isDefinition(draft.definition)) return draft.definition
  return isDefinition(draft.type) ? draft.type : null
}

const contentOf = (draft: Draft): CheckedDraft['content'] => {
  if (!('json' in draft) || draft.json === undefined)
    return { payload: (draft as { payload: unknown }).payload }
  if ('payload' in draft && draft.payload !== undefined) {
    throw refuse('json', 'conflict', 'cannot be combined with payload: give one of them')
  }
  return { json: draft.json }
}

/** Those of a caller, and `definition`, by which a draft remembers what made it. */
const FIELDS: ReadonlySet<string> = new Set<keyof DraftOptions | 'type' | 'payload' | 'json' | 'definition'>([
  'type',
  'payload',
  'json',
  'definition',
  'id',
  'key',
  'aggregateType',
  'aggregateId',
  'tenantId',
  'headers',
  'delayMs',
  'dueAt',
  'idempotencyKey',
  'occurredAt',
  'contentType',
  'version',
])

/** A misspelt `idempotencyKey` would be an event that is published twice. */
const refuseUnknownFields = (draft: object): void => {
  const unknown = findUnknown(draft, FIELDS)
  if (unknown === null) return
  throw refuse(unknown.slice(0, 64), 'unknown-field', `is not a field of an event${hintFor(unknown, FIELDS)}`)
}

export interface DraftRules {
  readonly wallNow: number
  readonly validateHeaders: boolean
}

/** What a getter or a proxy among the fields throws is a mistake in the draft, and said as one. */
export const checkDraft = (draft: Draft, rules: DraftRules): CheckedDraft => {
  try {
    return readDraft(draft, rules)
  } catch (error) {
    if (error instanceof InvalidEventError) throw error
    throw refuse('event', 'threw', 'has fields that throw when they are read', error)
  }
}

const readDraft = (draft: Draft, rules: DraftRules): CheckedDraft => {
  if (typeof draft !== 'object' || draft === null) {
    throw refuse(
      'event',
      'not-an-event',
      `must be a draft or { type, payload }, not ${draft === null ? 'null' : typeof draft}`,
    )
  }
  refuseUnknownFields(draft)
  const definition = definitionOf(draft)
  const { aggregateType, key, aggregateId } = draft
  return {
    type: checkType(definition === null ? nameOf(draft.type as Named) : definition.type),
    version: checkVersion((draft as DraftOptions).version ?? definition?.version ?? 1),
    definition,
    content: contentOf(draft),
    id: draft.id === undefined ? null : draft.id,
    key: key === undefined ? undefined : optionalName('key', key),
    aggregateType: optionalName(
      'aggregateType',
      aggregateType === undefined
        ? definition?.aggregate
        : aggregateType === null
          ? null
          : nameOf(aggregateType),
    ),
    aggregateId: aggregateId === undefined ? undefined : optionalName('aggregateId', aggregateId),
    tenantId: optionalName('tenantId', draft.tenantId),
    headers: copyHeaders(draft.headers, rules.validateHeaders),
    contentType: checkContentType(draft.contentType ?? definition?.contentType),
    ...checkDue(draft, rules.wallNow),
    idempotencyKey: optionalName('idempotencyKey', draft.idempotencyKey),
    occurredAtMs: draft.occurredAt === undefined ? rules.wallNow : checkDate('occurredAt', draft.occurredAt),
  }
}

/** JSON and its kin (`application/cloudevents+json`) are kept as text, everything else as bytes. */
export const isJsonType = (contentType: string): boolean => /^[^;]*[/+]json\s*(;|$)/i.test(contentType)

export const contentTypeFor = (given: string | null, binary: boolean): string => {
  const contentType = given ?? (binary ? null : JSON_CONTENT_TYPE)
  if (contentType === null) {
    throw refuse(
      'contentType',
      'missing',
      'is required for a payload of bytes, e.g. application/octet-stream',
    )
  }
  if (binary && isJsonType(contentType)) {
    throw refuse(
      'contentType',
      'mismatch',
      `is ${contentType}, but the payload is bytes: use ofJson(type, text) for JSON`,
    )
  }
  if (!binary && !isJsonType(contentType)) {
    throw refuse(
      'contentType',
      'mismatch',
      `is ${contentType}, so the payload must be a Uint8Array of such content`,
    )
  }
  return contentType
}

/** Gives an error its place in the call: `$.items[3]` in the third draft is `events[2].payload.items[3]`. */
export const placeError = (error: unknown, index: number | null): unknown => {
  if (!(error instanceof InvalidEventError)) return error
  const inside = error.path.startsWith('$') ? `payload${error.path.slice(1)}` : error.path
  const path = index === null ? inside : `events[${index}].${inside}`
  const message = index === null ? error.message : `events[${index}]: ${error.message}`
  const reason = String(error.detail.reason)
  return new InvalidEventError(message, {
    path,
    reason,
    ...(error.cause === undefined ? {} : { cause: error.cause }),
  })
}
