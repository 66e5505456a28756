/**
 * Copies a value into plain JSON data in one walk, and refuses what JSON would change or lose.
 *
 * Every getter and every `toJSON` runs once: what was checked is what is written, even when they answer
 * differently each time. The copy is written by the engine's own JSON.stringify, which is several times faster
 * than text built piece by piece; both together cost less than twice a bare JSON.stringify.
 *
 * As in JSON, these are left out without complaint: properties that are undefined, keys that are symbols,
 * properties that are not enumerable, and properties of arrays beside their elements. -0 becomes 0.
 */
export type RefusalReason =
  | 'undefined'
  | 'function'
  | 'symbol'
  | 'bigint'
  | 'not-finite'
  | 'cycle'
  | 'too-deep'
  | 'too-large'
  | 'nul'
  | 'lone-surrogate'
  | 'sparse-array'
  | 'invalid-date'
  | 'lossy-object'
  | 'threw'

/** Collects its path on the way out of the walk, so that the walk itself spends nothing on paths. */
export class Refusal {
  readonly segments: (string | number)[] = []
  readonly reason: RefusalReason
  readonly text: string
  readonly cause: unknown

  constructor(reason: RefusalReason, text: string, cause?: unknown) {
    this.reason = reason
    this.text = text
    this.cause = cause
  }

  get path(): string {
    const names = this.segments.toReversed().map((segment) => {
      if (typeof segment === 'number') return `[${segment}]`
      if (/^[A-Za-z_$][\w$]{0,99}$/.test(segment)) return `.${segment}`
      return `[${JSON.stringify(segment.length > 100 ? `${segment.slice(0, 100)}…` : segment)}]`
    })
    const path = `$${names.join('')}`
    return path.length > MAX_PATH_CHARS ? `${path.slice(0, MAX_PATH_CHARS)}…` : path
  }
}

const MAX_PATH_CHARS = 1000

/** Adds where it happened; anything that is not a refusal was thrown by the caller's own getter or proxy. */
export function refusedAt(error: unknown, segment: string | number): Refusal {
  const refusal = error instanceof Refusal ? error : new Refusal('threw', 'threw when it was read', error)
  // The place where a limit on the whole was crossed says nothing about the value in that place.
  if (refusal.reason !== 'too-large') refusal.segments.push(segment)
  return refusal
}

/**
 * Copies have no prototype chain worth the name: a key `__proto__` becomes plain data, and JSON.stringify finds
 * no inherited `toJSON` on them. A constructor, unlike Object.create(null), keeps V8's fast property layout.
 */
const Copy = function Copy() {} as unknown as { new (): Record<string, unknown>; prototype: object }
Copy.prototype = Object.create(null)

type ToJson = (key: string) => unknown

export class JsonCloner {
  private readonly ancestors: object[] = []
  private readonly maxDepth: number
  private readonly maxBytes: number
  /** A lower bound of the text's size: it stops a huge value before it is written, not after. */
  private bytes = 0

  constructor(limits: { readonly maxDepth: number; readonly maxBytes: number }) {
    this.maxDepth = limits.maxDepth
    this.maxBytes = limits.maxBytes
  }

  clone(value: unknown, key: string | number, isFromToJson = false): unknown {
    switch (typeof value) {
      case 'string':
        this.count(value.length + 2)
        return value
      case 'number':
        if (!Number.isFinite(value))
          throw new Refusal('not-finite', `is ${value}, which JSON turns into null`)
        this.count(1)
        return value
      case 'boolean':
      case 'undefined':
        return value
      case 'object':
        if (value === null) return null
        break
      case 'bigint':
        break
      case 'function':
        throw new Refusal('function', 'is a function; a payload is data')
      case 'symbol':
        throw new Refusal('symbol', 'is a symbol; a payload is data')
    }
    if (!isFromToJson) {
      const toJson: unknown = (value as { toJSON?: unknown }).toJSON
      if (typeof toJson === 'function') return this.cloneResultOf(toJson as ToJson, value, key)
    }
    if (typeof value === 'bigint') {
      throw new Refusal('bigint', 'is a BigInt, which JSON cannot hold; send it as a string')
    }
    return this.cloneContainer(value)
  }

