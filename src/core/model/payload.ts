/**
 * Payloads are serialised once, at publish, and stay those bytes ever after. Whatever JSON or a database would
 * change, lose or reject is refused here, before any SQL, because an error from the database would take the
 * caller's whole transaction with it.
 */
import { InvalidEventError } from '../errors.ts'
import { JsonCloner, Refusal, refusedAt } from './json-clone.ts'

export interface PayloadLimits {
  /** UTF-8 bytes of the text, or bytes of a binary payload. */
  readonly maxBytes: number
  /** Arrays and objects open around a value, itself included if it is one; a bare string has depth 0. */
  readonly maxDepth: number
}

export const DEFAULT_PAYLOAD_LIMITS: PayloadLimits = Object.freeze({ maxBytes: 1_048_576, maxDepth: 64 })

export interface PayloadText {
  readonly text: string
  /** UTF-8 bytes of `text`. */
  readonly bytes: number
}

/** Turns a value into JSON text, or throws an InvalidEventError that names the place and the reason. */
export function serialisePayload(
  value: unknown,
  limits: PayloadLimits = DEFAULT_PAYLOAD_LIMITS,
): PayloadText {
  try {
    const copy = new JsonCloner(limits).clone(value, '')
    if (copy === undefined) throw new Refusal('undefined', 'is undefined; use null for an event without data')
    const text = JSON.stringify(copy)
    // JSON.stringify escapes exactly these, so searching its output is enough. A backslash in the data can look
    // the same, which the closer look settles.
    if (text.includes('\\u0000') || text.includes('\\ud')) refuseBadText(copy)
    return withinSize(text, limits)
  } catch (error) {
    throw asInvalidEvent(error)
  }
}

/**
 * Checks JSON that the caller wrote, by the same rules; the text itself is kept byte for byte. It looks at the
 * text rather than at the parsed value, because a repeated key hides all values but the last one from a parser.
 */
export function checkJsonText(text: string, limits: PayloadLimits = DEFAULT_PAYLOAD_LIMITS): PayloadText {
  if (typeof text !== 'string') throw invalid('$', 'not-text', `must be a string of JSON, not ${typeof text}`)
  try {
    const checked = withinSize(text, limits)
    const parsed = parseOrRefuse(text)
    const found = findInJson(text, limits.maxDepth)
    if (found === undefined) return checked
    // The walk finds the path, unless a repeated key hides the place; then the reason has to do.
    new JsonCloner({ ...limits, maxBytes: Number.POSITIVE_INFINITY }).clone(parsed, '')
    refuseBadText(parsed)
    throw found
  } catch (error) {
    throw asInvalidEvent(error)
  }
}

/** Checks a binary payload and copies it, so that the caller may go on using the array. */
export function checkBinary(bytes: Uint8Array, limits: Pick<PayloadLimits, 'maxBytes'>): Uint8Array {
  if (!ArrayBuffer.isView(bytes) || Object.prototype.toString.call(bytes) !== '[object Uint8Array]') {
    throw invalid('$', 'not-bytes', 'must be a Uint8Array or Buffer')
  }
  if (bytes.byteLength > limits.maxBytes) {
    throw invalid(
      '$',
      'too-large',
      `has ${bytes.byteLength} bytes, beyond the limit of ${limits.maxBytes} bytes`,
    )
  }
  return new Uint8Array(bytes)
}

/** A key `__proto__` becomes an own property here, as JSON.parse guarantees; it never reaches a prototype. */
export function parsePayload(text: string): unknown {
  return JSON.parse(text)
}

function withinSize(text: string, limits: PayloadLimits): PayloadText {
  // Every UTF-16 unit needs at least one byte, so a text that is too long need not be measured.
  const bytes = text.length > limits.maxBytes ? text.length : Buffer.byteLength(text)
  if (bytes > limits.maxBytes)
    throw new Refusal('too-large', `is beyond the limit of ${limits.maxBytes} bytes`)
  return { text, bytes }
}

function parseOrRefuse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    // The engine's message quotes the text, which may be personal data; only the place in it is passed on.
    const position = /position (\d+)/.exec(String((error as Error).message))?.[1]
    const place = position === undefined ? '' : ` (at character ${position})`
    throw invalid('$', 'invalid-json', `is not valid JSON${place}`)
  }
}

