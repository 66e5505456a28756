/**
 * Headers and names travel further than payloads: into indexes, log lines, HTTP and broker headers. The rules are
 * the strictest that any of these places has, so that an event accepted today can be sent anywhere tomorrow.
 */
import { InvalidEventError, InvalidOptionError } from '../errors.ts'
import type { Headers } from './event.ts'

/** Bounds of an event's headers; `totalBytes` counts names and values in UTF-8. */
export const HEADER_LIMITS = Object.freeze({
  count: 64,
  nameChars: 128,
  valueChars: 4096,
  totalBytes: 16_384,
})

/** The longest each name may be, in UTF-16 units: never fewer than the characters a database counts. */
export const NAME_LIMITS = Object.freeze({
  type: 128,
  aggregateType: 64,
  aggregateId: 128,
  tenantId: 64,
  key: 255,
  idempotencyKey: 255,
  destination: 64,
})

export type NameKind = keyof typeof NAME_LIMITS

/** RFC 9110's token, which every broker accepts as a header name too. */
const HEADER_NAME = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/
const DESTINATION_NAME = /^[A-Za-z][A-Za-z0-9._-]*$/
/** C0, DEL and C1: line breaks among them would let a value forge another header or log line. */
const CONTROL = /\p{Cc}/u
/** With the flag u the class matches only surrogates that are not part of a pair. */
const LONE_SURROGATE = /\p{Surrogate}/u

const NO_HEADERS: Headers = Object.freeze(Object.create(null) as Record<string, string>)

/**
 * Returns a frozen copy without a prototype, so that a header called `__proto__` or `constructor` is only data.
 * Throws an InvalidEventError that names the header, never its value.
 */
export function checkHeaders(headers: unknown): Headers {
  if (headers === undefined) return NO_HEADERS
  const entries = readEntries(headers)
  if (entries.length > HEADER_LIMITS.count) {
    throw refuse('headers', 'too-many', `must be at most ${HEADER_LIMITS.count}, not ${entries.length}`)
  }
  const copy = Object.create(null) as Record<string, string>
  let totalBytes = 0
  for (const [name, value] of entries) {
    const path = `headers[${JSON.stringify(name.slice(0, HEADER_LIMITS.nameChars))}]`
    checkHeaderName(name, path)
    const text = checkHeaderValue(value, path)
    totalBytes += name.length + Buffer.byteLength(text)
    copy[name] = text
  }
  if (totalBytes > HEADER_LIMITS.totalBytes) {
    throw refuse(
      'headers',
      'too-large',
      `must have at most ${HEADER_LIMITS.totalBytes} bytes, not ${totalBytes}`,
    )
  }
  return Object.freeze(copy)
}

/** Reads every property once; a getter or proxy that throws is the caller's mistake and is reported as one. */
function readEntries(headers: unknown): [string, unknown][] {
  try {
    if (
      typeof headers === 'object' &&
      headers !== null &&
      !Array.isArray(headers) &&
      !(Symbol.iterator in headers) &&
      !(headers instanceof Promise)
    ) {
      return Object.entries(headers)
    }
  } catch (cause) {
    const message = 'The event’s headers threw when they were read.'
    throw new InvalidEventError(message, { path: 'headers', reason: 'threw', cause })
  }
  throw refuse(
    'headers',
    'not-a-map',
    'must be an object of strings by name; use Object.fromEntries for a Map, and await a Promise',
  )
}

function checkHeaderName(name: string, path: string): void {
  if (name.length > HEADER_LIMITS.nameChars) {
    throw refuse(path, 'name-too-long', `must have a name of at most ${HEADER_LIMITS.nameChars} characters`)
  }
  if (!HEADER_NAME.test(name)) {
    throw refuse(path, 'bad-name', "must have a name of letters, digits and !#$%&'*+-.^_`|~ only")
  }
}

function checkHeaderValue(value: unknown, path: string): string {
  if (typeof value !== 'string') throw refuse(path, 'not-text', `must be a string, not ${typeof value}`)
  if (value.length > HEADER_LIMITS.valueChars) {
    throw refuse(path, 'value-too-long', `must have at most ${HEADER_LIMITS.valueChars} characters`)
  }
  const problem = findBadText(value)
  if (problem !== undefined) throw refuse(path, problem.reason, problem.text)
  return value
}

/**
 * Checks one of an event's names, or a destination's; returns it. A destination's name is an option, hence the
 * other error.
 */
export function checkName(kind: NameKind, value: unknown, max: number = NAME_LIMITS[kind]): string {
  const problem = findNameProblem(kind, value, max)
  if (problem === undefined) return value as string
  if (kind !== 'destination') throw refuse(kind, problem.reason, problem.text)
  throw new InvalidOptionError(`A destination’s name ${problem.text}.`, { option: 'destinations', value })
}

interface Problem {
  readonly reason: string
  readonly text: string
}

function findNameProblem(kind: NameKind, value: unknown, max: number): Problem | undefined {
  if (typeof value !== 'string') return { reason: 'not-text', text: `must be a string, not ${typeof value}` }
  if (value === '') return { reason: 'empty', text: 'must not be empty' }
  if (value.length > max) {
    return { reason: 'too-long', text: `must have at most ${max} characters, not ${value.length}` }
  }
  if (kind === 'destination' && !DESTINATION_NAME.test(value)) {
    return {
      reason: 'bad-name',
      text: 'must begin with a letter and go on with letters, digits, ".", "_" or "-"',
    }
  }
  return findBadText(value)
}

function findBadText(text: string): Problem | undefined {
  if (CONTROL.test(text)) return { reason: 'control-character', text: 'must not contain control characters' }
  if (LONE_SURROGATE.test(text)) {
    return {
      reason: 'lone-surrogate',
      text: 'must not contain half a surrogate pair, which UTF-8 cannot hold',
    }
  }
  return undefined
}

const refuse = (path: string, reason: string, text: string): InvalidEventError =>
  new InvalidEventError(`The event’s ${path} ${text}.`, { path, reason })
