/**
 * What a listener sees of an event. Parsing and dates wait until somebody asks: a listener that forwards the
 * bytes, or only looks at the type, pays for nothing else.
 */
import type { AnyEventDefinition } from './define-event.ts'
import { ERROR_CODES, OutboxError } from './errors.ts'
import type { EventRecord, Headers, OutboxEvent, PayloadData } from './model/event.ts'

class EventView implements OutboxEvent {
  readonly id: string
  readonly type: string
  readonly version: number
  readonly key: string | null
  readonly aggregateType: string | null
  readonly aggregateId: string | null
  readonly tenantId: string | null
  readonly headers: Headers
  readonly contentType: string
  readonly replacesId: string | null
  readonly data: PayloadData
  readonly #record: EventRecord
  readonly #definition: AnyEventDefinition | null
  #payload: { readonly value: unknown } | undefined
  #occurredAt: Date | undefined
  #createdAt: Date | undefined

  constructor(record: EventRecord, definition: AnyEventDefinition | null) {
    this.id = record.id
    this.type = record.type
    // The version is that of the payload the listener gets, which the upcasters brought up.
    this.version = definition === null ? record.version : Math.max(record.version, definition.version)
    this.key = record.key
    this.aggregateType = record.aggregateType
    this.aggregateId = record.aggregateId
    this.tenantId = record.tenantId
    this.headers = record.headers
    this.contentType = record.contentType
    this.replacesId = record.replacesId
    this.data = record.data
    this.#record = record
    this.#definition = definition
  }

  get payload(): unknown {
    this.#payload ??= { value: readPayload(this.#record, this.#definition) }
    return this.#payload.value
  }

  get occurredAt(): Date {
    this.#occurredAt ??= new Date(this.#record.occurredAtMs)
    return this.#occurredAt
  }

  get createdAt(): Date {
    this.#createdAt ??= new Date(this.#record.createdAtMs)
    return this.#createdAt
  }

  /** Getters of a class are invisible to JSON; this keeps a logged event complete, without the raw bytes. */
  toJSON(): Record<string, unknown> {
    const { data: _, ...fields } = this as EventView & Record<string, unknown>
    return { ...fields, occurredAt: this.occurredAt, createdAt: this.createdAt, payload: this.payload }
  }
}

const readPayload = (record: EventRecord, definition: AnyEventDefinition | null): unknown => {
  if (typeof record.data !== 'string') return record.data
  let payload: unknown
  try {
    payload = JSON.parse(record.data)
  } catch (cause) {
    throw new OutboxError(ERROR_CODES.undecodable, `the payload of event ${record.id} is not JSON`, {
      eventId: record.id,
      cause,
    })
  }
  return definition === null ? payload : upcastPayload(payload, record, definition)
}

/** One version at a time, so that an upcaster never needs to know more than its neighbour's shape. */
const upcastPayload = (payload: unknown, record: EventRecord, definition: AnyEventDefinition): unknown => {
  let current = payload
  for (let from = record.version; from < definition.version; from++) {
    const step = definition.upcast[from]
    if (step === undefined) {
      throw new OutboxError(
        ERROR_CODES.undecodable,
        `event ${record.id} has version ${record.version} of "${record.type}", and the definition of version ` +
          `${definition.version} has no upcast from ${from} to ${from + 1}: add upcast: { ${from}: (old) => … }`,
        { eventId: record.id, type: record.type, from },
      )
    }
    current = step(current)
  }
  return current
}

/** With a definition the payload is brought up to its version; bytes are handed over as they are, not copied. */
export const viewEvent = <T = unknown>(
  record: EventRecord,
  definition: AnyEventDefinition | null = null,
): OutboxEvent<T> => new EventView(record, definition) as OutboxEvent<T>
