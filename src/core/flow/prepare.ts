/**
 * Part of stage 1. Receives the drafts of one call; hands on events that are complete and unchangeable: ids,
 * defaults, key, payload serialised once. Guarantees that whatever is wrong with any of them is refused here,
 * before the first statement, so that the caller's transaction stays good.
 */
import type { AnyEventDefinition, Draft } from '../define-event.ts'
import type { EventRecord, PayloadData } from '../model/event.ts'
import { checkName } from '../model/headers.ts'
import { checkBinary, checkJsonText, parsePayload, serialisePayload } from '../model/payload.ts'
import { isUuid } from '../model/uuid.ts'
import type { ResolvedOptions } from '../options.ts'
import type { Due } from '../spi/index.ts'
import { type CheckedDraft, checkDraft, contentTypeFor, placeError, refuse } from './check-draft.ts'
import { isPromise, requireSync, validatePayload } from './validate-payload.ts'

/** Most events of one call; more would be one statement of unbounded size in the caller's transaction. */
export const MAX_EVENTS_PER_CALL = 10_000
/** Most payload bytes of one call: a statement is built in memory, and far beyond this it cannot be built at all. */
export const MAX_BYTES_PER_CALL = 64 * 1_048_576

export interface PreparedEvent {
  readonly record: EventRecord
  readonly due: Due
  readonly delayed: boolean
  readonly idempotencyKey: string | null
  /** The insert is sure to write it: neither its id nor an idempotency key can already be there. */
  readonly isNew: boolean
}

export interface PreparedEvents {
  readonly events: readonly PreparedEvent[]
  /** One id per draft, in order; a draft that repeats an idempotency key of the same call has the first one's. */
  readonly ids: readonly string[]
}

export type PrepareOptions = Pick<
  ResolvedOptions,
  'validate' | 'validateJson' | 'validateHeaders' | 'maxPayloadBytes' | 'maxPayloadDepth'
>

interface Valid {
  readonly draft: CheckedDraft
  /** What the schema made of the payload; undefined for JSON text that nobody needs to look into. */
  readonly value: unknown
}

export interface Preparer {
  /** At once unless a schema is asynchronous, so that the caller's objects are read before it goes on. */
  prepare(drafts: readonly Draft[], many: boolean): PreparedEvents | Promise<PreparedEvents>
  prepareSync(drafts: readonly Draft[], many: boolean): PreparedEvents
}

export const createPreparer = (
  options: PrepareOptions,
  newId: () => string,
  wallNow: () => number,
): Preparer => {
  const limits = { maxBytes: options.maxPayloadBytes, maxDepth: options.maxPayloadDepth }

  const check = (draft: Draft, now: number): CheckedDraft =>
    checkDraft(draft, { wallNow: now, validateHeaders: options.validateHeaders })

  /** JSON text is parsed only if its definition has something to say about the content. */
  const payloadOf = (draft: CheckedDraft): unknown => {
    if ('payload' in draft.content) return draft.content.payload
    if (!looksInside(draft.definition, options.validate)) return undefined
    return parsePayload(checkJsonText(draft.content.json, limits).text)
  }

  const validate = (draft: CheckedDraft): unknown => {
    const payload = payloadOf(draft)
    return options.validate ? validatePayload(draft, payload) : payload
  }

  const serialise = ({ draft, value }: Valid): Pick<EventRecord, 'data' | 'size' | 'contentType'> => {
    const contentType = (binary: boolean) => contentTypeFor(draft.contentType, binary)
    // Text whose schema was asked is written anew from what the schema answered; other text stays as it is.
    const schema = options.validate ? (draft.definition?.schema ?? null) : null
    if ('json' in draft.content && schema === null) {
      const { text, bytes } = options.validateJson
        ? checkJsonText(draft.content.json, limits)
        : checkSizeOnly(draft.content.json, limits.maxBytes)
      return { data: text, size: bytes, contentType: contentType(false) }
    }
    if (ArrayBuffer.isView(value)) {
      const data: PayloadData = checkBinary(value as Uint8Array, limits)
      return { data, size: data.byteLength, contentType: contentType(true) }
    }
    const { text, bytes } = serialisePayload(value, limits)
    return { data: text, size: bytes, contentType: contentType(false) }
  }

  const complete = (valid: Valid, now: number): PreparedEvent => {
    const { draft } = valid
    const record: EventRecord = Object.freeze({
      id: draft.id === null ? newId() : checkId(draft.id),
      type: draft.type,
      version: draft.version,
      key: fromDefinition('key', draft.key, draft.definition?.key, valid.value),
      aggregateType: draft.aggregateType,
      aggregateId: fromDefinition(
        'aggregateId',
        draft.aggregateId,
        draft.definition?.aggregateId,
        valid.value,
      ),
      tenantId: draft.tenantId,
      headers: draft.headers,
      ...serialise(valid),
      occurredAtMs: draft.occurredAtMs,
      createdAtMs: now,
      replacesId: null,
    })
    const { due, delayed, idempotencyKey } = draft
    return { record, due, delayed, idempotencyKey, isNew: draft.id === null && idempotencyKey === null }
  }

  const completeAll = (valid: readonly Valid[], now: number, many: boolean): PreparedEvents => {
    let total = 0
    const prepared = valid.map((one, index) => {
      const event = placed(index, many, () => complete(one, now))
      total += event.record.size
      // While they are written, so that a call of many gigabytes ends after the first few megabytes.
      if (total > MAX_BYTES_PER_CALL) {
        throw refuse(
          'events',
          'too-large',
          `have more than ${MAX_BYTES_PER_CALL} bytes of payload together; publish them in several calls`,
        )
      }
      return event
    })
    return withoutRepeats(prepared, many)
  }

  const begin = (drafts: readonly Draft[], many: boolean, settle: (draft: CheckedDraft) => unknown) => {
    if (!Array.isArray(drafts)) throw refuse('events', 'not-a-list', 'must be an array of events')
    if (drafts.length > MAX_EVENTS_PER_CALL) {
      throw refuse(
        'events',
        'too-many',
        `are ${drafts.length}; one call takes at most ${MAX_EVENTS_PER_CALL}`,
      )
    }
    const now = wallNow()
    const valid = drafts.map((given: Draft, index) =>
      placed(index, many, () => {
        const draft = check(given, now)
        return { draft, value: settle(draft) }
      }),
    )
    return { now, valid }
  }

  return {
    prepare(drafts, many) {
      const { now, valid } = begin(drafts, many, validate)
      if (!valid.some((one) => isPromise(one.value))) return completeAll(valid, now, many)
      const answers = valid.map(async ({ draft, value }, index) => {
        try {
          return { draft, value: await value }
        } catch (error) {
          throw placeError(error, many ? index : null)
        }
      })
      return Promise.all(answers).then((settled) => completeAll(settled, now, many))
    },
    prepareSync(drafts, many) {
      const { now, valid } = begin(drafts, many, (draft) => requireSync(draft, validate(draft)))
      return completeAll(valid, now, many)
    },
  }
}

