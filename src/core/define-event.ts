/**
 * The typed catalogue of an application's events. A definition is called with a payload and gives a draft;
 * nothing is checked or copied until the draft is published, so that one place (stage 1) refuses what is wrong.
 */
import { InvalidOptionError, readGiven } from './errors.ts'
import { checkName } from './model/headers.ts'
import { refuseUnknown } from './model/unknown-names.ts'
import type { SchemaInput, SchemaOutput, StandardSchema } from './standard-schema.ts'

/** Something with a name, such as a member of an enum-like object; strings and string enums work as they are. */
export type Named = string | { readonly name: string }

export interface DraftOptions {
  /** UUID; made by Posthaste when absent. */
  readonly id?: string | undefined
  /** Order is kept per key and destination; null turns the definition's key off for this event. */
  readonly key?: string | null | undefined
  readonly aggregateType?: Named | null | undefined
  readonly aggregateId?: string | null | undefined
  readonly tenantId?: string | null | undefined
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** Deliver no sooner than this after the insert, in ms. Not together with `dueAt`. */
  readonly delayMs?: number | undefined
  readonly dueAt?: Date | undefined
  /** A second event of this type with the same key is not published. */
  readonly idempotencyKey?: string | null | undefined
  /** When it happened; now by default. */
  readonly occurredAt?: Date | undefined
  /** `application/json` by default; required for a payload of bytes. */
  readonly contentType?: string | undefined
  /** Version of the payload's shape; 1 by default, and the definition's where there is one. */
  readonly version?: number | undefined
}

/** What a definition makes of a payload: an event that was said but not yet published. */
export interface EventDraft<Type extends string = string, Payload = unknown>
  extends Omit<DraftOptions, 'version'> {
  readonly type: Type
  readonly payload: Payload
  readonly definition: AnyEventDefinition
}

/** Text that is JSON already; it is stored as it is. */
export interface JsonDraft extends DraftOptions {
  readonly type: string
  readonly json: string
  readonly definition?: AnyEventDefinition
}

/** An event without a definition: `{ type, payload, ...options }`. */
export interface PlainEvent<Payload = unknown> extends DraftOptions {
  readonly type: Named | AnyEventDefinition
  readonly payload: Payload
}

export type Draft = EventDraft | JsonDraft | PlainEvent

/** What a listener of the definition gets: the payload after its way through JSON, where a Date is a string. */
export type Stored<T> = unknown extends T
  ? T
  : T extends Uint8Array | string | number | boolean | null | undefined
    ? T
    : T extends { toJSON(): infer J }
      ? Stored<J>
      : T extends (...args: never[]) => unknown
        ? never
        : T extends object
          ? { [K in keyof T]: Stored<T[K]> }
          : T

/** From the version it stands at, one step up: `{ 1: (v1) => v2, 2: (v2) => v3 }` for version 3. */
// biome-ignore lint/suspicious/noExplicitAny: only the application knows the shapes of its older versions.
export type Upcast = Readonly<Record<number, (old: any) => unknown>>

interface CommonOptions<Payload> {
  /** Version of the payload's shape, from 1. Default 1. */
  readonly version?: number
  /** Aggregate type of every event of this kind. */
  readonly aggregate?: Named
  readonly aggregateId?: (payload: Payload) => string | null
  /** Order is kept per key and destination; null or no function: order does not matter. Undefined is refused. */
  readonly key?: (payload: Payload) => string | null
  readonly contentType?: string
  /** For listeners, when an event of an older version is delivered; one entry for each version below this one. */
  readonly upcast?: Upcast
}

export interface DefinitionOptions<Payload> extends CommonOptions<Payload> {
  readonly schema?: undefined
}

export interface SchemaDefinitionOptions<S extends StandardSchema> extends CommonOptions<SchemaOutput<S>> {
  readonly schema: S
}

export interface EventDefinition<Type extends string = string, Input = unknown, Output = Input> {
  (payload: Input, options?: DraftOptions): EventDraft<Type, Input>
  readonly type: Type
  readonly version: number
  readonly schema: StandardSchema<Input, Output> | null
  readonly aggregate: string | null
  readonly aggregateId: ((payload: Output) => string | null) | null
  readonly key: ((payload: Output) => string | null) | null
  readonly contentType: string | null
  readonly upcast: Upcast
}

// biome-ignore lint/suspicious/noExplicitAny: any definition, whatever it takes; unknown would refuse them all.
export type AnyEventDefinition = EventDefinition<string, any, any>

const LAST_VERSION = 32_767

const DEFINITION_NAMES: ReadonlySet<string> = new Set<keyof SchemaDefinitionOptions<StandardSchema>>([
  'version',
  'schema',
  'aggregate',
  'aggregateId',
  'key',
  'contentType',
  'upcast',
])

export const nameOf = (named: Named): string => (typeof named === 'string' ? named : named?.name)