/** Recursion is safe: only values that passed the depth limit get here. */
function refuseBadText(value: unknown): void {
  if (typeof value === 'string') refuseIf(badText(value))
  if (typeof value !== 'object' || value === null) return
  const isArray = Array.isArray(value)
  for (const key of Object.keys(value)) {
    try {
      if (!isArray) refuseIf(badText(key))
      refuseBadText((value as Record<string, unknown>)[key])
    } catch (error) {
      throw refusedAt(error, isArray ? Number(key) : key)
    }
  }
}

function refuseIf(refusal: Refusal | undefined): void {
  if (refusal !== undefined) throw refusal
}

/** The engine's own check is many times faster than a pattern, and newer than the library types used here. */
const isWellFormed = (text: string): boolean => (text as string & { isWellFormed(): boolean }).isWellFormed()

function badText(text: string): Refusal | undefined {
  if (text.includes('\0')) return new Refusal('nul', 'contains the character U+0000, which databases reject')
  if (isWellFormed(text)) return undefined
  return new Refusal('lone-surrogate', 'contains half a surrogate pair, which UTF-8 cannot hold')
}

/** One pass over valid JSON text for what JSON.parse accepts but a database or a receiver may not. */
function findInJson(text: string, maxDepth: number): Refusal | undefined {
  // Nearly all texts have neither, and then no string in them has to be looked at.
  const hasOddText = text.includes('\\u') || !isWellFormed(text)
  let depth = 0
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i)
    if (unit === QUOTE) {
      const end = endOfString(text, i)
      const refusal = hasOddText ? badText(JSON.parse(text.slice(i, end)) as string) : undefined
      if (refusal !== undefined) return refusal
      i = end - 1
    } else if (unit === OPEN_BRACKET || unit === OPEN_BRACE) {
      depth += 1
      if (depth > maxDepth) return new Refusal('too-deep', `is nested deeper than ${maxDepth} levels`)
    } else if (unit === CLOSE_BRACKET || unit === CLOSE_BRACE) {
      depth -= 1
    } else if (unit >= DIGIT_0 && unit <= DIGIT_9) {
      const end = endOfNumber(text, i)
      if (!isFiniteNumber(text, i, end)) {
        return new Refusal('not-finite', 'contains a number beyond the range of a double')
      }
      i = end - 1
    }
  }
  return undefined
}

const QUOTE = 0x22
const BACKSLASH = 0x5c
const OPEN_BRACKET = 0x5b
const CLOSE_BRACKET = 0x5d
const OPEN_BRACE = 0x7b
const CLOSE_BRACE = 0x7d
const DIGIT_0 = 0x30
const DIGIT_9 = 0x39

function endOfString(text: string, start: number): number {
  let i = start + 1
  for (let unit = text.charCodeAt(i); unit !== QUOTE; unit = text.charCodeAt(i))
    i += unit === BACKSLASH ? 2 : 1
  return i + 1
}

/** Past the last character that a number can contain: digits, `.`, `e`, `E`, `+` and `-`. */
function endOfNumber(text: string, start: number): number {
  let i = start + 1
  while (i < text.length && '0123456789.eE+-'.includes(text.charAt(i))) i += 1
  return i
}

/** The range ends at 1.8e308: a number needs an exponent or more than 300 digits to leave it. */
function isFiniteNumber(text: string, start: number, end: number): boolean {
  const number = end - start < 5 ? '' : text.slice(start, end)
  return !(number.length > 300 || /e/i.test(number)) || Number.isFinite(Number(number))
}

function asInvalidEvent(error: unknown): InvalidEventError {
  if (error instanceof InvalidEventError) return error
  const refusal = error instanceof Refusal ? error : new Refusal('threw', 'threw when it was read', error)
  return invalid(refusal.path, refusal.reason, refusal.text, refusal.cause)
}

function invalid(path: string, reason: string, text: string, cause?: unknown): InvalidEventError {
  const where = path === '$' ? 'The payload' : `The payload's ${path}`
  return new InvalidEventError(`${where} ${text}.`, {
    path,
    reason,
    ...(cause === undefined ? {} : { cause }),
  })
}