const placed = <T>(index: number, many: boolean, fn: () => T): T => {
  try {
    return fn()
  } catch (error) {
    throw placeError(error, many ? index : null)
  }
}

const looksInside = (definition: AnyEventDefinition | null, validate: boolean): boolean =>
  definition !== null &&
  ((validate && definition.schema !== null) || definition.key !== null || definition.aggregateId !== null)

const checkSizeOnly = (
  text: unknown,
  maxBytes: number,
): { readonly text: string; readonly bytes: number } => {
  if (typeof text !== 'string') throw refuse('json', 'not-text', `must be text, not ${typeof text}`)
  const bytes = Buffer.byteLength(text)
  if (bytes > maxBytes) throw refuse('json', 'too-large', `is beyond the limit of ${maxBytes} bytes`)
  return { text, bytes }
}

const checkId = (id: unknown): string => {
  if (!isUuid(id)) throw refuse('id', 'not-a-uuid', 'must be a UUID; leave it out to get one')
  return id.toLowerCase()
}

/** What the draft says wins, null included; otherwise the definition is asked. */
const fromDefinition = (
  field: 'key' | 'aggregateId',
  given: string | null | undefined,
  ask: ((payload: never) => string | null) | null | undefined,
  value: unknown,
): string | null => {
  if (given !== undefined) return given
  if (ask === null || ask === undefined) return null
  let answer: unknown
  try {
    answer = ask(value as never)
  } catch (cause) {
    throw refuse(field, 'threw', `could not be found: the definition's ${field} function threw`, cause)
  }
  // A field that is missing or misspelt, not a decision: without its key the event would lose its order unseen.
  if (field === 'key' && answer === undefined) {
    throw refuse(
      field,
      'undefined',
      "is undefined: the definition's key function found none in this payload. Return null for an event that has none on purpose",
    )
  }
  return answer === null || answer === undefined ? null : checkName(field, answer)
}

/**
 * The database cannot help within one statement: two events of the same call with the same idempotency key
 * are one event, and two with the same id are a mistake.
 */
const withoutRepeats = (prepared: readonly PreparedEvent[], many: boolean): PreparedEvents => {
  if (!many) return { events: prepared, ids: prepared.map(({ record }) => record.id) }
  const seen = new Set<string>()
  const firstByKey = new Map<string, string>()
  const events: PreparedEvent[] = []
  const ids = prepared.map((one, index) => {
    const { record, idempotencyKey } = one
    if (seen.has(record.id)) throw placeError(refuse('id', 'repeated', 'is used twice in this call'), index)
    const identity = idempotencyKey === null ? null : `${record.type}\0${idempotencyKey}`
    const first = identity === null ? undefined : firstByKey.get(identity)
    if (first !== undefined) return first
    seen.add(record.id)
    if (identity !== null) firstByKey.set(identity, record.id)
    events.push(one)
    return record.id
  })
  return { events, ids }
}