  private cloneResultOf(toJson: ToJson, value: object | bigint, key: string | number): unknown {
    let replacement: unknown
    try {
      replacement = toJson.call(value, String(key))
    } catch (error) {
      throw new Refusal('threw', 'has a toJSON that threw', error)
    }
    if (replacement === null && value instanceof Date) {
      throw new Refusal('invalid-date', 'is an invalid Date, which JSON turns into null')
    }
    return this.clone(replacement, key, true)
  }

  private cloneContainer(value: object): unknown {
    const { ancestors } = this
    if (ancestors.includes(value)) throw new Refusal('cycle', 'contains itself')
    if (ancestors.length >= this.maxDepth) {
      throw new Refusal('too-deep', `is nested deeper than ${this.maxDepth} levels`)
    }
    this.count(2)
    ancestors.push(value)
    const copy = Array.isArray(value) ? this.cloneArray(value) : this.cloneObject(value)
    ancestors.pop()
    return copy
  }

  private cloneArray(array: readonly unknown[]): unknown[] {
    const copy: unknown[] = []
    let index = 0
    try {
      for (const length = array.length; index < length; index++) {
        if (index > 0) this.count(1)
        const element = this.clone(array[index], index)
        if (element === undefined) throw refuseMissing(array, index)
        copy.push(element)
      }
    } catch (error) {
      throw refusedAt(error, index)
    }
    return copy
  }

  private cloneObject(object: object): unknown {
    const prototype: unknown = Object.getPrototypeOf(object)
    const keys = Object.keys(object)
    if (prototype !== Object.prototype && prototype !== null) {
      const unboxed = unboxOrRefuse(object, prototype as object, keys.length)
      if (unboxed !== undefined) return this.clone(unboxed, '')
    }
    const copy = new Copy()
    let key = ''
    try {
      for (let i = 0; i < keys.length; i++) {
        key = keys[i] as string
        const property = this.clone((object as Record<string, unknown>)[key], key)
        if (property === undefined) continue
        this.count(key.length + 3)
        copy[key] = property
      }
    } catch (error) {
      throw refusedAt(error, key)
    }
    return copy
  }

  private count(bytes: number): void {
    this.bytes += bytes
    if (this.bytes > this.maxBytes)
      throw new Refusal('too-large', `is beyond the limit of ${this.maxBytes} bytes`)
  }
}

function refuseMissing(array: readonly unknown[], index: number): Refusal {
  if (index in array)
    return new Refusal('undefined', 'is undefined, which JSON turns into null inside an array')
  return new Refusal('sparse-array', 'is a hole in a sparse array, which JSON turns into null')
}

/**
 * Instances of classes are written by their own enumerable properties, as JSON does, unless that would lose what
 * they are there for. `new Number(1)` and its like come back as the primitive.
 */
function unboxOrRefuse(object: object, prototype: object, keyCount: number): unknown {
  // An object literal of another realm (a vm context, a test runner's sandbox) is as plain as one of ours.
  if (Object.getPrototypeOf(prototype) === null) return undefined
  if (object instanceof Number || object instanceof String || object instanceof Boolean)
    return object.valueOf()
  if (ArrayBuffer.isView(object) || object instanceof ArrayBuffer) {
    throw new Refusal('lossy-object', 'holds bytes; publish a binary payload, or encode them as base64 text')
  }
  const tag = Object.prototype.toString.call(object).slice(8, -1)
  const hint = HINTS.get(tag)
  if (hint !== undefined) throw new Refusal('lossy-object', `is a ${tag}, which JSON would empty; ${hint}`)
  if (keyCount === 0) {
    const hint = 'give its class a toJSON, or send a plain object'
    throw new Refusal(
      'lossy-object',
      `has no enumerable properties of its own, so JSON would empty it; ${hint}`,
    )
  }
  return undefined
}

const HINTS: ReadonlyMap<string, string> = new Map([
  ['Map', 'use Object.fromEntries(map) or [...map]'],
  ['Set', 'use [...set]'],
  ['WeakMap', 'send data that can be listed'],
  ['WeakSet', 'send data that can be listed'],
  ['Promise', 'await it first'],
  ['RegExp', 'send its source'],
  ['Error', 'send its message and code'],
  ['ArrayBuffer', 'publish a binary payload'],
  ['SharedArrayBuffer', 'publish a binary payload'],
  ['BigInt', 'send it as a string'],
  ['Symbol', 'send it as a string'],
])
