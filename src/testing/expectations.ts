/** Assertions about published events. They throw what `node:assert` throws, which every test runner understands. */
import { AssertionError } from 'node:assert'
import { isDeepStrictEqual } from 'node:util'
import {
  type AnyEventDefinition,
  type EventDefinition,
  isDefinition,
  type Stored,
} from '../core/define-event.ts'
import type { OutboxEvent } from '../core/model/event.ts'

/** Any part of a payload, at any depth; arrays and bytes are compared as a whole. */
export type PartOf<T> = unknown extends T
  ? unknown
  : T extends readonly unknown[] | Uint8Array
    ? T
    : T extends object
      ? { readonly [K in keyof T]?: PartOf<T[K]> }
      : T

export interface Expectations {
  /** The first event of this kind that contains `part`; throws a message that lists what was published instead. */
  expectPublished<Input, Output>(
    definition: EventDefinition<string, Input, Output>,
    part?: PartOf<Stored<Output>>,
  ): OutboxEvent<Stored<Output>>
  expectPublished<T = unknown>(type: string, part?: PartOf<T>): OutboxEvent<T>
  expectNotPublished<Input, Output>(
    definition: EventDefinition<string, Input, Output>,
    part?: PartOf<Stored<Output>>,
  ): void
  expectNotPublished(type: string, part?: unknown): void
}

const MOST_LISTED = 20
const LONGEST_PAYLOAD = 400

const isPlain = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Uint8Array)

/** Whether everything that `part` says is so in `whole`. */
export const contains = (whole: unknown, part: unknown): boolean => {
  if (!isPlain(part) || !isPlain(whole)) return isDeepStrictEqual(whole, part)
  return Object.entries(part).every(
    ([name, value]) => Object.hasOwn(whole, name) && contains(whole[name], value),
  )
}

const show = (value: unknown): string => {
  const text = JSON.stringify(value) ?? String(value)
  return text.length <= LONGEST_PAYLOAD ? text : `${text.slice(0, LONGEST_PAYLOAD)}…`
}

const payloadOf = (event: OutboxEvent): string =>
  event.data instanceof Uint8Array ? `<${event.data.byteLength} bytes>` : show(event.payload)

const list = (events: readonly OutboxEvent[]): string => {
  if (events.length === 0) return 'Nothing was published.'
  const lines = events.slice(0, MOST_LISTED).map((event) => `  ${event.type} ${payloadOf(event)}`)
  const more = events.length > MOST_LISTED ? [`  … and ${events.length - MOST_LISTED} more`] : []
  return ['Published were, in this order:', ...lines, ...more].join('\n')
}

const describe = (type: string, part: unknown): string =>
  part === undefined ? type : `${type} with ${show(part)}`

export const createExpectations = (
  published: (definition: AnyEventDefinition | null) => readonly OutboxEvent[],
): Expectations => {
  const find = (kind: string | AnyEventDefinition, part: unknown) => {
    const definition = isDefinition(kind) ? kind : null
    const type = isDefinition(kind) ? kind.type : kind
    const all = published(definition)
    const found = all.find(
      (event) => event.type === type && (part === undefined || contains(event.payload, part)),
    )
    return { all, found, type }
  }
  const expectPublished = (kind: string | AnyEventDefinition, part?: unknown): OutboxEvent => {
    const { all, found, type } = find(kind, part)
    if (found !== undefined) return found
    throw new AssertionError({
      message: `Expected that ${describe(type, part)} was published, but it was not. ${list(all)}`,
      actual: all.map((event) => ({ type: event.type, payload: event.payload })),
      expected: { type, payload: part },
      operator: 'expectPublished',
      stackStartFn: expectPublished,
    })
  }
  const expectNotPublished = (kind: string | AnyEventDefinition, part?: unknown): void => {
    const { all, found, type } = find(kind, part)
    if (found === undefined) return
    throw new AssertionError({
      message: `Expected that ${describe(type, part)} was not published, but it was: ${payloadOf(found)}. ${list(all)}`,
      actual: { type: found.type, payload: found.payload },
      operator: 'expectNotPublished',
      stackStartFn: expectNotPublished,
    })
  }
  return { expectPublished, expectNotPublished } as Expectations
}