export function defineEvent<Type extends string, S extends StandardSchema>(
  type: Type,
  options: SchemaDefinitionOptions<S>,
): EventDefinition<Type, SchemaInput<S>, SchemaOutput<S>>
export function defineEvent<Type extends string, Payload = unknown>(
  type: Type,
  options?: DefinitionOptions<Payload>,
): EventDefinition<Type, Payload>
export function defineEvent(type: string, options: GivenOptions = {}): AnyEventDefinition {
  return readGiven('defineEvent', () => createDefinition(type, options))
}

type GivenOptions = CommonOptions<never> & { readonly schema?: StandardSchema | undefined }

const createDefinition = (type: string, options: GivenOptions): AnyEventDefinition => {
  checkKinds(type, options)
  const version = options.version ?? 1
  const upcast = Object.freeze({ ...options.upcast })
  checkDefinition(type, version, upcast)
  const definition = (payload: unknown, given: DraftOptions = {}): EventDraft =>
    // The definition decides type and version: a draft that lies about them would be read by the wrong upcaster.
    Object.freeze({ ...given, version, type, payload, definition: definition as AnyEventDefinition })
  const properties = {
    type,
    version,
    schema: options.schema ?? null,
    aggregate: options.aggregate === undefined ? null : nameOf(options.aggregate),
    aggregateId: options.aggregateId ?? null,
    key: options.key ?? null,
    contentType: options.contentType ?? null,
    upcast,
  }
  for (const [name, value] of Object.entries(properties)) {
    Object.defineProperty(definition, name, { value, enumerable: true })
  }
  Object.defineProperty(definition, 'name', { value: type })
  return Object.freeze(definition) as unknown as AnyEventDefinition
}

/** A type that is no text is not shown: some objects cannot be made one. */
const calledWith = (type: unknown): string =>
  typeof type === 'string' ? `defineEvent("${type.slice(0, 255)}")` : 'defineEvent'

const refuser =
  (type: unknown) =>
  (option: string, value: unknown, text: string): never => {
    throw new InvalidOptionError(`${calledWith(type)}: ${text}`, { option, value })
  }

/** Values of the wrong kind; otherwise they would be found out by the first publish. */
const checkKinds = (type: unknown, options: unknown): void => {
  refuseUnknown(calledWith(type), options, DEFINITION_NAMES)
  const refuse = refuser(type)
  const { schema, key, aggregate, aggregateId, contentType, upcast } = options as Record<string, unknown>
  const isSet = (value: unknown): boolean => value !== undefined && value !== null
  if (isSet(schema)) {
    const standard = (schema as Partial<StandardSchema>)['~standard']
    if (typeof standard?.validate !== 'function')
      refuse('schema', schema, 'schema must be a Standard Schema, such as one of zod, valibot or arktype')
  }
  for (const [name, value] of Object.entries({ key, aggregateId })) {
    if (isSet(value) && typeof value !== 'function')
      refuse(name, value, `${name} must be a function of the payload`)
  }
  if (isSet(aggregate) && typeof nameOf(aggregate as Named) !== 'string')
    refuse('aggregate', aggregate, 'aggregate must be a name or an object with a name')
  if (isSet(contentType) && typeof contentType !== 'string')
    refuse('contentType', contentType, 'contentType must be a media type, such as application/json')
  if (isSet(upcast) && typeof upcast !== 'object')
    refuse('upcast', upcast, 'upcast must be an object of functions, one for each older version')
}

const checkDefinition = (type: unknown, version: number, upcast: Upcast): void => {
  const refuse = refuser(type)
  try {
    checkName('type', type)
  } catch (error) {
    refuse('type', type, (error as Error).message)
  }
  if ((type as string).includes('*'))
    refuse('type', type, 'a type must not contain "*", which stands for many types')
  if (!Number.isInteger(version) || version < 1 || version > LAST_VERSION) {
    refuse(
      'version',
      version,
      `version must be a whole number from 1 to ${LAST_VERSION}, not ${typeof version === 'number' ? version : typeof version}`,
    )
  }
  for (const from of Object.keys(upcast).map(Number)) {
    if (!(from >= 1 && from < version)) {
      refuse(
        'upcast',
        from,
        `upcast has an entry for ${from}, but only versions below ${version} can be brought up`,
      )
    }
    if (typeof upcast[from] !== 'function')
      refuse('upcast', upcast[from], `upcast[${from}] must be a function`)
  }
}

/** JSON text that is stored byte for byte; a definition's schema, if there is one, still checks it. */
export const ofJson = (
  type: Named | AnyEventDefinition,
  json: string,
  options: DraftOptions = {},
): JsonDraft => {
  if (!isDefinition(type)) return Object.freeze({ ...options, type: nameOf(type), json })
  return Object.freeze({
    ...options,
    version: options.version ?? type.version,
    type: type.type,
    json,
    definition: type,
  })
}

/** By shape rather than by identity: an application can hold the ESM and the CommonJS build side by side. */
export const isDefinition = (value: unknown): value is AnyEventDefinition =>
  typeof value === 'function' && 'type' in value && 'upcast' in value && 'version' in value
